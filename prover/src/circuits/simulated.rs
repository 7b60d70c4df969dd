//! Circuits that only take time, for burn-in, demos and scheduling tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_engine::job::Failure;
use proofmill_engine::parts::{Cancel, LoadedCircuit, Synthesizer};
use proofmill_groth16::assignment::Assignment;
use proofmill_groth16::device::simulated::SimulatedCircuit;
use proofmill_groth16::key::CircuitKey;
use sha2::{Digest as _, Sha256};

/// How often a wait looks whether it is cancelled.
const POLL: Duration = Duration::from_millis(20);

/// Takes as long as the circuit says.
pub fn load(circuit: &SimulatedCircuit, cancel: &Cancel) -> Result<Arc<LoadedCircuit>, Failure> {
    wait(circuit.key_load, cancel)?;
    let circuit = Arc::new(circuit.clone());
    Ok(Arc::new(LoadedCircuit {
        resident: circuit.key_bytes,
        synthesizer: Box::new(SimulatedSynthesizer(Arc::clone(&circuit))),
        key: CircuitKey::Simulated(circuit),
    }))
}

struct SimulatedSynthesizer(Arc<SimulatedCircuit>);

impl Synthesizer for SimulatedSynthesizer {
    fn working_memory(&self) -> u64 {
        0
    }

    fn synthesize(&self, partition: u32, input: &[u8], cancel: &Cancel) -> Result<Assignment, Failure> {
        wait(self.0.synthesis, cancel)?;
        // Another input or partition is another statement.
        let digest = Sha256::new().chain_update(partition.to_le_bytes()).chain_update(input).finalize();
        let seed = digest.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        Ok(Assignment::Simulated { seed })
    }
}

fn wait(duration: Duration, cancel: &Cancel) -> Result<(), Failure> {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        super::go_on(cancel)?;
        std::thread::sleep(left.min(POLL));
    }
    Ok(())
}
