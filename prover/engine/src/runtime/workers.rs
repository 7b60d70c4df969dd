//! The threads: fetchers, loaders, synthesis workers, device workers, finalizers, the releaser, the timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use proofmill_groth16::device::{Blinding, DeviceError, Phase, WorkingSet};
use proofmill_groth16::key::layout::KeyFileError;
use proofmill_groth16::key::{CircuitKey, KeySecurity, ProvingKey};
use proofmill_groth16::verify::{VerifyError, verify_partition};
use sha2::{Digest, Sha256};

use super::Shared;
use super::store::Dropped;
use crate::core::{Event, FETCHERS, Holdings, KeyFacts, KeyId, LOADERS, Ticket, Verdict, WorkerId};
use crate::engine::Config;
use crate::job::{Failure, FailureKind, PartitionProof, Timings};
use crate::meter::{self, Meter, Usage};
use crate::parts::LoadedCircuit;
use crate::snapshot::CircuitFacts;

/// Helpers yield to the device's own threads.
const HELPER_NICE: i32 = 5;

/// The heap is trimmed once nothing was released for this long: trimming takes the allocator's locks.
const TRIM_AFTER: Duration = Duration::from_secs(2);

/// What a device worker is to do.
pub(super) enum DeviceJob {
    Prepare(Ticket),
    Step(Ticket),
    TakeOutput(Ticket),
    Canary,
}

/// What a finalizer is to do.
pub(super) struct FinishJob {
    pub ticket: Ticket,
    pub device: usize,
}

/// What the releaser is to do.
pub(super) struct ReleaseJob {
    /// Whose memory it is, for the trace.
    pub subject: Arc<str>,
    pub dropped: Dropped,
    pub holdings: Holdings,
}

/// The ways to the threads.
pub(super) struct Channels {
    pub fetchers: Vec<Sender<Ticket>>,
    /// With whether to load or to estimate.
    pub loaders: Vec<Sender<(KeyId, bool)>>,
    pub synthesizers: Vec<Sender<Ticket>>,
    devices: Vec<Sender<DeviceJob>>,
    pub finalizers: Vec<Sender<FinishJob>>,
    pub releaser: Sender<ReleaseJob>,
}

impl Channels {
    pub fn device(&self, worker: WorkerId) -> Option<&Sender<DeviceJob>> {
        self.devices.get(worker.device * 2 + worker.slot)
    }
}

/// The threads' ends.
pub(super) struct Receivers {
    fetchers: Vec<Receiver<Ticket>>,
    loaders: Vec<Receiver<(KeyId, bool)>>,
    synthesizers: Vec<Receiver<Ticket>>,
    devices: Vec<Receiver<DeviceJob>>,
    finalizers: Vec<Receiver<FinishJob>>,
    releaser: Receiver<ReleaseJob>,
}

/// One channel per thread.
pub(super) fn channels(config: &Config, devices: usize) -> (Channels, Receivers) {
    let (releaser, release_jobs) = channel();
    let (fetchers, fetch_jobs) = (0..FETCHERS).map(|_| channel()).unzip();
    let (loaders, load_jobs) = (0..LOADERS).map(|_| channel()).unzip();
    let (synthesizers, synthesis_jobs) = (0..=config.synthesis_workers.max(1)).map(|_| channel()).unzip();
    let (workers, device_jobs) = (0..devices * 2).map(|_| channel()).unzip();
    let (finalizers, finish_jobs) = (0..config.finalizers.max(1)).map(|_| channel()).unzip();
    let channels = Channels { fetchers, loaders, synthesizers, devices: workers, finalizers, releaser };
    let receivers = Receivers {
        fetchers: fetch_jobs,
        loaders: load_jobs,
        synthesizers: synthesis_jobs,
        devices: device_jobs,
        finalizers: finish_jobs,
        releaser: release_jobs,
    };
    (channels, receivers)
}

