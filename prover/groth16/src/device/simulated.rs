//! A device that only waits: scripted durations and injected faults, for burn-in, demos and scheduling tests.
//!
//! Time passes through a [`Sleeper`], so that an engine's tests can run it under a clock of their own. What a step
//! reports is the script's truth, not what a clock measured: the ledger is compared with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{
    Activity, Blinding, BusySpan, Device, DeviceError, MAX_STEP, Phase, ProveStart, StartOutput, StepReport, WorkingSet,
};
use crate::assignment::Assignment;
use crate::key::CircuitKey;
use crate::proof::Proof;

/// What a partition of a simulated circuit costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedCircuit {
    /// Partitions of a job.
    pub partitions: u32,
    /// Bytes of the key.
    pub key_bytes: u64,
    /// Bytes of one partition's working set.
    pub working_set: u64,
    /// Duration of the key's load.
    pub key_load: Duration,
    /// Duration of one synthesis.
    pub synthesis: Duration,
    /// Duration of all NTT steps.
    pub ntt: Duration,
    /// Duration of all G1 MSM steps.
    pub msm_g1: Duration,
    /// Duration of all G2 MSM steps.
    pub msm_g2: Duration,
    /// Duration of copies to the device.
    pub transfer: Duration,
    /// Duration of `prove_finish`.
    pub finish: Duration,
}

impl SimulatedCircuit {
    /// The tag of a valid proof of the partition with this seed.
    pub const fn tag(seed: u64) -> u64 {
        // The finalizer of SplitMix64: a bijection, so that no two seeds share a tag.
        let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Whether `proof` is the valid proof of the partition with this seed.
    pub fn verify(proof: &Proof, seed: u64) -> bool {
        *proof == Proof::Simulated(Self::tag(seed))
    }
}

/// What a simulated `prove_start` hands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedOutput {
    /// Tag that the simulated proof carries.
    pub seed: u64,
    /// The proof will not verify.
    pub corrupt: bool,
    /// `prove_finish` will fail.
    pub fails_in_finish: bool,
}

/// Lets time pass.
pub trait Sleeper: Send + Sync {
    /// Returns when `duration` has passed.
    fn sleep(&self, duration: Duration);
}

/// The real thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSleeper;

impl Sleeper for SystemSleeper {
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// What goes wrong with one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `prepare` fails.
    Prepare,
    /// Step `step` (from 0) fails; the partition cannot go on.
    Step {
        /// Which.
        step: usize,
    },
    /// Step `step` (from 0) takes longer; the device is idle for the rest.
    Stall {
        /// Which.
        step: usize,
        /// How much longer.
        extra: Duration,
    },
    /// `prove_finish` fails.
    Finish,
    /// The proof carries a wrong tag.
    InvalidProof,
}

/// A device without arithmetic. Faults can be scripted by the partition's place among all that were prepared, queued
/// for whichever comes next, or made permanent. Clones share one device.
#[derive(Clone)]
pub struct SimulatedDevice(Arc<Inner>);

struct Inner {
    id: String,
    memory: Option<u64>,
    sleeper: Arc<dyn Sleeper>,
    prepared: AtomicU64,
    broken: AtomicBool,
    script: Mutex<Script>,
}

#[derive(Default)]
struct Script {
    by_place: BTreeMap<u64, Fault>,
    next: VecDeque<Fault>,
}

impl SimulatedDevice {
    /// A device called `id` with this much own memory; `None` where it is the host's.
    pub fn new(id: impl Into<String>, memory: Option<u64>, sleeper: Arc<dyn Sleeper>) -> Self {
        Self(Arc::new(Inner {
            id: id.into(),
            memory,
            sleeper,
            prepared: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            script: Mutex::default(),
        }))
    }

    /// The partition that is prepared as number `place` (from 0) meets `fault`.
    #[must_use]
    pub fn with_fault(self, place: u64, fault: Fault) -> Self {
        self.with_script(|script| script.by_place.insert(place, fault));
        self
    }

    /// The next partition without a fault of its own meets `fault`; several queue up.
    pub fn inject(&self, fault: Fault) {
        self.with_script(|script| script.next.push_back(fault));
    }

    /// From now on every call fails, or works again.
    pub fn set_broken(&self, broken: bool) {
        self.0.broken.store(broken, Ordering::Release);
    }

    /// Partitions prepared so far.
    pub fn prepared(&self) -> u64 {
        self.0.prepared.load(Ordering::Acquire)
    }

    fn with_script<R>(&self, f: impl FnOnce(&mut Script) -> R) -> R {
        f(&mut self.0.script.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn fault(&self, what: &str) -> DeviceError {
        DeviceError::Fault { device: self.0.id.clone(), message: format!("simulated fault: {what}") }
    }

    fn check(&self) -> Result<(), DeviceError> {
        if self.0.broken.load(Ordering::Acquire) {
            return Err(self.fault("the device is broken"));
        }
        Ok(())
    }

    fn circuit<'a>(&self, key: &'a CircuitKey) -> Result<&'a SimulatedCircuit, DeviceError> {
        match key {
            CircuitKey::Simulated(circuit) => Ok(circuit),
            CircuitKey::Groth16(_) => Err(DeviceError::Mismatch {
                device: self.0.id.clone(),
                message: "it computes nothing, so only circuits of the kind `simulated` run on it".into(),
            }),
        }
    }
}

