//! The operator's command line.

use std::net::SocketAddr;

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

    /// The image of prover pods whose pool names none.
    #[arg(long, value_name = "IMAGE", default_value = concat!("ghcr.io/proofmill/proofmill:", env!("CARGO_PKG_VERSION")))]
    pub image: String,

    /// Let pools ask for privileges on nodes: host namespaces and paths, capabilities, privileged containers.
    #[arg(long)]
    pub allow_privileged_pools: bool,
}
