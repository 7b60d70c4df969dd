//! An engine whose circuit and inputs are there already: what is measured is the engine, not files.

use std::sync::Arc;

use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::job::{Circuit, CircuitKind, Failure, Input, PartitionId, Priority, Source, Submission};
use proofmill_engine::parts::{Cancel, InputSource, KeyEstimate, KeySource, LoadedCircuit, SystemClock};
use proofmill_groth16::device::SharedDevice;

/// What every input holds; nothing reads it.
const INPUT: &[u8] = b"ready";

/// An engine that proves with `circuit`, whatever circuit is asked for.
pub fn engine(config: Config, device: SharedDevice, circuit: Arc<LoadedCircuit>) -> Engine {
    let ready = Arc::new(Ready(circuit));
    Engine::start(
        config,
        Parts {
            devices: vec![device],
            keys: Arc::clone(&ready) as _,
            inputs: ready,
            clock: Arc::new(SystemClock::default()),
            canary: None,
        },
    )
}

/// The submission with this number.
pub fn submission(number: u32, kind: CircuitKind) -> Submission {
    Submission {
        id: PartitionId { job: format!("bench-{number}"), partition: 0, attempt: 0 },
        epoch: 0,
        digest: [0; 32],
        priority: Priority::Normal,
        sequence: number.into(),
        deadline: None,
        circuit: Circuit { name: "bench".into(), kind },
        input: Input::Inline(Arc::from(INPUT)),
    }
}

struct Ready(Arc<LoadedCircuit>);

impl InputSource for Ready {
    fn fetch(
        &self,
        _source: &Source,
        _cancel: &Cancel,
        _: &dyn Fn(u64) -> Result<(), Failure>,
    ) -> Result<Arc<[u8]>, Failure> {
        Ok(Arc::from(INPUT))
    }
}

impl KeySource for Ready {
    fn estimate(&self, _circuit: &Circuit, _cancel: &Cancel) -> Result<KeyEstimate, Failure> {
        Ok(KeyEstimate { resident: self.0.resident })
    }

    fn load(
        &self,
        _circuit: &Circuit,
        _progress: &(dyn Fn(u64, u64) + Sync),
        _cancel: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure> {
        Ok(Arc::clone(&self.0))
    }
}
