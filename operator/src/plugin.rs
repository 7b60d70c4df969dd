//! `kubectl proofmill`: what `kubectl get` and `describe` do not tell, with the user's own rights.
//!
//! - `status`: pools, pods and their devices, the queue. `why`: what one job waits for.
//! - `wait`: until jobs have ended, either way. `proof`: snarkjs's JSON. `logs`: what pods said of a job.
//! - `cancel`, `drain`: a deletion and an annotation, as anyone could write them.

mod logs;
mod proof;
mod queue;
mod status;
mod table;
mod wait;
mod why;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use proofmill_crds::ProofJob;
use serde_json::json;

use crate::pool::DRAIN;

/// Exit code when the cluster or the machine fails.
pub const TROUBLE: u8 = 5;

/// Proofs on Kubernetes: what waits and why, proofs, logs.
#[derive(Debug, Parser)]
#[command(name = "kubectl proofmill", bin_name = "kubectl proofmill", version)]
pub struct Cli {
    /// Which cluster.
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(subcommand)]
    command: Command,
}

/// Which cluster and namespace, as kubectl has it.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// The namespace [default: the context's].
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// The kubeconfig's context.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Pools, their pods and devices (busy, or idle for which cause), and the queue.
    Status,
    /// What a job waits for, which object blocks it, its place in the queue and when it may start.
    Why {
        /// The job.
        job: String,
    },
    /// Wait until jobs have ended, either way; exits as `prover run` does.
    ///
    /// 0: all succeeded; 3: a bad input or key; 4: an unsatisfied witness; 5: anything else, the time limit included. The
    /// highest code of several jobs counts. (`kubectl wait --for=condition=Succeeded` never returns for a job that fails.)
    #[command(
        after_help = "Examples:\n  kubectl proofmill wait first second --timeout 10m\n  kubectl proofmill wait --all"
    )]
    Wait {
        /// The jobs.
        #[arg(required_unless_present_any = ["all", "selector"])]
        jobs: Vec<String>,
        /// All jobs that there are now.
        #[arg(long, conflicts_with_all = ["jobs", "selector"])]
        all: bool,
        /// All jobs with these labels.
        #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "jobs")]
        selector: Option<String>,
        /// No longer than this, e.g. 90s, 10m, 2h.
        #[arg(long, value_name = "TIME", value_parser = time)]
        timeout: Option<Duration>,
    },
    /// A job's proof as snarkjs has it: proof.json on standard output, or all files.
    Proof {
        /// The job.
        job: String,
        /// The public signals instead.
        #[arg(long)]
        public: bool,
        /// Write proof.json, public.json and proof.bin into this folder.
        #[arg(short, long, value_name = "DIR", conflicts_with = "public")]
        out: Option<PathBuf>,
    },
    /// What the pods that have or had a job said about it.
    Logs {
        /// The job.
        job: String,
    },
    /// Cancel a job: delete it.
    Cancel {
        /// The job.
        job: String,
    },
    /// Let a prover pod finish what it has, and replace it.
    Drain {
        /// The pod.
        pod: String,
    },
}

/// How a command can end other than well.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// No way to the cluster.
    #[error("no way to the cluster: {0}")]
    Cluster(String),
    /// The API server's words.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// There is no such thing, or not yet.
    #[error("{0}")]
    Missing(String),
    /// A file.
    #[error("{path}: {error}")]
    File {
        /// Which.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
}

impl PluginError {
    /// The exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Missing(_) => 2,
            Self::Cluster(_) | Self::Api(_) | Self::File { .. } => TROUBLE,
        }
    }
}

/// Does it; the exit code.
pub async fn run(cli: Cli) -> Result<u8, PluginError> {
    let options = KubeConfigOptions { context: cli.cluster.context, ..KubeConfigOptions::default() };
    let config = match options.context {
        None => Config::infer().await.map_err(|error| PluginError::Cluster(error.to_string()))?,
        Some(_) => Config::from_kubeconfig(&options).await.map_err(|error| PluginError::Cluster(error.to_string()))?,
    };
    let namespace = cli.cluster.namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let jobs: Api<ProofJob> = Api::namespaced(client.clone(), &namespace);
    match cli.command {
        Command::Status => status::run(&client, &namespace).await?,
        Command::Why { job } => why::run(&client, &namespace, &job).await?,
        Command::Wait { jobs: names, all: _, selector, timeout } => {
            return wait::run(&jobs, names, selector, timeout).await;
        }
        Command::Proof { job, public, out } => {
            proof::run(&client, &namespace, &find(&jobs, &job).await?, public, out).await?
        }
        Command::Logs { job } => logs::run(&client, &namespace, &find(&jobs, &job).await?).await?,
        Command::Cancel { job } => {
            jobs.delete(&job, &DeleteParams::default()).await?;
            println!("proofjob {job} deleted: its work is cancelled");
        }
        Command::Drain { pod } => {
            let pods: Api<Pod> = Api::namespaced(client, &namespace);
            let patch = json!({"metadata": {"annotations": {DRAIN: "User"}}});
            pods.patch(&pod, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            println!("pod {pod} finishes what it has, gets nothing new, and is replaced");
        }
    }
    Ok(0)
}

async fn find(jobs: &Api<ProofJob>, name: &str) -> Result<ProofJob, PluginError> {
    let found = jobs.get_opt(name).await?;
    found.ok_or_else(|| PluginError::Missing(format!("there is no proofjob {name} in this namespace")))
}

fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "needs a number with s, m or h, such as 90s".to_owned();
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..split].parse().map_err(|_| wrong())?;
    let factor = match &text[split..] {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for bad in ["", "90", "s", "1d", "-1s", "99999999999999999999s", "9999999999999999999h"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
