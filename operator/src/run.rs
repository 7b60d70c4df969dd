//! `proofmill-operator run`: watches, planner and executor together.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, header};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use kube::{Client, Config, Resource};
use proofmill_crds::{Circuit, ProofJob, ProverPool};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::clock::Now;
use crate::config::RunArgs;
use crate::credentials::{Credentials, CredentialsError};
use crate::executor::Executor;
use crate::http::{self, Scrape};
use crate::index::{CircuitObject, JobObject, NodeObject, POOL_LABEL, PodObject, PoolObject};
use crate::leader::{Candidate, Leadership, Lost};
use crate::link::Links;
use crate::metrics::Metrics;
use crate::owner::MANAGED_BY;
use crate::planner::{Change, Input, Planner, Settings};
use crate::{pool, watch as watches};

/// Inputs that wait for the planner.
const INPUTS: usize = 4096;
/// Inputs that are taken in before it is planned again.
const BATCH: usize = 256;
/// Scrapes that wait for an answer.
const SCRAPES: usize = 16;
/// Name of the Lease.
const LEASE: &str = "proofmill-operator";

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
        kind: String,
        /// The API server's words.
        error: String,
    },
    /// No certificate towards engines.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
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
    let mut config = Config::infer().await.map_err(|error| RunError::Cluster(error.to_string()))?;
    // So that audit logs tell who it was.
    let agent = HeaderValue::from_static(concat!("proofmill-operator/", env!("CARGO_PKG_VERSION")));
    config.headers.push((header::USER_AGENT, agent));
    let client = Client::try_from(config).map_err(|error| RunError::Cluster(error.to_string()))?;
    let (scrapes, asked) = mpsc::channel(SCRAPES);
    let synced = Arc::new(AtomicBool::new(false));
    let listener = tokio::net::TcpListener::bind(args.http).await;
    let listener = listener.map_err(|error| RunError::Http { address: args.http, error })?;
    tokio::spawn(http::serve(listener, scrapes, Arc::clone(&synced)));

    let namespaces = scopes(&args.watch_namespaces);
    for namespace in &namespaces {
        known::<ProofJob>(&client, namespace.as_deref()).await?;
    }
    let (to, inputs) = mpsc::channel(INPUTS);
    for namespace in &namespaces {
        follow_all(&client, namespace.as_deref(), &to);
    }
    follow_nodes(&client, &to).await;

    let leadership = Leadership::default();
    let (tls, links) = watch::channel(None);
    let credentials = Credentials::new(client.clone(), &args.namespace, leadership.clone(), tls);
    let links = Links::new(links, to.clone());
    let (executor, stepped_down) =
        Executor::new(client.clone(), links, credentials.clone(), leadership.clone(), to.clone());
    let settings = Settings {
        default_ttl: Duration::from_secs(args.default_ttl),
        namespaces: args.watch_namespaces.len(),
        pools: pool::Settings { image: args.image.clone(), allow_privileged: args.allow_privileged_pools },
    };
    let turn = turn(Planner::new(settings), inputs, asked, executor, credentials.clone(), synced);
    let leases: Api<Lease> = Api::namespaced(client, &args.namespace);
    let candidate = Candidate::new(leases, LEASE, &args.identity, leadership);
    let lead = async {
        let epoch = candidate.win().await;
        tracing::info!(epoch, "this replica leads");
        // Connections to engines need the operator's certificate; the Lease is kept meanwhile.
        let begin = async {
            credentials.begin().await?;
            // The planner ends only with the process.
            let _ = to.send(Input::Leads(epoch)).await;
            tokio::spawn(credentials.clone().renew());
            std::future::pending::<Result<RunError, CredentialsError>>().await
        };
        tokio::select! {
            lost = candidate.keep() => lost.into(),
            failed = begin => failed.unwrap_or_else(Into::into),
        }
    };
    tokio::select! {
        () = turn => Ok(()),
        error = lead => Err(error),
        _ = stepped_down => Err(RunError::SteppedDown),
        () = terminated() => {
            tracing::info!("stopping");
            candidate.release().await;
            Ok(())
        }
    }
}