impl Device for SimulatedDevice {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn memory(&self) -> Option<u64> {
        self.0.memory
    }

    fn working_set(&self, key: &CircuitKey) -> WorkingSet {
        let Ok(circuit) = self.circuit(key) else { return WorkingSet::default() };
        let evaluations = circuit.working_set / 2;
        let device = if self.0.memory.is_some() { circuit.working_set } else { 0 };
        WorkingSet { evaluations, host: circuit.working_set - evaluations, device }
    }

    fn prepare(
        &self,
        key: &CircuitKey,
        assignment: Assignment,
        _blinding: Blinding,
    ) -> Result<Box<dyn ProveStart>, DeviceError> {
        let circuit = self.circuit(key)?;
        self.check()?;
        let Assignment::Simulated { seed } = assignment else {
            return Err(DeviceError::Mismatch {
                device: self.0.id.clone(),
                message: "a simulated circuit takes simulated assignments".into(),
            });
        };
        let fault = if *circuit == SimulatedCircuit::CANARY {
            None
        } else {
            let place = self.0.prepared.fetch_add(1, Ordering::AcqRel);
            self.with_script(|script| script.by_place.remove(&place).or_else(|| script.next.pop_front()))
        };
        if fault == Some(Fault::Prepare) {
            return Err(self.fault("prepare failed"));
        }
        Ok(Box::new(Start { device: self.clone(), steps: steps(circuit), done: 0, seed, fault }))
    }

    fn prove_finish(&self, key: &CircuitKey, output: StartOutput) -> Result<Proof, DeviceError> {
        let circuit = self.circuit(key)?;
        let StartOutput::Simulated(output) = output else {
            return Err(DeviceError::Mismatch {
                device: self.0.id.clone(),
                message: "a simulated circuit takes simulated output".into(),
            });
        };
        self.0.sleeper.sleep(circuit.finish);
        self.check()?;
        if output.fails_in_finish {
            return Err(self.fault("prove_finish failed"));
        }
        let tag = SimulatedCircuit::tag(output.seed);
        Ok(Proof::Simulated(if output.corrupt { !tag } else { tag }))
    }
}

/// One partition on its way.
struct Start {
    device: SimulatedDevice,
    steps: Vec<Step>,
    done: usize,
    seed: u64,
    fault: Option<Fault>,
}

struct Step {
    phase: Phase,
    spans: Vec<BusySpan>,
}

impl ProveStart for Start {
    fn next_phase(&self) -> Option<Phase> {
        self.steps.get(self.done).map(|step| step.phase)
    }

    fn remaining(&self) -> usize {
        self.steps.len() - self.done
    }

    fn step(&mut self) -> Result<StepReport, DeviceError> {
        self.device.check()?;
        let Some(step) = self.steps.get_mut(self.done) else { return Ok(StepReport::Spans(Vec::new())) };
        let spans = std::mem::take(&mut step.spans);
        let at = self.done;
        self.done += 1;
        self.device.0.sleeper.sleep(spans.last().map_or(Duration::ZERO, |span| span.end));
        match self.fault {
            Some(Fault::Step { step }) if step == at => Err(self.device.fault(&format!("step {at} failed"))),
            Some(Fault::Stall { step, extra }) if step == at => {
                self.device.0.sleeper.sleep(extra);
                Ok(StepReport::Spans(spans))
            }
            _ => Ok(StepReport::Spans(spans)),
        }
    }

    fn into_output(self: Box<Self>) -> Result<StartOutput, DeviceError> {
        Ok(StartOutput::Simulated(SimulatedOutput {
            seed: self.seed,
            corrupt: self.fault == Some(Fault::InvalidProof),
            fails_in_finish: self.fault == Some(Fault::Finish),
        }))
    }
}

