//! `prover import`: a zkey checked completely, once, and kept in the form that proofs start from at once.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use proofmill_engine::job::Source;
use proofmill_engine::parts::Cancel;
use proofmill_groth16::device::Device;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::format::source::{self, FileSource, ReadError};
use proofmill_groth16::key::import::{ImportControl, ImportError, import_zkey};
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_sources::policy::FileAccess;
use proofmill_sources::url::redact;
use serde_json::json;

use crate::circuits::Circuits;
use crate::cli::ImportArgs;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::output;
use crate::progress::seconds;
use crate::wiring;
use proofmill_crds::hex;

/// How often Ctrl-C is looked for.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// Imports into the cache, or into a file of its own.
pub fn import(args: ImportArgs, environment: &Environment) -> Result<(), CliError> {
    let interrupt = Interrupt::catch()?;
    let begun = Instant::now();
    let wanted = Source { url: url(&args.key)?, sha256: args.sha256 };
    let fetcher =
        Arc::new(wiring::fetcher(&args.sources, environment, FileAccess::Manifest { base: "/".into() }, None)?);
    let circuits = wiring::circuits(fetcher, &args.sources, environment, false, false, 0)?;
    let cancel = Cancel::default();
    cancel_on(interrupt, cancel.clone());
    // A signed URL holds a secret.
    let name = redact(&args.key);
    let bar = ProgressBar::new(0);
    bar.set_style(
        ProgressStyle::with_template("importing {wide_bar} {binary_bytes}/{binary_total_bytes} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let (key, written) = match &args.out {
        None => (circuits.load_key(&name, &wanted, &progress, &cancel)?, None),
        Some(out) => {
            let key = import_to(&circuits, &name, &wanted, out, &progress, &cancel)?;
            (key, Some(file_digest(out)?))
        }
    };
    bar.finish_and_clear();
    report(&args, &key, written, begun)
}

/// Cancels once the user asks to stop, also while a server stalls or another process imports the same key.
fn cancel_on(interrupt: Interrupt, cancel: Cancel) {
    std::thread::spawn(move || {
        while !interrupt.requested() {
            std::thread::sleep(INTERRUPT_POLL);
        }
        cancel.cancel();
    });
}

/// Prints what a cluster wants to know of a key. `written` is the SHA-256 of the file that was asked for: what a Circuit
/// must name to use that file as its key.
fn report(args: &ImportArgs, key: &Arc<ProvingKey>, written: Option<[u8; 32]>, begun: Instant) -> Result<(), CliError> {
    let info = key.info();
    let set = CpuDevice::new(1)
        .map_err(|e| CliError::Engine(e.to_string()))?
        .working_set(&CircuitKey::Groth16(Arc::clone(key)));
    let partition_bytes = set.evaluations + set.host;
    let insecure = info.security.is_insecure();
    if args.json {
        println!(
            "{}",
            json!({
                "sha256": hex::encode(&info.source_digest),
                "importedSha256": written.map(|digest| hex::encode(&digest)),
                "curve": info.curve,
                "constraints": info.constraints,
                "domain": 1u64 << info.domain_log,
                "variables": info.variables,
                "publicSignals": info.public,
                "keyBytes": info.bytes,
                "partitionBytes": partition_bytes,
                "partitions": 1,
                "verifyingKeySha256": hex::encode(&key.verifying_key_digest()),
                "security": info.security.to_string(),
                "insecure": insecure,
                "milliseconds": begun.elapsed().as_millis() as u64,
            })
        );
        return Ok(());
    }
    println!("imported in {}", seconds(begun.elapsed()));
    let rows = [
        ("sha256", hex::encode(&info.source_digest)),
        ("curve", info.curve.to_string()),
        ("constraints", info.constraints.to_string()),
        ("domain", (1u64 << info.domain_log).to_string()),
        ("public signals", info.public.to_string()),
        ("key bytes", info.bytes.to_string()),
        ("bytes a proof", partition_bytes.to_string()),
        ("verifying key", hex::encode(&key.verifying_key_digest())),
        ("security", info.security.to_string()),
    ];
    for (name, value) in rows {
        println!("{name:<15} {value}");
    }
    if let (Some(out), Some(digest)) = (&args.out, written) {
        println!("\nuse it as a key:  zkey: {{url: \"file:{}\", sha256: {}}}", out.display(), hex::encode(&digest));
    }
    if insecure {
        eprintln!("WARNING: anyone can forge proofs of this key");
    }
    Ok(())
}

/// A path as a URL; a URL as it is.
fn url(key: &str) -> Result<String, CliError> {
    let scheme = key.split_once(':').map(|(scheme, _)| scheme);
    if scheme.is_some_and(|s| ["file", "http", "https", "s3", "gs", "az"].contains(&s)) {
        return Ok(key.to_owned());
    }
    let path = std::path::absolute(key).map_err(|e| CliError::Input(format!("{key}: {e}")))?;
    Ok(proofmill_sources::url::file_url(&path))
}

/// Imports into a file of its own, past the cache.
fn import_to(
    circuits: &Circuits,
    name: &str,
    wanted: &Source,
    out: &Path,
    progress: &(dyn Fn(u64, u64) + Sync),
    cancel: &Cancel,
) -> Result<Arc<ProvingKey>, CliError> {
    let bad = |e: String| CliError::Input(format!("{name}: {e}"));
    let zkey = circuits.open(wanted, name, cancel)?;
    let control = ImportControl { progress, cancelled: &|| cancel.is_cancelled() };
    output::replace(out, |file| {
        circuits.threads.install(|| import_zkey(&zkey, file, &control)).map_err(|e| match e {
            ImportError::Cancelled => CliError::Interrupted,
            ImportError::DiskFull(_) | ImportError::Write(_) => CliError::Engine(e.to_string()),
            _ => bad(e.to_string()),
        })
    })?;
    Ok(Arc::new(ProvingKey::open(out).map_err(|e| bad(e.to_string()))?))
}

fn file_digest(path: &Path) -> Result<[u8; 32], CliError> {
    let bad = |e: ReadError| CliError::Engine(format!("{}: {e}", path.display()));
    let file = FileSource::open(path).map_err(bad)?;
    // Never stopped, so there is always a digest.
    Ok(source::sha256(&file, &mut |_| true).map_err(bad)?.unwrap_or_default())
}
