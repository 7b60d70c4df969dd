//! `prover status`: what a daemon is doing.

use std::fmt::Write as _;
use std::time::Duration;

use proofmill_proto::{names, v1};

use crate::cli::StatusArgs;
use crate::daemon::{self, client_error};
use crate::error::CliError;
use crate::progress::seconds;
use crate::runtime;

/// How often a watched status is shown.
const INTERVAL: Duration = Duration::from_secs(1);
/// Partitions shown at most.
const SHOWN: usize = 20;

/// Prints the status once, or again and again.
pub fn status(args: StatusArgs) -> Result<(), CliError> {
    let config = daemon::config(&args.daemon)?;
    runtime::block_on(async {
        let client = daemon::connect(config)?;
        if !args.watch {
            print!("{}", shown(&client.status(true).await.map_err(client_error)?, args.json));
            return Ok(());
        }
        let clear = std::io::IsTerminal::is_terminal(&std::io::stdout()) && !args.json;
        client
            .watch_status(INTERVAL, true, |status| {
                let clear = if clear { "\x1b[H\x1b[2J" } else { "" };
                print!("{clear}{}", shown(&status, args.json));
                std::io::Write::flush(&mut std::io::stdout()).is_ok()
            })
            .await
            .map_err(client_error)
    })
}

fn shown(status: &v1::EngineStatus, json: bool) -> String {
    if json {
        return serde_json::to_string(status).map_or_else(|e| format!("{{\"error\":\"{e}\"}}\n"), |line| line + "\n");
    }
    table(status)
}

/// The status in words.
fn table(status: &v1::EngineStatus) -> String {
    let time = |us| seconds(Duration::from_micros(us));
    let mut text = String::new();
    let state = match (status.draining, status.not_ready.as_slice()) {
        (true, _) => "draining".to_owned(),
        (false, []) => "ready".to_owned(),
        (false, reasons) => format!("not ready: {}", reasons.join("; ")),
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "engine {} ({}), up {}, {state}", status.boot_id, status.version, time(status.at_us));
    for device in &status.devices {
        let quarantined = if device.quarantined { ", QUARANTINED" } else { "" };
        let _ = writeln!(text, "\ndevice {}: {} ({}){quarantined}", device.id, device.state, device.cause);
        let mut ledger: Vec<_> = device.ledger.iter().filter(|entry| entry.duration_us > 0).collect();
        ledger.sort_by_key(|entry| std::cmp::Reverse(entry.duration_us));
        for entry in ledger {
            let share = 100.0 * entry.duration_us as f64 / device.watermark_us.max(1) as f64;
            let _ = writeln!(
                text,
                "  {:<4} {:<20} {:>12} {share:>5.1} %",
                entry.state,
                entry.cause,
                time(entry.duration_us)
            );
        }
    }
    let memory = |name: &str| status.memory.iter().find(|m| m.r#use == name).map_or(0, |m| m.bytes);
    let mib = |bytes: u64| bytes >> 20;
    let _ = writeln!(text, "\nmemory: {} of {} MiB free", mib(memory("free")), mib(memory("budget")));
    for circuit in &status.circuits {
        let _ = writeln!(text, "key {}: {} MiB resident", circuit.name, mib(circuit.resident_bytes));
    }
    let _ = writeln!(text, "\n{} partitions", status.partitions.len());
    for partition in status.partitions.iter().take(SHOWN) {
        let id = partition.id.as_ref().map_or_else(String::new, |id| format!("{}/{}", id.job, id.partition));
        let _ = writeln!(
            text,
            "  {id:<40} {:<20} {:<9} {:<15} since {}",
            partition.circuit,
            names::priority(partition.priority),
            names::state(partition.state),
            time(status.at_us.saturating_sub(partition.since_us))
        );
    }
    if let Some(more) = status.partitions.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
    text
}
