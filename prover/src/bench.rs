//! `prover bench`: what a proof costs on this machine, beside peers measured in the same minutes by the same means.
//!
//! - [`cost`]: wall and CPU seconds, peak memory.
//! - [`queue`]: many jobs through the engine against the same proofs in a bare loop.
//! - [`latency`]: from a client's submission to the start on an idle device (feature `serve`).
//! - [`ready`]: the engine that both need, without files.
//! - [`peers`]: snarkjs and others as child processes.

pub mod cost;
#[cfg(feature = "serve")]
pub mod latency;
pub mod peers;
pub mod queue;
pub mod ready;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::available_parallelism;

use proofmill_groth16::assignment::{self, Assignment, Witness};
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::{Blinding, Device};
use proofmill_groth16::format::source::FileSource;
use proofmill_groth16::format::wtns::WitnessFile;
use proofmill_groth16::key::cache::KeyCache;
use proofmill_groth16::key::import::ImportControl;
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify::verify_partition;
use serde_json::{Value, json};

use crate::cli::BenchArgs;
use crate::error::CliError;
use cost::{Cost, measured};

/// Measures one circuit.
pub fn bench(args: BenchArgs) -> Result<(), CliError> {
    let folder = std::env::temp_dir().join(format!("prover-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|e| CliError::Engine(format!("cannot create {}: {e}", folder.display())))?;
    let report = Bench { args: &args, folder: &folder }.report();
    // Left-over files do no harm but take space; the report matters more.
    let _ = std::fs::remove_dir_all(&folder);
    let report = report?;
    if args.json {
        println!("{report}");
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a BenchArgs,
    folder: &'a Path,
}

impl Bench<'_> {
    fn report(&self) -> Result<Value, CliError> {
        let cores = available_parallelism().map_or(1, usize::from);
        // Our own child first: the system tells only the largest peak of all children so far.
        let (key, import) = self.import()?;
        let (start, peak) = self.first_proof(&key)?;
        let witness = read_witness(&self.args.wtns, &key)?;
        let [single, all] = self.prove(&key, &witness, [1, cores])?;
        let mut report = json!({
            "cpu": cost::processor(),
            "zkey": self.args.zkey,
            "curve": key.info().curve,
            "constraints": key.info().constraints,
            "domain": 1u64 << key.info().domain_log,
            "keyBytes": key.info().bytes,
            "threads": cores,
            "import": import,
            "prove": all,
            "proveOneThread": single,
            "speedup": single.wall / all.wall,
            "startToProof": start,
            "startOverProve": start.wall - all.wall,
            "peakBytes": peak,
            "peakLimitBytes": (key.info().bytes + ((5 * 32) << key.info().domain_log)) * 3 / 2,
        });
        if self.args.queue > 0 {
            report["queue"] = queue::measure(&key, &witness, self.args.queue, cores)?;
        }
        #[cfg(feature = "serve")]
        if self.args.latency > 0 {
            report["latency"] = latency::measure(self.args.latency)?;
        }
        if let Some(snarkjs) = &self.args.snarkjs {
            let cost = peers::snarkjs(snarkjs, &self.args.zkey, &self.args.wtns, self.folder, self.args.repeat)?;
            report["snarkjs"] = json!(cost);
            report["proveToSnarkjsCpu"] = json!(all.cpu / cost.cpu);
        }
        if let Some(ark) = &self.args.ark {
            let peer = peers::ark(ark, &self.args.zkey, &self.args.wtns, self.args.repeat)?;
            report["proveToArkCpu"] = json!(all.cpu / peer.prove.cpu);
            report["importToArkLoadWall"] = json!(import.wall / peer.load.wall);
            report["ark"] = json!(peer);
        }
        Ok(report)
    }

    /// The first import of the key, with all its checks.
    fn import(&self) -> Result<(Arc<ProvingKey>, Cost), CliError> {
        let cache = KeyCache::open(&self.folder.join("keys"), u64::MAX).map_err(|e| CliError::Engine(e.to_string()))?;
        let pool = rayon::ThreadPoolBuilder::new().build().map_err(|e| CliError::Engine(e.to_string()))?;
        let (key, cost) = measured(|| pool.install(|| cache.import(&self.args.zkey, None, &ImportControl::QUIET)));
        let key = key.map_err(|e| CliError::Input(format!("{}: {e}", self.args.zkey.display())))?;
        Ok((key, cost))
    }

    /// A whole `prover run` with the key imported already: its wall time and peak memory.
    fn first_proof(&self, key: &ProvingKey) -> Result<(Cost, u64), CliError> {
        let digest = proofmill_crds::hex::encode(&key.info().source_digest);
        let manifest = self.folder.join("bench.json");
        let documents = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "proofmill.dev/v1alpha1", "kind": "Circuit", "metadata": {"name": "bench"},
                "spec": {"groth16": {"zkey": {"url": file_url(&self.args.zkey)?, "sha256": digest}}},
            },
            {
                "apiVersion": "proofmill.dev/v1alpha1", "kind": "ProofJob", "metadata": {"name": "bench"},
                "spec": {"circuitRef": {"name": "bench"}, "input": {"url": file_url(&self.args.wtns)?}},
            },
        ]});
        crate::output::write_atomically(&manifest, documents.to_string().as_bytes())?;
        let program =
            std::env::current_exe().map_err(|e| CliError::Engine(format!("cannot find this program: {e}")))?;
        let mut costs = Vec::new();
        for _ in 0..self.args.repeat {
            let mut command = Command::new(&program);
            command.args(["run", "--json", "-f"]).arg(&manifest);
            command.arg("--out").arg(self.folder.join("proofs")).arg("--key-cache").arg(self.folder.join("keys"));
            costs.push(cost::of_child(&mut command)?);
        }
        Ok((Cost::median(costs), cost::peak_of_children()?))
    }

    /// The same proof with different numbers of threads, in turn: what else the machine does hits them alike.
    fn prove<const N: usize>(
        &self,
        key: &Arc<ProvingKey>,
        witness: &Witness,
        threads: [usize; N],
    ) -> Result<[Cost; N], CliError> {
        let provers = threads.iter().map(|&threads| Prover::new(key, threads)).collect::<Result<Vec<_>, _>>()?;
        let mut costs = [const { Vec::new() }; N];
        // One more than counts: the first fills caches and working memory, as in a server.
        for round in 0..=self.args.repeat {
            for (prover, costs) in provers.iter().zip(&mut costs) {
                let cost = prover.prove(witness.clone())?;
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        Ok(costs.map(Cost::median))
    }
}

/// A device without an engine.
struct Prover {
    device: CpuDevice,
    /// Evaluates constraints, as a synthesis worker.
    pool: rayon::ThreadPool,
    key: Arc<ProvingKey>,
    circuit: CircuitKey,
}

impl Prover {
    fn new(key: &Arc<ProvingKey>, threads: usize) -> Result<Self, CliError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Ok(Self {
            device: CpuDevice::new(threads).map_err(|e| CliError::Engine(e.to_string()))?,
            pool: pool.map_err(|e| CliError::Engine(e.to_string()))?,
            key: Arc::clone(key),
            circuit: CircuitKey::Groth16(Arc::clone(key)),
        })
    }

    /// What a proof costs, verified outside of the measurement.
    fn prove(&self, witness: Witness) -> Result<Cost, CliError> {
        let (proved, cost) = measured(|| {
            let assignment = self
                .pool
                .install(|| assignment::evaluate_key(&self.key, witness))
                .map_err(|e| CliError::Input(e.to_string()))?;
            prove(&self.device, &self.circuit, Assignment::Groth16(assignment))
        });
        let (proof, signals) = proved?;
        match verify_partition(&self.circuit, &proof, &signals) {
            Ok(true) => Ok(cost),
            _ => Err(CliError::Unsatisfied("the witness does not satisfy the circuit".into())),
        }
    }
}

