//! `proofmill-operator run`: watches, planner and executor together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Client, Resource};
use proofmill_crds::{Circuit, ProofJob};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::clock::Now;
use crate::config::RunArgs;
use crate::executor::Executor;
use crate::index::{CircuitObject, JobObject, PodObject};
use crate::leader::{Candidate, Leadership, Lost};
use crate::link::Links;
use crate::metrics::Metrics;
use crate::planner::{Input, Planner, Settings};
use crate::{http, tls, watch as watches};

/// Inputs that wait for the planner.
const INPUTS: usize = 4096;
/// Inputs that are taken in before it is planned again.
const BATCH: usize = 256;
/// Name of the Lease.
const LEASE: &str = "proofmill-operator";
/// Prover pods carry it.
const POD_SELECTOR: &str = "app.kubernetes.io/managed-by=proofmill,proofmill.dev/pool";

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No way to the API server.
    #[error("no way to the API server: {0}; run in a cluster with a service account, or with a kubeconfig")]
    Cluster(String),
    /// The kinds are not installed.
    #[error("the API server does not know {kind}: {error}; install the chart proofmill-crds first")]
    NoKinds {
        /// Which.
        kind: &'static str,
        /// The API server's words.
        error: String,
    },
    /// Certificates that cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// Engines without certificates.
    #[error("engines are reached with mutual TLS: give --engine-tls-cert, --engine-tls-key and --engine-ca (or --insecure, for tests)")]
    NoTls,
    /// The HTTP address.
    #[error("cannot listen on {address}: {error}")]
    Http {
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// Another replica leads.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// A newer leader was at work.
    #[error("an engine has heard of a newer leader")]
    SteppedDown,
}

/// Runs until SIGTERM (then `Ok`) or until leadership is lost.
pub async fn run(args: RunArgs) -> Result<(), RunError> {
    let client = Client::try_default().await.map_err(|error| RunError::Cluster(error.to_string()))?;
    let tls = match tls::client(&args)? {
        None if !args.insecure => return Err(RunError::NoTls),
        config => watch::channel(config).1,
    };
    known::<ProofJob>(&client).await?;
    known::<Circuit>(&client).await?;

    let metrics = Arc::new(Metrics::default());
    let synced = Arc::new(AtomicBool::new(false));
    let listener = tokio::net::TcpListener::bind(args.http).await;
    let listener = listener.map_err(|error| RunError::Http { address: args.http, error })?;
    tokio::spawn(http::serve(listener, Arc::clone(&metrics), Arc::clone(&synced)));

    let (to, inputs) = mpsc::channel(INPUTS);
    follow_all(&client, &args, &to);
    let leadership = Leadership::default();
    let (executor, stepped_down) =
        Executor::new(client.clone(), Links::new(tls, to.clone()), leadership.clone(), to.clone());
    let settings = Settings { default_ttl: Duration::from_secs(args.default_ttl) };
    let turn = turn(Planner::new(settings), inputs, executor, metrics, synced);
    let leases: Api<Lease> = Api::namespaced(client, &args.namespace);
    let candidate = Candidate::new(leases, LEASE, &args.identity, leadership);
    let lead = async {
        let epoch = candidate.win().await;
        tracing::info!(epoch, "this replica leads");
        // The planner ends only with the process.
        let _ = to.send(Input::Leads(epoch)).await;
        candidate.keep().await
    };
    tokio::select! {
        () = turn => Ok(()),
        lost = lead => Err(lost.into()),
        _ = stepped_down => Err(RunError::SteppedDown),
        () = terminated() => {
            tracing::info!("stopping");
            candidate.release().await;
            Ok(())
        }
    }
}

/// Feeds the planner and hands on what it wants, for ever.
async fn turn(
    mut planner: Planner,
    mut inputs: mpsc::Receiver<Input>,
    executor: Executor,
    metrics: Arc<Metrics>,
    synced: Arc<AtomicBool>,
) {
    let origin = Instant::now();
    let now = || Now { mono: origin.elapsed(), wall: Timestamp::now() };
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let pause = planner.wake().map_or(Duration::from_secs(3600), |at| at.saturating_sub(origin.elapsed()));
        tokio::select! {
            count = inputs.recv_many(&mut batch, BATCH) => if count == 0 { return },
            () = tokio::time::sleep(pause) => {}
        }
        let begun = Instant::now();
        for input in batch.drain(..) {
            planner.see(input, &now());
        }
        let commands = planner.plan(&now());
        metrics.planned(begun.elapsed(), &planner, &commands);
        synced.store(planner.is_synced(), Ordering::Relaxed);
        for command in commands {
            executor.run(command).await;
        }
    }
}

/// A watch of every kind, in every namespace that is to be watched.
fn follow_all(client: &Client, args: &RunArgs, to: &mpsc::Sender<Input>) {
    let plain = watcher::Config::default();
    let pods = watcher::Config::default().labels(POD_SELECTOR);
    follow::<Circuit, CircuitObject>(client, args, &plain, to, Input::Circuits);
    follow::<ProofJob, JobObject>(client, args, &plain, to, Input::Jobs);
    follow::<Pod, PodObject>(client, args, &pods, to, Input::Pods);
}

fn follow<K, T>(
    client: &Client,
    args: &RunArgs,
    config: &watcher::Config,
    to: &mpsc::Sender<Input>,
    input: fn(crate::planner::Change<T>) -> Input,
) where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
    T: From<K> + Send + 'static,
{
    let api: Api<DeserializeGuard<K>> = Api::all(client.clone());
    let _ = args;
    tokio::spawn(watches::follow::<K, T>(api, config.clone(), to.clone(), input));
}

/// The kinds must be installed: an operator that watches nothing would wait for ever.
async fn known<K>(client: &Client) -> Result<(), RunError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let one = kube::api::ListParams::default().limit(1);
    match api.list_metadata(&one).await {
        Ok(_) => Ok(()),
        Err(error) => Err(RunError::NoKinds { kind: std::any::type_name::<K>(), error: error.to_string() }),
    }
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        }
        _ => std::future::pending().await,
    }
}
