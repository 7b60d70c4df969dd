//! Many jobs with ready witnesses through the engine, against the same proofs in a bare loop in the same run.

use std::sync::Arc;
use std::time::Instant;

use proofmill_engine::engine::{Config, Engine};
use proofmill_engine::job::{CircuitKind, Failure, FailureKind, Source};
use proofmill_engine::parts::{Cancel, LoadedCircuit, Synthesizer};
use proofmill_groth16::assignment::{self, Assignment, Witness};
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::verify::verify_partition;
use serde_json::{Value, json};

use super::ready;
use crate::error::CliError;

/// Proves `jobs` times in a bare loop and through the engine. `busy` is the device's busy share by its own ledger from the
/// first submission to the last result.
pub fn measure(key: &Arc<ProvingKey>, witness: &Witness, jobs: u32, threads: usize) -> Result<Value, CliError> {
    let bare = bare_loop(key, witness, jobs, threads)?;
    let (engine, busy) = through_the_engine(key, witness, jobs, threads)?;
    Ok(json!({
        "jobs": jobs,
        "bareLoopSeconds": bare,
        "engineSeconds": engine,
        "toBareLoop": bare / engine,
        "busy": busy,
    }))
}

/// Assignment, proof, verification, one after the other.
fn bare_loop(key: &Arc<ProvingKey>, witness: &Witness, jobs: u32, threads: usize) -> Result<f64, CliError> {
    let device = device(threads)?;
    let circuit = CircuitKey::Groth16(Arc::clone(key));
    let begun = Instant::now();
    for _ in 0..jobs {
        let assignment = assignment::evaluate_key(key, witness.clone()).map_err(|e| CliError::Input(e.to_string()))?;
        let (proof, signals) = super::prove(&device, &circuit, Assignment::Groth16(assignment))?;
        if !matches!(verify_partition(&circuit, &proof, &signals), Ok(true)) {
            return Err(CliError::Unsatisfied("the witness does not satisfy the circuit".into()));
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn through_the_engine(
    key: &Arc<ProvingKey>,
    witness: &Witness,
    jobs: u32,
    threads: usize,
) -> Result<(f64, f64), CliError> {
    let config = Config { refuse_insecure_keys: false, queue_limit: jobs as usize, ..Config::default() };
    let loaded = LoadedCircuit {
        key: CircuitKey::Groth16(Arc::clone(key)),
        synthesizer: Box::new(FixedSynthesizer(Arc::clone(key), witness.clone())),
        resident: key.info().bytes,
    };
    let engine = ready::engine(config, Arc::new(device(threads)?), Arc::new(loaded));
    let mut watch = engine.watch(None);
    let before = busy_and_total(&engine);
    let begun = Instant::now();
    for job in 0..jobs {
        engine.submit(ready::submission(job, circuit())).map_err(|e| CliError::Engine(e.to_string()))?;
    }
    let mut left = jobs;
    while left > 0 {
        let event = watch.blocking_recv().ok_or_else(|| CliError::Engine("the engine stopped".into()))?;
        match event.outcome {
            None => {}
            Some(Ok(_)) => left -= 1,
            Some(Err(failure)) => return Err(failure.into()),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = busy_and_total(&engine);
    Ok((seconds, (after.0 - before.0) / (after.1 - before.1)))
}

/// Busy and all seconds of the ledger's only device.
fn busy_and_total(engine: &Engine) -> (f64, f64) {
    let snapshot = engine.snapshot();
    let entries = snapshot.devices.iter().flat_map(|device| &device.ledger);
    entries.fold((0.0, 0.0), |(busy, total), ((state, _), time)| {
        let time = time.as_secs_f64();
        (busy + if *state == "busy" { time } else { 0.0 }, total + time)
    })
}

fn device(threads: usize) -> Result<CpuDevice, CliError> {
    CpuDevice::new(threads).map_err(|e| CliError::Engine(e.to_string()))
}

/// Never fetched: the circuit is loaded already.
fn circuit() -> CircuitKind {
    CircuitKind::Groth16 {
        zkey: Source { url: "file:///bench".into(), sha256: None },
        witness_generator: None,
        r1cs: None,
        symbols: None,
        verifying_key: None,
    }
}

/// Gives a witness that is there already; the engine still evaluates the constraints.
struct FixedSynthesizer(Arc<ProvingKey>, Witness);

impl Synthesizer for FixedSynthesizer {
    fn working_memory(&self) -> u64 {
        0
    }

    fn synthesize(&self, _partition: u32, _input: &[u8], _cancel: &Cancel) -> Result<Assignment, Failure> {
        assignment::evaluate_key(&self.0, self.1.clone())
            .map(Assignment::Groth16)
            .map_err(|e| Failure { kind: FailureKind::BadInput, message: e.to_string() })
    }
}
