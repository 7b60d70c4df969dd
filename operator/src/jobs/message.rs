//! Circuits and inputs as the engine's protocol has them.

use proofmill_crds::circuit::{CircuitSpec, Groth16, Simulated};
use proofmill_crds::proof_job::Priority;
use proofmill_crds::source::Source;
use proofmill_proto::v1;

/// A Circuit; `None` for a kind that no engine knows yet.
pub fn circuit(name: &str, spec: &CircuitSpec) -> Option<v1::Circuit> {
    let kind = match (&spec.groth16, &spec.simulated) {
        (Some(files), _) => v1::circuit::Kind::Groth16(groth16(files)),
        (None, Some(script)) => v1::circuit::Kind::Simulated(simulated(script)),
        (None, None) => return None,
    };
    Some(v1::Circuit { name: name.to_owned(), kind: Some(kind) })
}

/// A file to fetch.
pub fn source(url: &str, sha256: Option<[u8; 32]>) -> v1::Source {
    v1::Source { url: url.to_owned(), sha256: sha256.map(Vec::from).unwrap_or_default() }
}

/// An urgency.
pub fn priority(priority: Priority) -> v1::Priority {
    match priority {
        Priority::Low => v1::Priority::Low,
        Priority::Normal => v1::Priority::Normal,
        Priority::High => v1::Priority::High,
        Priority::Critical => v1::Priority::Critical,
    }
}

fn groth16(files: &Groth16) -> v1::Groth16Circuit {
    let file = |file: &Source| source(&file.url, file.sha256_bytes());
    v1::Groth16Circuit {
        zkey: Some(file(&files.zkey)),
        witness_generator: files.witness_generator.as_ref().map(file),
        r1cs: files.r1cs.as_ref().map(file),
        symbols: files.symbols.as_ref().map(file),
        verifying_key: files.verifying_key.as_ref().map(file),
    }
}

/// Validated numbers are never negative.
fn simulated(script: &Simulated) -> v1::SimulatedCircuit {
    let micros = |milliseconds: i32| u64::from(milliseconds.unsigned_abs()) * 1000;
    let time = &script.milliseconds;
    v1::SimulatedCircuit {
        partitions: script.partitions.unsigned_abs(),
        key_bytes: script.bytes.key.unsigned_abs(),
        working_set: script.bytes.working_set.unsigned_abs(),
        key_load_us: micros(time.key_load),
        synthesis_us: micros(time.synthesis),
        ntt_us: micros(time.ntt),
        msm_g1_us: micros(time.msm_g1),
        msm_g2_us: micros(time.msm_g2),
        transfer_us: micros(time.transfer),
        finish_us: micros(time.finish),
    }
}