/// Starts all threads. A machine that can't start them can't run the engine; the missing thread's work then waits.
pub(super) fn spawn(shared: &Arc<Shared>, receivers: Receivers) {
    let Receivers { fetchers, loaders, synthesizers, devices, finalizers, releaser } = receivers;
    pool(shared, "fetch", fetchers, fetch);
    pool(shared, "load", loaders, load);
    pool(shared, "synthesis", synthesizers, synthesize);
    pool(shared, "device", devices, |shared, index, meter, job| {
        let worker = WorkerId { device: index / 2, slot: index % 2 };
        match job {
            DeviceJob::Prepare(ticket) => prepare(shared, worker, meter, ticket),
            DeviceJob::Step(ticket) => step(shared, worker, meter, ticket),
            DeviceJob::TakeOutput(ticket) => take_output(shared, worker, meter, ticket),
            DeviceJob::Canary => canary(shared, worker),
        }
    });
    pool(shared, "finish", finalizers, finish);
    let (keeper, owner) = (Arc::clone(shared), Arc::clone(shared));
    thread("release".to_owned(), move || release(&owner, &releaser));
    thread("timer".to_owned(), move || keeper.keep_time());
}

/// A thread per channel, which ends with its channel.
fn pool<T: Send + 'static>(
    shared: &Arc<Shared>,
    name: &'static str,
    receivers: Vec<Receiver<T>>,
    work: impl Fn(&Shared, usize, &Meter, T) + Copy + Send + 'static,
) {
    for (index, jobs) in receivers.into_iter().enumerate() {
        let shared = Arc::clone(shared);
        thread(format!("{name}-{index}"), move || {
            if name != "device" {
                meter::lower_priority(HELPER_NICE);
            }
            let meter = Meter::new();
            while let Ok(job) = jobs.recv() {
                work(&shared, index, &meter, job);
            }
        });
    }
}

fn thread(name: String, body: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.clone()).spawn(body) {
        tracing::error!(thread = name, %error, "cannot start a thread; raise the limit on threads");
    }
}

fn fetch(shared: &Shared, slot: usize, _: &Meter, ticket: Ticket) {
    let started = shared.clock.now();
    let asked = shared.store.with(ticket, |payload| (payload.source.clone(), payload.cancel.clone()));
    let result = match asked {
        Some((Some(source), cancel)) => {
            let reserve = |bytes| shared.with_core(|core, now| core.reserve_input(now, ticket, bytes));
            guarded("fetching the input", || shared.inputs.fetch(&source, &cancel, &reserve))
        }
        _ => Err(internal("there is nothing to fetch")),
    };
    let result = result.map(|bytes| {
        let length = bytes.len() as u64;
        shared.store.with(ticket, |payload| payload.input = Some(bytes));
        length
    });
    shared.event(Event::InputFetched { ticket, slot, started, result });
}

fn load(shared: &Shared, slot: usize, _: &Meter, (key, whole): (KeyId, bool)) {
    let started = shared.clock.now();
    let Some((circuit, cancel)) = shared.store.begin_load(key) else {
        let result = Err(internal("the circuit is not known"));
        return shared.event(Event::KeyEstimated { key, slot, result });
    };
    if !whole {
        let result = guarded("sizing the circuit", || shared.keys.estimate(&circuit, &cancel));
        return shared.event(Event::KeyEstimated { key, slot, result: result.map(|estimate| estimate.resident) });
    }
    let progress = |done, total| shared.event(Event::KeyProgress { key, done, total });
    let loaded = guarded("loading the circuit", || shared.keys.load(&circuit, &progress, &cancel));
    let result = loaded.and_then(|loaded| {
        if shared.refuse_insecure_keys {
            refuse_insecure(&circuit.name, &loaded)?;
        }
        let facts = guarded("sizing the circuit", || Ok(facts(shared, &loaded)))?;
        shared.store.loaded(key, loaded);
        Ok(facts)
    });
    shared.event(Event::KeyLoaded { key, slot, started, result });
}

