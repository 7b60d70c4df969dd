//! Wall and CPU seconds, and peak memory, of this process and its children.

use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde::Serialize;

use crate::error::CliError;

/// What something took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// By the clock.
    pub wall: f64,
    /// User and system time of all threads.
    pub cpu: f64,
}

impl Cost {
    /// The median by CPU time; all zero without any.
    pub fn median(mut costs: Vec<Self>) -> Self {
        costs.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
        costs.get(costs.len() / 2).copied().unwrap_or_default()
    }
}

/// Runs `work` and tells what it took.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (wall, cpu) = (Instant::now(), cpu_seconds(UsageWho::RUSAGE_SELF));
    let result = work();
    (result, Cost { wall: wall.elapsed().as_secs_f64(), cpu: cpu_seconds(UsageWho::RUSAGE_SELF) - cpu })
}

/// Runs a command to its end and tells what it took; its failure is an error with its last words.
pub fn of_child(command: &mut Command) -> Result<Cost, CliError> {
    let (wall, cpu) = (Instant::now(), cpu_seconds(UsageWho::RUSAGE_CHILDREN));
    let shown = format!("{command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|e| CliError::Engine(format!("cannot run {shown}: {e}")))?;
    let cost = Cost { wall: wall.elapsed().as_secs_f64(), cpu: cpu_seconds(UsageWho::RUSAGE_CHILDREN) - cpu };
    if output.status.success() {
        return Ok(cost);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(CliError::Engine(format!("{shown} failed ({}): {}", output.status, words.trim())))
}

/// The largest resident memory that any child so far has had, in bytes.
pub fn peak_of_children() -> Result<u64, CliError> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|e| CliError::Engine(format!("cannot measure memory: {e}")))?;
    Ok(u64::try_from(usage.max_rss()).unwrap_or(0) * 1024)
}

/// The processor's name, with the flags that decide its speed here.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(": ").nth(1)).unwrap_or("")
    };
    let flags: Vec<&str> =
        field("flags").split(' ').filter(|flag| ["bmi2", "adx", "avx2", "avx512ifma"].contains(flag)).collect();
    format!("{} ({})", field("model name"), flags.join(" "))
}

fn cpu_seconds(who: UsageWho) -> f64 {
    let seconds = |usage: Usage| {
        let part = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        part(usage.user_time()) + part(usage.system_time())
    };
    getrusage(who).map_or(0.0, seconds)
}