/// Where to watch: each namespace, or everywhere.
fn scopes(namespaces: &[String]) -> Vec<Option<String>> {
    if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() }
}

/// Feeds the planner and hands on what it wants, for ever.
async fn turn(
    mut planner: Planner,
    mut inputs: mpsc::Receiver<Input>,
    mut scrapes: mpsc::Receiver<Scrape>,
    executor: Executor,
    credentials: Credentials,
    synced: Arc<AtomicBool>,
) {
    let mut metrics = Metrics::default();
    let origin = Instant::now();
    let now = || Now { mono: origin.elapsed(), wall: Timestamp::now() };
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let pause = planner.wake().map_or(Duration::from_secs(3600), |at| at.saturating_sub(origin.elapsed()));
        tokio::select! {
            count = inputs.recv_many(&mut batch, BATCH) => if count == 0 { return },
            Some(scrape) = scrapes.recv() => {
                let text = metrics.text(&planner, &now(), &credentials.expiries());
                // Whoever asked may have given up.
                let _ = scrape.send(text.map_err(|error| error.to_string()));
                continue;
            }
            () = tokio::time::sleep(pause) => {}
        }
        let begun = Instant::now();
        for input in batch.drain(..) {
            metrics.sees(&input);
            planner.see(input, &now());
        }
        let commands = planner.plan(&now());
        metrics.planned(begun.elapsed(), &commands);
        synced.store(planner.is_synced(), Ordering::Relaxed);
        for command in commands {
            executor.run(command);
        }
    }
}

/// A watch of every kind in a namespace, or everywhere.
fn follow_all(client: &Client, namespace: Option<&str>, to: &mpsc::Sender<Input>) {
    let plain = watcher::Config::default();
    let pods = watcher::Config::default().labels(&format!("{}={},{POOL_LABEL}", MANAGED_BY.0, MANAGED_BY.1));
    follow::<Circuit, CircuitObject>(client, namespace, &plain, to, Input::Circuits);
    follow::<ProverPool, PoolObject>(client, namespace, &plain, to, Input::Pools);
    follow::<ProofJob, JobObject>(client, namespace, &plain, to, Input::Jobs);
    follow::<Pod, PodObject>(client, namespace, &pods, to, Input::Pods);
}

fn follow<K, T>(
    client: &Client,
    namespace: Option<&str>,
    config: &watcher::Config,
    to: &mpsc::Sender<Input>,
    input: fn(Change<T>) -> Input,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync,
    K: 'static,
    T: From<K> + Send + 'static,
{
    let api: Api<DeserializeGuard<K>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let namespace = namespace.map(str::to_owned);
    tokio::spawn(watches::follow::<K, T>(api, namespace, config.clone(), to.clone(), input));
}

/// Cordons and taints are seen where the operator may see nodes.
async fn follow_nodes(client: &Client, to: &mpsc::Sender<Input>) {
    let api: Api<Node> = Api::all(client.clone());
    if let Err(error) = api.list_metadata(&ListParams::default().limit(1)).await {
        tracing::warn!("nodes are not watched, so pods on cordoned ones are not drained: {error}");
        return;
    }
    let api: Api<DeserializeGuard<Node>> = Api::all(client.clone());
    let follow = watches::follow::<Node, NodeObject>(api, None, watcher::Config::default(), to.clone(), Input::Nodes);
    tokio::spawn(follow);
}

/// The kinds must be installed: an operator that watches nothing would wait for ever.
async fn known<K>(client: &Client, namespace: Option<&str>) -> Result<(), RunError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(RunError::NoKinds { kind: K::plural(&()).into_owned(), error: error.to_string() }),
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