fn facts(shared: &Shared, loaded: &LoadedCircuit) -> KeyFacts {
    let scratch = loaded.synthesizer.working_memory();
    let working_sets: Vec<WorkingSet> = shared.devices.iter().map(|device| device.working_set(&loaded.key)).collect();
    let circuit = match &loaded.key {
        CircuitKey::Simulated(_) => None,
        CircuitKey::Groth16(key) => {
            let info = key.info();
            let most = working_sets.iter().map(|set| set.evaluations.saturating_add(set.host)).max().unwrap_or(0);
            Some(CircuitFacts {
                curve: info.curve,
                key_digest: info.source_digest,
                verifying_key_digest: key.verifying_key_digest(),
                constraints: info.constraints,
                domain_log: info.domain_log,
                public: info.public,
                key_bytes: loaded.resident,
                partition_bytes: scratch.saturating_add(most),
                insecure: info.security != KeySecurity::Contributed,
            })
        }
    };
    let checks_constraints = loaded.synthesizer.checks_constraints();
    KeyFacts { resident: loaded.resident, scratch, working_sets, checks_constraints, circuit }
}

fn refuse_insecure(circuit: &str, loaded: &LoadedCircuit) -> Result<(), Failure> {
    let CircuitKey::Groth16(key) = &loaded.key else { return Ok(()) };
    let why = match key.info().security {
        KeySecurity::Contributed => return Ok(()),
        KeySecurity::NoContribution => "it has no phase-2 contribution (delta equals gamma)",
        KeySecurity::DevSetup => "it was made by a development setup with a known trapdoor",
    };
    let message = format!(
        "anyone can forge proofs of circuit {circuit} with its key: {why}; use a key from a ceremony, or allow insecure keys"
    );
    Err(Failure { kind: FailureKind::InsecureKey, message })
}

/// Refuses a key that is not what was imported any more, and sees to it that nobody gets it again: the next partition
/// has it imported anew. `check` reads as much of it as its caller has time for.
fn refuse_damaged(
    shared: &Shared,
    id: KeyId,
    circuit: &LoadedCircuit,
    check: impl FnOnce(&ProvingKey) -> Result<(), KeyFileError>,
) -> Result<(), Failure> {
    let CircuitKey::Groth16(key) = &circuit.key else { return Ok(()) };
    let Err(error) = guarded("checking the key", || Ok(check(key)))? else { return Ok(()) };
    guarded("discarding the key", || {
        shared.keys.discard(circuit);
        Ok(())
    })?;
    shared.event(Event::KeyDamaged { key: id });
    let message = format!(
        "the imported key was damaged after its import: {error}; it was dropped, and the next job has it imported anew: \
         submit this one again, and check the disk"
    );
    tracing::error!(error = message);
    Err(Failure { kind: FailureKind::BadKey, message })
}

fn synthesize(shared: &Shared, slot: usize, meter: &Meter, ticket: Ticket) {
    let (started, begin) = (shared.clock.now(), meter.read());
    let mut scratch = None;
    let result = synthesis(shared, ticket, &mut scratch);
    shared.event(Event::Synthesized { ticket, slot, started, usage: meter.since(begin), scratch, result });
}

fn synthesis(shared: &Shared, ticket: Ticket, scratch: &mut Option<u64>) -> Result<(), Failure> {
    let asked = shared
        .store
        .with(ticket, |payload| (payload.key, payload.partition, payload.input.clone(), payload.cancel.clone()));
    let Some((key, partition, Some(input), cancel)) = asked else { return Err(internal("the input is gone")) };
    let Some(circuit) = shared.store.circuit(key) else { return Err(internal("the circuit is gone")) };
    // A system call now, so that a file that someone cut short does not kill the process when the proof reads it.
    refuse_damaged(shared, key, &circuit, ProvingKey::check_length)?;
    let (assignment, public_signals) = guarded("the synthesis", || {
        let assignment = circuit.synthesizer.synthesize(partition, &input, &cancel);
        // Also a failed one has taken memory.
        *scratch = Some(circuit.synthesizer.working_memory());
        let assignment = assignment?;
        let public_signals = assignment.public_signals(&circuit.key);
        Ok((assignment, public_signals))
    })?;
    shared.store.with(ticket, |payload| {
        payload.public_signals = public_signals;
        payload.assignment = Some(assignment);
        payload.circuit = Some(circuit);
    });
    Ok(())
}

