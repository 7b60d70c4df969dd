//! An engine from flags: budget, devices, keys, inputs.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::memory;
use proofmill_engine::parts::{Canary, SystemClock};
use proofmill_groth16::canary as groth16;
use proofmill_groth16::device::SharedDevice;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::simulated::{Fault, SimulatedDevice, SystemSleeper};
use proofmill_groth16::key::cache::KeyCache;
use proofmill_sources::Fetcher;
use proofmill_sources::policy::{Allow, FileAccess, ObjectOptions, Policy, ProxySettings};

use crate::circuits::Circuits;
use crate::cli::values::FaultKind;
use crate::cli::{DeviceKind, EngineArgs, SourceArgs};
use crate::environment::Environment;
use crate::error::CliError;
use crate::inputs::Inputs;

/// Partitions that may wait: far more than any manifest of a person, far less than memory.
const QUEUE_LIMIT: usize = 100_000;

/// How much the threads for keys and constraints step back behind the device's.
const NICE: i32 = 10;

/// What an engine is made from.
pub struct Wiring<'a> {
    /// The engine's flags.
    pub engine: &'a EngineArgs,
    /// The flags of keys and inputs.
    pub sources: &'a SourceArgs,
    /// The environment.
    pub environment: &'a Environment,
    /// Which files URLs may name.
    pub files: FileAccess,
    /// The URL prefixes that others' jobs may name; `None` where manifest and machine are the user's own.
    pub allow_urls: Option<&'a [String]>,
    /// Whether keys whose proofs anyone can forge are refused.
    pub refuse_insecure_keys: bool,
    /// Whether circuits' `log()` lines are printed.
    pub circuit_log: bool,
    /// Whether devices must make a canary proof before they get work.
    pub canary: bool,
}

/// Starts an engine.
pub fn start(wiring: &Wiring<'_>) -> Result<(Engine, Arc<Circuits>), CliError> {
    let cores = available_parallelism().map_or(1, usize::from);
    let budget = match wiring.engine.memory {
        Some(bytes) => bytes,
        None => memory::detect().map_err(|e| CliError::Engine(e.to_string()))?,
    };
    let config = Config {
        memory_budget: budget,
        reserve_critical: wiring.engine.reserve_critical,
        synthesis_workers: wiring.engine.synthesis_workers.map_or((cores / 4).max(1), usize::from),
        finalizers: (cores / 8).max(1),
        refuse_insecure_keys: wiring.refuse_insecure_keys,
        trace_window: wiring.engine.trace_window,
        queue_limit: QUEUE_LIMIT,
        ..Config::default()
    };
    let simulated = wiring.engine.device == DeviceKind::Simulated;
    let fetcher = fetcher(wiring.sources, wiring.environment, wiring.files.clone(), wiring.allow_urls)?;
    let fetcher = Arc::new(fetcher);
    let circuits =
        circuits(Arc::clone(&fetcher), wiring.sources, wiring.environment, simulated, wiring.circuit_log, NICE)?;
    let circuits = Arc::new(circuits);
    let parts = Parts {
        devices: devices(wiring.engine, cores)?,
        keys: Arc::clone(&circuits) as _,
        inputs: Arc::new(Inputs { fetcher, limit: wiring.sources.input_limit }),
        clock: Arc::new(SystemClock::default()),
        canary: if wiring.canary { Some(canary()?) } else { None },
    };
    Ok((Engine::start(config, parts), circuits))
}

/// How the engine gets its circuits; `nice` is how far its threads step back behind others.
pub fn circuits(
    fetcher: Arc<Fetcher>,
    sources: &SourceArgs,
    environment: &Environment,
    simulated: bool,
    circuit_log: bool,
    nice: i32,
) -> Result<Circuits, CliError> {
    let folder = cache_folder(sources, environment)?;
    let cache = KeyCache::open(&folder, sources.key_cache_limit).map_err(|e| CliError::Engine(e.to_string()))?;
    let threads = rayon::ThreadPoolBuilder::new()
        .thread_name(|index| format!("circuit-{index}"))
        // On Linux this is the calling thread's priority alone. A refusal costs speed under load, nothing else.
        .start_handler(move |_| {
            let _ = rustix::process::setpriority_process(None, nice);
        })
        .build()
        .map_err(|e| CliError::Engine(format!("cannot start threads: {e}")))?;
    Ok(Circuits {
        fetcher,
        cache,
        folder: folder.join("tmp"),
        key_limit: sources.key_limit,
        threads: Arc::new(threads),
        simulated,
        circuit_log,
        verifying_keys: Default::default(),
    })
}

/// The folder of imported keys.
pub fn cache_folder(sources: &SourceArgs, environment: &Environment) -> Result<PathBuf, CliError> {
    sources.key_cache.clone().or_else(|| environment.cache.as_ref().map(|cache| cache.join("keys"))).ok_or_else(|| {
        CliError::Usage(
            "neither HOME nor XDG_CACHE_HOME is set: say with --key-cache where imported keys are kept".into(),
        )
    })
}

/// A fetcher with the proxies, certificates and credentials of the process. `allow_urls` are the URL prefixes that
/// others' jobs may name; `None` where manifest and machine are the user's own.
pub fn fetcher(
    sources: &SourceArgs,
    environment: &Environment,
    files: FileAccess,
    allow_urls: Option<&[String]>,
) -> Result<Fetcher, CliError> {
    let mut policy = match allow_urls {
        None => Policy { files, ..Policy::run("/") },
        Some(prefixes) => Policy { files, urls: Allow::Only(prefixes.to_vec()), ..Policy::serve(None) },
    };
    policy.network.proxy = ProxySettings {
        http: environment.http_proxy.clone(),
        https: environment.https_proxy.clone(),
        no_proxy: environment.no_proxy.clone(),
    };
    policy.network.ca_file.clone_from(&sources.ca_file);
    policy.object_options = ObjectOptions(environment.object_store.clone());
    Fetcher::new(policy).map_err(|e| CliError::Usage(e.to_string()))
}

/// A check that a device proves correctly: a small statement on each curve, or a simulated proof.
fn canary() -> Result<Canary, CliError> {
    let canary = groth16::Canary::new().map_err(|e| CliError::Engine(format!("cannot make canary proofs: {e}")))?;
    Ok(Arc::new(move |device: &SharedDevice| canary.prove_and_verify(&**device)))
}

fn devices(args: &EngineArgs, cores: usize) -> Result<Vec<SharedDevice>, CliError> {
    match args.device {
        DeviceKind::Cpu => {
            let threads = args.threads.map_or(cores, usize::from);
            let device = CpuDevice::new(threads).map_err(|e| CliError::Engine(e.to_string()))?;
            Ok(vec![Arc::new(device)])
        }
        DeviceKind::Simulated => Ok((0..args.simulated_devices).map(|index| simulated(args, index)).collect()),
    }
}

/// A simulated device; the first has the faults that were asked for.
fn simulated(args: &EngineArgs, index: u16) -> SharedDevice {
    let mut device = SimulatedDevice::new(format!("simulated-{index}"), None, Arc::new(SystemSleeper));
    for (place, kind) in args.simulated_faults.iter().filter(|_| index == 0) {
        let fault = match kind {
            FaultKind::Prepare => Fault::Prepare,
            FaultKind::Step => Fault::Step { step: 0 },
            FaultKind::Stall => Fault::Stall { step: 0, extra: Duration::from_secs(1) },
            FaultKind::Finish => Fault::Finish,
            FaultKind::InvalidProof => Fault::InvalidProof,
        };
        device = device.with_fault(*place, fault);
    }
    Arc::new(device)
}
