//! From a client's submission over gRPC on loopback to the start on an idle device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_engine::engine::{Config, Engine};
use proofmill_engine::job::CircuitKind;
use proofmill_engine::parts::Cancel;
use proofmill_groth16::device::simulated::{SimulatedCircuit, SimulatedDevice, SystemSleeper};
use proofmill_proto::v1;
use proofmill_server::client::{Address, Client, ClientConfig, message};
use proofmill_server::{Listen, ServeConfig, Server, shutdown};
use serde_json::{Value, json};

use super::ready;
use crate::circuits::simulated;
use crate::error::CliError;
use crate::runtime;

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
        let running = tokio::spawn(server.run(Arc::new(engine()?), wait));
        let client = Client::new(ClientConfig::new(address)).map_err(|e| failed(e.to_string()))?;
        let mut samples = Vec::new();
        for number in 0..count + WARM_UP {
            let request = message::request(&ready::submission(number, CircuitKind::Simulated(circuit())));
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

fn engine() -> Result<Engine, CliError> {
    let device = SimulatedDevice::new("simulated-0", None, Arc::new(SystemSleeper));
    let loaded = simulated::load(&circuit(), &Cancel::default())?;
    Ok(ready::engine(Config::default(), Arc::new(device), loaded))
}

fn circuit() -> SimulatedCircuit {
    SimulatedCircuit {
        partitions: 1,
        key_bytes: 0,
        working_set: 0,
        key_load: Duration::ZERO,
        synthesis: Duration::ZERO,
        ntt: Duration::ZERO,
        // Long enough that the start is seen before the end.
        msm_g1: Duration::from_millis(5),
        msm_g2: Duration::ZERO,
        transfer: Duration::ZERO,
        finish: Duration::ZERO,
    }
}