fn prepare(shared: &Shared, worker: WorkerId, meter: &Meter, ticket: Ticket) {
    let (started, begin) = (shared.clock.now(), meter.read());
    let result = on_device(shared, worker.device, || {
        let asked = shared.store.with(ticket, |payload| (payload.circuit.clone(), payload.assignment.take()));
        let Some((Some(circuit), Some(assignment))) = asked else { return Ok(Err(gone("assignment"))) };
        let device = shared.devices.get(worker.device);
        let Some(device) = device else { return Ok(Err(gone("device"))) };
        let steps = device.prepare(&circuit.key, assignment, Blinding::Random)?;
        let next = steps.next_phase();
        shared.store.with(ticket, |payload| payload.steps = Some(steps));
        Ok(Ok(next))
    });
    shared.event(Event::Prepared { worker, started, usage: meter.since(begin), result });
}

fn step(shared: &Shared, worker: WorkerId, meter: &Meter, ticket: Ticket) {
    let Some(mut steps) = shared.store.with(ticket, |payload| payload.steps.take()).flatten() else {
        let (started, result) = (shared.clock.now(), Err(gone("prepared partition")));
        return shared.event(Event::StepDone { worker, started, usage: Usage::default(), result });
    };
    // The device's own threads work for whoever has the lease; a preparation beside it shares them, and is counted too.
    let pool = || shared.devices.get(worker.device).and_then(|device| device.cpu_time()).unwrap_or_default();
    let (started, begin, pool_begin) = (shared.clock.now(), meter.read(), pool());
    let result = on_device(shared, worker.device, || {
        let report = steps.step()?;
        let next: Option<Phase> = steps.next_phase();
        Ok(Ok((report, next)))
    });
    let usage = Usage { pool: pool().saturating_sub(pool_begin), ..meter.since(begin) };
    shared.store.with(ticket, |payload| payload.steps = Some(steps));
    shared.event(Event::StepDone { worker, started, usage, result });
}

fn take_output(shared: &Shared, worker: WorkerId, meter: &Meter, ticket: Ticket) {
    let (started, begin) = (shared.clock.now(), meter.read());
    let steps = shared.store.with(ticket, |payload| payload.steps.take()).flatten();
    let result = on_device(shared, worker.device, || {
        let Some(steps) = steps else { return Ok(Err(gone("prepared partition"))) };
        let output = steps.into_output()?;
        shared.store.with(ticket, |payload| payload.output = Some(output));
        Ok(Ok(()))
    });
    shared.event(Event::OutputReady { worker, started, usage: meter.since(begin), result });
}

fn canary(shared: &Shared, worker: WorkerId) {
    let started = shared.clock.now();
    let result = on_device(shared, worker.device, || match (&shared.canary, shared.devices.get(worker.device)) {
        (Some(canary), Some(device)) => canary(device).map(Ok),
        _ => Ok(Ok(())),
    });
    shared.event(Event::CanaryDone { worker, started, result });
}

