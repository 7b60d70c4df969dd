//! Stand-ins for what the engine is plugged into: circuits that sleep, inputs that come late, devices that panic.

#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::job::{
    Circuit, CircuitKind, Failure, FailureKind, Input, Outcome, PartitionId, Priority, Source, Submission,
};
use proofmill_engine::parts::{
    Canary, Cancel, InputSource, KeyEstimate, KeySource, LoadedCircuit, Synthesizer, SystemClock,
};
use proofmill_groth16::assignment::Assignment;
use proofmill_groth16::device::simulated::{SimulatedCircuit, SimulatedDevice, SystemSleeper};
use proofmill_groth16::device::{Blinding, Device, DeviceError, ProveStart, SharedDevice, StartOutput, WorkingSet};
use proofmill_groth16::key::CircuitKey;
use proofmill_groth16::proof::Proof;

pub const MIB: u64 = 1 << 20;

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A circuit of one step of `device` milliseconds.
pub fn mk_simulated(device: u64) -> SimulatedCircuit {
    SimulatedCircuit {
        partitions: 1,
        key_bytes: MIB,
        working_set: MIB,
        key_load: Duration::ZERO,
        synthesis: Duration::ZERO,
        ntt: Duration::ZERO,
        msm_g1: ms(device),
        msm_g2: Duration::ZERO,
        transfer: Duration::ZERO,
        finish: Duration::ZERO,
    }
}

pub fn mk_circuit(name: &str, circuit: SimulatedCircuit) -> Circuit {
    Circuit { name: name.to_owned(), kind: CircuitKind::Simulated(circuit) }
}

pub fn mk_id(job: &str) -> PartitionId {
    PartitionId { job: job.to_owned(), partition: 0, attempt: 0 }
}

/// `input`: what the synthesizer below is to do.
pub fn mk_submission(job: &str, circuit: &Circuit, input: &str) -> Submission {
    Submission {
        id: mk_id(job),
        epoch: 0,
        digest: [7; 32],
        priority: Priority::Normal,
        sequence: 0,
        deadline: None,
        circuit: circuit.clone(),
        input: Input::Inline(Arc::from(input.as_bytes())),
    }
}

pub fn mk_config() -> Config {
    Config { memory_budget: 256 * MIB, refuse_insecure_keys: false, ..Config::default() }
}

pub fn mk_device(id: &str) -> SimulatedDevice {
    SimulatedDevice::new(id, None, Arc::new(SystemSleeper))
}

pub fn mk_engine(config: Config, devices: Vec<SharedDevice>) -> Engine {
    mk_engine_with(config, devices, Arc::default(), None)
}

pub fn mk_engine_with(config: Config, devices: Vec<SharedDevice>, world: Arc<World>, canary: Option<Canary>) -> Engine {
    let parts = Parts {
        devices,
        keys: Arc::clone(&world) as Arc<dyn KeySource>,
        inputs: world,
        clock: Arc::new(SystemClock::default()),
        canary,
    };
    Engine::start(config, parts)
}

/// Waits for a partition's outcome.
pub fn outcome(engine: &Engine, job: &str) -> Outcome {
    let mut watch = engine.watch(Some(mk_id(job)));
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        match watch.try_recv() {
            Ok(event) => {
                if let Some(outcome) = event.outcome {
                    return outcome;
                }
            }
            Err(_) => std::thread::sleep(ms(1)),
        }
    }
    panic!("{job} did not end: {:?}", engine.snapshot());
}

pub fn kind(outcome: &Outcome) -> Option<FailureKind> {
    outcome.as_ref().err().map(|failure| failure.kind)
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain for: {what}");
        std::thread::sleep(ms(1));
    }
}

/// Where circuits and inputs come from. Flags and counts let tests interfere.
#[derive(Default)]
pub struct World {
    pub loads: AtomicUsize,
    pub fetches: AtomicUsize,
    pub fail_loads: AtomicBool,
    pub panic_in_load: AtomicBool,
    pub checks_constraints: AtomicBool,
    pub inputs: Mutex<HashMap<String, Arc<[u8]>>>,
}

