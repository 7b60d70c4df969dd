//! From a client's submission over gRPC on loopback to the start on an idle device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_engine::engine::{Config, Engine, Parts};
use proofmill_engine::job::{Circuit, CircuitKind, Failure, Input, PartitionId, Priority, Source, Submission};
use proofmill_engine::parts::{Cancel, InputSource, KeyEstimate, KeySource, LoadedCircuit, SystemClock};
use proofmill_groth16::device::simulated::{SimulatedCircuit, SimulatedDevice, SystemSleeper};
use proofmill_proto::v1;
use proofmill_server::client::{Address, Client, ClientConfig};
use proofmill_server::{Listen, ServeConfig, Server, shutdown};
use serde_json::{Value, json};

use crate::circuits::simulated;
use crate::error::CliError;
use crate::runtime;
use crate::submit::message;

/// Submissions that do not count: connection, key, first allocations.
const WARM_UP: u32 = 20;

/// Submits `count` partitions one after the other to an idle engine over TCP on loopback, and measures until the client
/// has read the event that the device has started: more than the way to the device, never less.
pub fn measure(count: u32) -> Result<Value, CliError> {
    let failed = |e: String| CliError::Engine(format!("the latency measurement failed: {e}"));
    let mut samples = runtime::block_on(async {
        let server = Server::bind(ServeConfig::new(Listen::Tcp(([127, 0, 0, 1], 0).into()), None))
            .await
            .map_err(|e| failed(e.to_string()))?;
        let address = Address::Tcp(server.grpc_place().to_string());
        let (handle, wait) = shutdown::pair();
        let running = tokio::spawn(server.run(Arc::new(engine()), wait));
        let client = Client::new(ClientConfig::new(address)).map_err(|e| failed(e.to_string()))?;
        let mut samples = Vec::new();
        for number in 0..count + WARM_UP {
            let request = message::request(&submission(number));
            let begun = Instant::now();
            let mut started = None;
            let outcome = client
                .prove(&request, |event| {
                    if event.state >= v1::PartitionState::Proving as i32 {
                        started.get_or_insert_with(|| begun.elapsed());
                    }
                })
                .await
                .map_err(|e| failed(e.to_string()))?;
            outcome.map_err(|failure| failed(failure.message))?;
            samples.extend(started.filter(|_| number >= WARM_UP));
        }
        handle.wish(shutdown::Wish::Stop);
        // It was told to stop; how it ends changes no sample.
        drop(running.await);
        Ok::<_, CliError>(samples)
    })?;
    samples.sort();
    let quantile = |share: f64| {
        let index = ((samples.len() as f64 * share) as usize).min(samples.len().saturating_sub(1));
        samples.get(index).map(|sample: &Duration| sample.as_secs_f64() * 1e3)
    };
    Ok(json!({"samples": samples.len(), "p50Milliseconds": quantile(0.5), "p99Milliseconds": quantile(0.99)}))
}

fn engine() -> Engine {
    Engine::start(
        Config::default(),
        Parts {
            devices: vec![Arc::new(SimulatedDevice::new("simulated-0", None, Arc::new(SystemSleeper)))],
            keys: Arc::new(Instantly),
            inputs: Arc::new(Instantly),
            clock: Arc::new(SystemClock::default()),
            canary: None,
        },
    )
}

fn submission(number: u32) -> Submission {
    let milliseconds = Duration::from_millis;
    Submission {
        id: PartitionId { job: format!("latency-{number}"), partition: 0, attempt: 0 },
        epoch: 0,
        digest: [1; 32],
        priority: Priority::Normal,
        sequence: number.into(),
        deadline: None,
        circuit: Circuit {
            name: "latency".into(),
            kind: CircuitKind::Simulated(SimulatedCircuit {
                partitions: 1,
                key_bytes: 0,
                working_set: 0,
                key_load: Duration::ZERO,
                synthesis: Duration::ZERO,
                ntt: Duration::ZERO,
                // Long enough that the start is seen before the end.
                msm_g1: milliseconds(5),
                msm_g2: Duration::ZERO,
                transfer: Duration::ZERO,
                finish: Duration::ZERO,
            }),
        },
        input: Input::Inline(Arc::from(*b"ready")),
    }
}

/// Inputs are inline and keys take no time.
struct Instantly;

impl InputSource for Instantly {
    fn fetch(&self, _source: &Source, _cancel: &Cancel) -> Result<Arc<[u8]>, Failure> {
        Ok(Arc::from(*b"ready"))
    }
}

impl KeySource for Instantly {
    fn estimate(&self, _circuit: &Circuit, _cancel: &Cancel) -> Result<KeyEstimate, Failure> {
        Ok(KeyEstimate::default())
    }

    fn load(
        &self,
        circuit: &Circuit,
        _progress: &(dyn Fn(u64, u64) + Sync),
        cancel: &Cancel,
    ) -> Result<Arc<LoadedCircuit>, Failure> {
        match &circuit.kind {
            CircuitKind::Simulated(circuit) => simulated::load(circuit, cancel),
            CircuitKind::Groth16 { .. } => Err(Failure {
                kind: proofmill_engine::job::FailureKind::BadKey,
                message: "only simulated circuits are measured here".into(),
            }),
        }
    }
}