fn finish(shared: &Shared, slot: usize, meter: &Meter, FinishJob { ticket, device }: FinishJob) {
    let (started, begin) = (shared.clock.now(), meter.read());
    let asked = shared.store.with(ticket, |payload| {
        let signals = std::mem::take(&mut payload.public_signals);
        (payload.key, payload.circuit.clone(), payload.output.take(), signals, payload.input.clone())
    });
    let (key, circuit, output, public_signals, input) = match asked {
        Some((key, Some(circuit), output, signals, Some(input))) => (key, circuit, output, signals, input),
        _ => {
            let result = Err(gone("output"));
            let (finished, usage) = (shared.clock.now(), meter.since(begin));
            return shared.event(Event::Finished { ticket, slot, started, finished, usage, result });
        }
    };
    let proof = on_device(shared, device, || {
        let (Some(output), Some(device)) = (output, shared.devices.get(device)) else { return Ok(Err(gone("output"))) };
        device.prove_finish(&circuit.key, output).map(Ok)
    });
    let (proof, result) = match proof {
        Ok(proof) => (Some(proof), Ok(())),
        Err(message) => (None, Err(message)),
    };
    let (finished, usage) = (shared.clock.now(), meter.since(begin));
    shared.event(Event::Finished { ticket, slot, started, finished, usage, result });
    let Some(proof) = proof else { return };

    let (started, begin) = (shared.clock.now(), meter.read());
    let verified = guarded("the verification", || match verify_partition(&circuit.key, &proof, &public_signals) {
        // A device that computes wrongly makes points that lie nowhere: as wrong as a proof of something else.
        Err(VerifyError::Proof(_)) => Ok(false),
        verified => verified.map_err(|error| internal(&error.to_string())),
    });
    let verdict = match verified {
        Ok(true) => {
            let key = match &circuit.key {
                CircuitKey::Groth16(key) => Some((key.info(), key.verifying_key_digest())),
                CircuitKey::Simulated(_) => None,
            };
            Verdict::Valid(Box::new(PartitionProof {
                proof,
                public_signals,
                curve: key.map(|(info, _)| info.curve),
                input_digest: Sha256::digest(&input).into(),
                key_digest: key.map_or([0; 32], |(info, _)| info.source_digest),
                verifying_key_digest: key.map_or([0; 32], |(_, digest)| digest),
                insecure_key: key.is_some_and(|(info, _)| info.security != KeySecurity::Contributed),
                device: String::new(),
                timings: Timings::default(),
            }))
        }
        // A wrong proof accuses witness or device; first the key must be what was imported. Large ones are mapped unread.
        Ok(false) => {
            let checked = refuse_damaged(shared, key, &circuit, ProvingKey::verify_digests);
            checked.map_or_else(Verdict::Error, |()| Verdict::Invalid)
        }
        Err(failure) => Verdict::Error(failure),
    };
    drop((circuit, input));
    let (finished, usage) = (shared.clock.now(), meter.since(begin));
    // The lock is held from here to the end of `with_core`: results kept, watchers told, the next work handed out.
    let (subject, locked) = shared.with_core(|core, now| {
        let subject = core.partition_name(ticket);
        core.handle(now, Event::Verified { ticket, slot, started, finished, usage, verdict });
        (subject, now)
    });
    if let Some(subject) = subject {
        let finished = shared.clock.now();
        shared.event(Event::Stored { slot, subject, started: locked, finished });
    }
}

/// Drops memory off the hot path, then gives its bytes back to the budget.
fn release(shared: &Shared, jobs: &Receiver<ReleaseJob>) {
    meter::lower_priority(HELPER_NICE);
    let meter = Meter::new();
    let mut freed = 0_u64;
    loop {
        match jobs.recv_timeout(if freed > 0 { TRIM_AFTER } else { Duration::from_secs(3600) }) {
            Ok(ReleaseJob { subject, dropped, holdings }) => {
                let (started, begin) = (shared.clock.now(), meter.read());
                freed += holdings.bytes();
                // A destructor that panics must not take the engine's memory with it.
                if catch_unwind(AssertUnwindSafe(|| drop(dropped))).is_err() {
                    tracing::error!("dropping a partition's memory panicked; this is a bug");
                }
                let usage = meter.since(begin);
                shared.event(Event::Released { subject, started, usage, holdings });
            }
            Err(RecvTimeoutError::Timeout) if freed > 0 => {
                freed = 0;
                let (started, begin) = (shared.clock.now(), meter.read());
                meter::trim_heap();
                shared.event(Event::Trimmed { started, usage: meter.since(begin) });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Runs work of a plug-in; a panic of it is an internal failure. The panic's own words might hold values of an input.
fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(internal(&format!("{what} panicked; this is a bug, please report it"))))
}

/// Runs work of a device; errors and panics become its words. The inner error is the engine's own.
fn on_device<T>(
    shared: &Shared,
    device: usize,
    work: impl FnOnce() -> Result<Result<T, String>, DeviceError>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            let id = shared.devices.get(device).map_or("?", |device| device.id());
            Err(format!("device {id} panicked; this is a bug, please report it"))
        }
    }
}

fn internal(message: &str) -> Failure {
    Failure { kind: FailureKind::Internal, message: message.to_owned() }
}

fn gone(what: &str) -> String {
    format!("the {what} is gone; this is a bug, please report it")
}