impl InputSource for World {
    fn fetch(
        &self,
        source: &Source,
        cancel: &Cancel,
        reserve: &dyn Fn(u64) -> Result<(), Failure>,
    ) -> Result<Arc<[u8]>, Failure> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        loop {
            let found = self.inputs.lock().unwrap().get(&source.url).cloned();
            if let Some(bytes) = found {
                reserve(bytes.len() as u64)?;
                return Ok(bytes);
            }
            if cancel.is_cancelled() {
                return Err(Failure { kind: FailureKind::Cancelled, message: "cancelled".to_owned() });
            }
            std::thread::sleep(ms(1));
        }
    }
}

impl KeySource for World {
    fn estimate(&self, circuit: &Circuit, _: &Cancel) -> Result<KeyEstimate, Failure> {
        let CircuitKind::Simulated(circuit) = &circuit.kind else { panic!("only simulated circuits") };
        Ok(KeyEstimate { resident: circuit.key_bytes })
    }

    fn load(
        &self,
        circuit: &Circuit,
        progress: &(dyn Fn(u64, u64) + Sync),
        cancel: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let CircuitKind::Simulated(circuit) = &circuit.kind else { panic!("only simulated circuits") };
        assert!(!self.panic_in_load.load(Ordering::Relaxed), "this load was told to panic");
        progress(0, circuit.key_bytes);
        doze(circuit.key_load, cancel)?;
        progress(circuit.key_bytes, circuit.key_bytes);
        if self.fail_loads.load(Ordering::Relaxed) {
            return Err(Failure { kind: FailureKind::BadKey, message: "the key is no key".to_owned() });
        }
        Ok(Arc::new(LoadedCircuit {
            key: CircuitKey::Simulated(Arc::new(circuit.clone())),
            synthesizer: Box::new(Sleepy {
                synthesis: circuit.synthesis,
                checks: self.checks_constraints.load(Ordering::Relaxed),
            }),
            resident: circuit.key_bytes,
        }))
    }
}

struct Sleepy {
    synthesis: Duration,
    checks: bool,
}

impl Synthesizer for Sleepy {
    fn working_memory(&self) -> u64 {
        MIB
    }

    fn synthesize(&self, partition: u32, input: &[u8], cancel: &Cancel) -> Result<Assignment, Failure> {
        doze(self.synthesis, cancel)?;
        match input {
            b"panic" => panic!("this synthesis was told to panic"),
            b"bad" => Err(Failure { kind: FailureKind::BadInput, message: "a signal is missing".to_owned() }),
            _ => Ok(Assignment::Simulated { seed: u64::from(partition) + input.len() as u64 }),
        }
    }

    fn checks_constraints(&self) -> bool {
        self.checks
    }
}

/// Sleeps, unless cancelled.
fn doze(time: Duration, cancel: &Cancel) -> Result<(), Failure> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if cancel.is_cancelled() {
            return Err(Failure { kind: FailureKind::Cancelled, message: "cancelled".to_owned() });
        }
        std::thread::sleep((end - Instant::now()).min(ms(1)));
    }
    Ok(())
}

/// A device that panics in one of its calls, once.
pub struct Panicking {
    pub inner: SimulatedDevice,
    pub armed: AtomicBool,
    pub place: &'static str,
}

impl Panicking {
    fn at(&self, place: &str) {
        assert!(
            place != self.place || !self.armed.swap(false, Ordering::Relaxed),
            "this device was told to panic in {place}"
        );
    }
}

impl Device for Panicking {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn memory(&self) -> Option<u64> {
        self.inner.memory()
    }

    fn working_set(&self, key: &CircuitKey) -> WorkingSet {
        self.inner.working_set(key)
    }

    fn prepare(
        &self,
        key: &CircuitKey,
        assignment: Assignment,
        blinding: Blinding,
    ) -> Result<Box<dyn ProveStart>, DeviceError> {
        self.at("prepare");
        self.inner.prepare(key, assignment, blinding)
    }

    fn prove_finish(&self, key: &CircuitKey, output: StartOutput) -> Result<Proof, DeviceError> {
        self.at("prove_finish");
        self.inner.prove_finish(key, output)
    }
}