/// The script of one partition: copies, NTTs, G1, G2, cut into steps of at most [`MAX_STEP`]. A copy shares the step
/// of the kernel that waits for it as far as both fit.
fn steps(circuit: &SimulatedCircuit) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut pending = Vec::new();
    let mut at = Duration::ZERO;
    let mut copy = circuit.transfer;
    while !copy.is_zero() {
        let part = copy.min(MAX_STEP);
        copy -= part;
        pending.push(BusySpan { activity: Activity::Transfer, start: Duration::ZERO, end: part });
        at = part;
        if !copy.is_zero() || part == MAX_STEP {
            steps.push(Step { phase: Phase::OtherKernel, spans: std::mem::take(&mut pending) });
            at = Duration::ZERO;
        }
    }
    let phases = [(Phase::Ntt, circuit.ntt), (Phase::MsmG1, circuit.msm_g1), (Phase::MsmG2, circuit.msm_g2)];
    for (phase, mut left) in phases {
        while !left.is_zero() {
            let part = left.min(MAX_STEP - at);
            left -= part;
            pending.push(BusySpan { activity: Activity::Kernel(phase), start: at, end: at + part });
            steps.push(Step { phase, spans: std::mem::take(&mut pending) });
            at = Duration::ZERO;
        }
    }
    if !pending.is_empty() {
        steps.push(Step { phase: Phase::OtherKernel, spans: pending });
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds up what it is asked to sleep.
    #[derive(Default)]
    struct Total(Mutex<Duration>);

    impl Sleeper for Total {
        fn sleep(&self, duration: Duration) {
            *self.0.lock().unwrap() += duration;
        }
    }

    fn mk_circuit() -> SimulatedCircuit {
        SimulatedCircuit {
            partitions: 1,
            key_bytes: 0,
            working_set: 1001,
            key_load: Duration::ZERO,
            synthesis: Duration::ZERO,
            ntt: Duration::from_millis(300),
            msm_g1: Duration::from_millis(100),
            msm_g2: Duration::from_millis(600),
            transfer: Duration::from_millis(270),
            finish: Duration::from_millis(7),
        }
    }

    fn mk_device(sleeper: &Arc<Total>) -> SimulatedDevice {
        SimulatedDevice::new("simulated-0", None, Arc::clone(sleeper) as Arc<dyn Sleeper>)
    }

    fn prove(device: &SimulatedDevice, key: &CircuitKey, seed: u64) -> Result<Proof, DeviceError> {
        let mut start = device.prepare(key, Assignment::Simulated { seed }, Blinding::Random)?;
        while start.next_phase().is_some() {
            start.step()?;
        }
        device.prove_finish(key, start.into_output()?)
    }

    #[test]
    fn spans_add_up_to_the_script_and_no_step_is_too_long() {
        let circuit = mk_circuit();
        let mut sums: BTreeMap<Activity, Duration> = BTreeMap::new();
        for step in steps(&circuit) {
            assert!(step.spans.last().unwrap().end <= MAX_STEP);
            assert!(step.spans.windows(2).all(|pair| pair[0].end == pair[1].start));
            for span in step.spans {
                *sums.entry(span.activity).or_default() += span.end - span.start;
            }
        }
        assert_eq!(sums[&Activity::Transfer], circuit.transfer);
        assert_eq!(sums[&Activity::Kernel(Phase::Ntt)], circuit.ntt);
        assert_eq!(sums[&Activity::Kernel(Phase::MsmG1)], circuit.msm_g1);
        assert_eq!(sums[&Activity::Kernel(Phase::MsmG2)], circuit.msm_g2);
    }

    #[test]
    fn a_partition_sleeps_exactly_its_script() {
        let sleeper = Arc::new(Total::default());
        let key = CircuitKey::Simulated(Arc::new(mk_circuit()));
        let proof = prove(&mk_device(&sleeper), &key, 5).unwrap();
        assert!(SimulatedCircuit::verify(&proof, 5));
        assert!(!SimulatedCircuit::verify(&proof, 6));
        assert_eq!(*sleeper.0.lock().unwrap(), Duration::from_millis(300 + 100 + 600 + 270 + 7));
    }

    #[test]
    fn faults_hit_the_partition_they_were_meant_for() {
        let sleeper = Arc::new(Total::default());
        let device = mk_device(&sleeper)
            .with_fault(1, Fault::Step { step: 2 })
            .with_fault(2, Fault::InvalidProof)
            .with_fault(3, Fault::Prepare);
        let key = CircuitKey::Simulated(Arc::new(mk_circuit()));
        assert!(SimulatedCircuit::verify(&prove(&device, &key, 0).unwrap(), 0));
        assert!(prove(&device, &key, 1).is_err());
        assert!(!SimulatedCircuit::verify(&prove(&device, &key, 2).unwrap(), 2));
        assert!(prove(&device, &key, 3).is_err());
        device.inject(Fault::Finish);
        assert!(prove(&device, &key, 4).is_err());
        let before = *sleeper.0.lock().unwrap();
        device.inject(Fault::Stall { step: 0, extra: Duration::from_secs(9) });
        assert!(prove(&device, &key, 5).is_ok());
        assert_eq!(*sleeper.0.lock().unwrap() - before, Duration::from_millis(1277 + 9000));
        device.set_broken(true);
        assert!(prove(&device, &key, 6).is_err());
        device.set_broken(false);
        assert!(prove(&device, &key, 6).is_ok());
        assert_eq!(device.prepared(), 7);
    }

    #[test]
    fn working_set_is_split_without_loss() {
        let key = CircuitKey::Simulated(Arc::new(mk_circuit()));
        let set = mk_device(&Arc::default()).working_set(&key);
        assert_eq!((set.evaluations + set.host, set.device), (1001, 0));
        let gpu = SimulatedDevice::new("simulated-1", Some(1 << 30), Arc::new(SystemSleeper));
        assert_eq!(gpu.working_set(&key).device, 1001);
    }
}
