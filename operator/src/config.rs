//! The operator's command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Proofmill's Kubernetes operator: ProofJobs become prover pods and verified proofs.
#[derive(Debug, Parser)]
#[command(name = "proofmill-operator", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator in a cluster (or, with a kubeconfig, beside one).
    Run(RunArgs),
}

/// Flags of `proofmill-operator run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The operator's own namespace, where its Lease and its CA lie.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", default_value = "proofmill-system")]
    pub namespace: String,

    /// This replica's name among the candidates for leadership.
    #[arg(long, value_name = "NAME", env = "POD_NAME", default_value = "proofmill-operator")]
    pub identity: String,

    /// Watch only this namespace; may be given several times [default: all].
    #[arg(long = "watch-namespace", value_name = "NAMESPACE")]
    pub watch_namespaces: Vec<String>,

    /// Address of /metrics, /healthz and /readyz.
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    pub http: SocketAddr,

    /// Seconds until an ended job without a ttlSecondsAfterFinished is deleted.
    #[arg(long, value_name = "SECONDS", default_value_t = 7 * 24 * 3600)]
    pub default_ttl: u64,

    /// Certificate (PEM) that the operator shows to engines; its name must be operator.proofmill.dev.
    #[arg(long, value_name = "FILE", requires_all = ["engine_tls_key", "engine_ca"])]
    pub engine_tls_cert: Option<PathBuf>,

    /// Private key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", requires = "engine_tls_cert")]
    pub engine_tls_key: Option<PathBuf>,

    /// The CA (PEM) that signs engines.
    #[arg(long, value_name = "FILE", requires = "engine_tls_cert")]
    pub engine_ca: Option<PathBuf>,

    /// Reach engines without TLS: for tests only.
    #[arg(long)]
    pub insecure: bool,
}