/// One proof, step by step, without an engine.
pub fn prove(
    device: &dyn Device,
    key: &CircuitKey,
    assignment: Assignment,
) -> Result<(Proof, Vec<[u64; 4]>), CliError> {
    let fault = |e: proofmill_groth16::device::DeviceError| CliError::Engine(e.to_string());
    let signals = assignment.public_signals(key);
    let mut start = device.prepare(key, assignment, Blinding::Random).map_err(fault)?;
    while start.next_phase().is_some() {
        start.step().map_err(fault)?;
    }
    let output = start.into_output().map_err(fault)?;
    Ok((device.prove_finish(key, output).map_err(fault)?, signals))
}

fn read_witness(path: &Path, key: &ProvingKey) -> Result<Witness, CliError> {
    let bad = |e: String| CliError::Input(format!("{}: {e}", path.display()));
    let file = FileSource::open(path).map_err(|e| bad(e.to_string()))?;
    let witness = WitnessFile::read(&file).map_err(|e| bad(e.to_string()))?;
    witness.check(key.info().curve, key.info().variables).map_err(|e| bad(e.to_string()))?;
    Ok(witness.witness)
}

fn file_url(path: &Path) -> Result<String, CliError> {
    let absolute: PathBuf =
        std::path::absolute(path).map_err(|e| CliError::Input(format!("{}: {e}", path.display())))?;
    Ok(proofmill_sources::url::file_url(&absolute))
}

