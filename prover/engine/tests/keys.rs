//! The engine with a real key on the CPU: keys that anyone can forge proofs of, keys that were damaged on disk.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{MIB, mk_config, mk_id, outcome};
use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::job::{Circuit, CircuitKind, Failure, FailureKind, Input, Outcome, Priority, Source, Submission};
use proofmill_engine::parts::{Cancel, KeyEstimate, KeySource, LoadedCircuit, Synthesizer, SystemClock};
use proofmill_engine::snapshot::DeviceSnapshot;
use proofmill_groth16::assignment::{Assignment, evaluate_key};
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::{Blinding, Device, DeviceError, ProveStart, SharedDevice, StartOutput, WorkingSet};
use proofmill_groth16::format::r1cs::R1cs;
use proofmill_groth16::format::wtns::WitnessFile;
use proofmill_groth16::key::import::{ImportControl, import_zkey};
use proofmill_groth16::key::layout::{Header, Part};
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::proof::Proof;
use proofmill_groth16::setup::dev_setup;

fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from("../../tests/fixtures/circom/chain/bn128");
    std::fs::read(folder.join(name)).unwrap()
}

fn mk_dev_zkey() -> Vec<u8> {
    let mut r1cs = Vec::new();
    lzma_rs::xz_decompress(&mut Cursor::new(fixture("chain.r1cs.xz")), &mut r1cs).unwrap();
    let mut zkey = Vec::new();
    dev_setup(&R1cs::read(&r1cs[..]).unwrap(), Some([1; 32]), &mut zkey).unwrap();
    zkey
}

fn import(zkey: &[u8]) -> (Header, Vec<u8>) {
    let mut sink = Cursor::new(Vec::new());
    let header = import_zkey(&zkey, &mut sink, &ImportControl::QUIET).unwrap();
    (header, sink.into_inner())
}

/// One key, from a file of its own; another one once that is discarded.
struct OneKey {
    key: Mutex<Arc<ProvingKey>>,
    next: Arc<ProvingKey>,
}

impl OneKey {
    fn new(imported: &[u8], next: &[u8]) -> Self {
        Self { key: Mutex::new(open(imported)), next: open(next) }
    }

    fn key(&self) -> Arc<ProvingKey> {
        Arc::clone(&self.key.lock().unwrap())
    }
}

fn open(imported: &[u8]) -> Arc<ProvingKey> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), imported).unwrap();
    // The mapping outlives the name.
    Arc::new(ProvingKey::open(file.path()).unwrap())
}

impl KeySource for OneKey {
    fn estimate(&self, _: &Circuit, _: &Cancel) -> Result<KeyEstimate, Failure> {
        Ok(KeyEstimate { resident: self.key().info().bytes })
    }

    fn load(&self, _: &Circuit, _: &(dyn Fn(u64, u64) + Sync), _: &Cancel) -> Result<Arc<LoadedCircuit>, Failure> {
        let key = self.key();
        Ok(Arc::new(LoadedCircuit {
            synthesizer: Box::new(Witnesses(Arc::clone(&key))),
            resident: key.info().bytes,
            key: CircuitKey::Groth16(key),
        }))
    }

    fn discard(&self, _: &LoadedCircuit) {
        *self.key.lock().unwrap() = Arc::clone(&self.next);
    }
}

/// Takes finished witnesses.
struct Witnesses(Arc<ProvingKey>);

impl Synthesizer for Witnesses {
    fn working_memory(&self) -> u64 {
        MIB
    }

    fn synthesize(&self, _: u32, input: &[u8], _: &Cancel) -> Result<Assignment, Failure> {
        let witness = WitnessFile::read(input).unwrap().witness;
        Ok(Assignment::Groth16(evaluate_key(&self.0, witness).unwrap()))
    }
}

/// The CPU, whose first proof comes out with one bit wrong.
struct Flipping {
    inner: CpuDevice,
    armed: AtomicBool,
}

impl Device for Flipping {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn memory(&self) -> Option<u64> {
        None
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
        self.inner.prepare(key, assignment, blinding)
    }

    fn prove_finish(&self, key: &CircuitKey, output: StartOutput) -> Result<Proof, DeviceError> {
        let mut proof = self.inner.prove_finish(key, output)?;
        if let Proof::Groth16 { bytes, .. } = &mut proof
            && self.armed.swap(false, Ordering::Relaxed)
        {
            bytes[200] ^= 1;
        }
        Ok(proof)
    }
}

/// What becomes of the chain circuit's good witness under this key; and the device's CPU time.
fn prove(imported: &[u8], refuse_insecure_keys: bool) -> (Outcome, Duration) {
    let (outcome, device) = prove_on(Arc::new(CpuDevice::new(2).unwrap()), imported, refuse_insecure_keys);
    (outcome, device.cpu)
}