/// The report as a table: what was measured, and the ratios.
fn table(report: &Value) -> String {
    let mut text = format!(
        "{} on {}, {} threads\n{} constraints, domain {}\n\n{:<28} {:>9} {:>9}\n",
        report["curve"].as_str().unwrap_or_default(),
        report["cpu"].as_str().unwrap_or_default(),
        report["threads"],
        report["constraints"],
        report["domain"],
        "seconds",
        "wall",
        "CPU"
    );
    let mut cost = |name: &str, value: &Value| {
        if let (Some(wall), Some(cpu)) = (value["wall"].as_f64(), value["cpu"].as_f64()) {
            text += &format!("{name:<28} {wall:>9.3} {cpu:>9.3}\n");
        }
    };
    cost("import, all checks", &report["import"]);
    cost("prove", &report["prove"]);
    cost("prove, one thread", &report["proveOneThread"]);
    cost("start to proof, key imported", &report["startToProof"]);
    cost("snarkjs prove", &report["snarkjs"]);
    cost("ark-circom load", &report["ark"]["load"]);
    cost("ark-groth16 prove", &report["ark"]["prove"]);
    text.push('\n');
    let mut figure = |name: &str, value: &Value, unit: &str| {
        if let Some(value) = value.as_f64() {
            text += &format!("{name:<44} {value:>9.3} {unit}\n");
        }
    };
    figure("all threads against one, wall", &report["speedup"], "times as fast");
    figure("start to proof over the prove time", &report["startOverProve"], "s");
    figure("peak memory", &json!(report["peakBytes"].as_f64().map(|b| b / 1e6)), "MB");
    figure("prove / snarkjs, CPU", &report["proveToSnarkjsCpu"], "");
    figure("prove / ark-groth16, CPU", &report["proveToArkCpu"], "");
    figure("import / ark-circom load, wall", &report["importToArkLoadWall"], "");
    figure("queue: device busy by the ledger", &report["queue"]["busy"], "");
    figure("queue: throughput / bare loop", &report["queue"]["toBareLoop"], "");
    figure("submit to device start, p50", &report["latency"]["p50Milliseconds"], "ms");
    figure("submit to device start, p99", &report["latency"]["p99Milliseconds"], "ms");
    text
}