fn prove_on(device: SharedDevice, imported: &[u8], refuse_insecure_keys: bool) -> (Outcome, DeviceSnapshot) {
    let engine = start(device, OneKey::new(imported, imported), refuse_insecure_keys);
    engine.submit(mk_submission("a")).unwrap();
    let outcome = outcome(&engine, "a");
    (outcome, engine.snapshot().devices[0].clone())
}

fn start(device: SharedDevice, keys: OneKey, refuse_insecure_keys: bool) -> Engine {
    let parts = Parts {
        devices: vec![device],
        keys: Arc::new(keys),
        inputs: Arc::new(common::World::default()),
        clock: Arc::new(SystemClock::default()),
        canary: None,
    };
    Engine::start(Config { refuse_insecure_keys, ..mk_config() }, parts)
}

fn mk_submission(job: &str) -> Submission {
    let source = Source { url: "file:chain.zkey".to_owned(), sha256: None };
    let kind =
        CircuitKind::Groth16 { zkey: source, witness_generator: None, r1cs: None, symbols: None, verifying_key: None };
    Submission {
        id: mk_id(job),
        epoch: 0,
        digest: [7; 32],
        priority: Priority::Normal,
        sequence: 0,
        deadline: None,
        circuit: Circuit { name: "chain".to_owned(), kind },
        input: Input::Inline(fixture("chain.wtns").into()),
    }
}

#[test]
fn a_key_that_anyone_can_forge_proofs_of_is_refused_unless_allowed() {
    let (_, insecure) = import(&mk_dev_zkey());
    let failure = prove(&insecure, true).0.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InsecureKey);
    assert!(failure.message.contains("chain") && failure.message.contains("development setup"), "{failure}");
    let proof = prove(&insecure, false).0.unwrap();
    assert!(proof.insecure_key, "and whoever allows it is told");

    let (_, contributed) = import(&fixture("chain.zkey"));
    assert!(!prove(&contributed, true).0.unwrap().insecure_key);
}

#[test]
fn a_key_damaged_on_disk_is_blamed_on_nobody_and_dropped() {
    let (header, good) = import(&fixture("chain.zkey"));
    let points = header.entry(Part::H);
    let mut damaged = good.clone();
    damaged[usize::try_from(points.offset + points.length / 2).unwrap()] ^= 1;
    let engine = start(Arc::new(CpuDevice::new(2).unwrap()), OneKey::new(&damaged, &good), true);
    engine.submit(mk_submission("a")).unwrap();
    let failure = outcome(&engine, "a").unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadKey, "{failure}");
    assert!(failure.message.contains("damaged"), "{failure}");
    engine.submit(mk_submission("b")).unwrap();
    outcome(&engine, "b").expect("the key was loaded anew");
    assert_eq!(engine.snapshot().devices[0].verification_failures, 0);
}

#[test]
fn a_key_cut_short_on_disk_is_an_error_and_not_the_end_of_the_process() {
    let (_, good) = import(&fixture("chain.zkey"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &good).unwrap();
    let keys = OneKey { key: Mutex::new(Arc::new(ProvingKey::open(file.path()).unwrap())), next: open(&good) };
    let engine = start(Arc::new(CpuDevice::new(2).unwrap()), keys, true);
    engine.submit(mk_submission("warm")).unwrap();
    outcome(&engine, "warm").unwrap();
    file.as_file().set_len(good.len() as u64 / 2).unwrap();
    engine.submit(mk_submission("a")).unwrap();
    let failure = outcome(&engine, "a").unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadKey, "{failure}");
    engine.submit(mk_submission("b")).unwrap();
    outcome(&engine, "b").expect("the key was loaded anew");
}

#[test]
fn a_proof_whose_points_lie_nowhere_is_a_wrong_proof() {
    let (_, imported) = import(&fixture("chain.zkey"));
    let device = Flipping { inner: CpuDevice::new(2).unwrap(), armed: AtomicBool::new(true) };
    let (outcome, device) = prove_on(Arc::new(device), &imported, true);
    outcome.expect("it is proved once more");
    assert_eq!(device.verification_failures, 1);
}

#[test]
fn the_devices_cpu_time_is_that_of_its_pool() {
    let (_, imported) = import(&fixture("chain.zkey"));
    let (outcome, cpu) = prove(&imported, true);
    let timings = outcome.unwrap().timings;
    // The workers themselves only wait for the pool. Two threads share the work, and may be starved of cores.
    let busy = timings.ntt + timings.msm_g1 + timings.msm_g2;
    assert!(cpu >= busy / 20 && cpu > Duration::from_millis(5), "{cpu:?} of CPU in {busy:?}");
}
