//! `prover submit`: a manifest's jobs to a daemon, their proofs back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use proofmill_engine::job::{Failure, Input, PartitionProof};
use proofmill_proto::v1;
use proofmill_server::client::{Client, message};
use proofmill_sources::Fetcher;
use proofmill_sources::policy::Policy;
use proofmill_sources::url::{Scheme, SourceUrl};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cli::SubmitArgs;
use crate::daemon::{self, client_error};
use crate::environment::Environment;
use crate::error::{CliError, reason};
use crate::hex;
use crate::interrupt::Interrupt;
use crate::manifest::{self, FileUrls, PlannedJob};
use crate::output;
use crate::progress::seconds;
use crate::runtime;

/// Inputs up to this size travel with the submission.
const INLINE_LIMIT: u64 = 1 << 20;
/// Characters of a job's name in its identity; the protocol takes 128 in all.
const NAME_LENGTH: usize = 100;
/// Jobs that are followed at a time; all are submitted at once.
const FOLLOWED: usize = 64;

/// Submits every job and waits for all.
pub fn submit(args: SubmitArgs, _environment: &Environment) -> Result<(), CliError> {
    let interrupt = Interrupt::catch()?;
    let config = daemon::config(&args.daemon)?;
    let (jobs, remarks) = manifest::plan(&args.files, FileUrls::Daemon)?;
    for remark in remarks {
        eprintln!("prover: {remark}");
    }
    let jobs = jobs.into_iter().map(with_input).collect::<Result<Vec<_>, _>>()?;
    runtime::block_on(async {
        let client = daemon::connect(config)?;
        let mut following = follow(&client, &jobs).await?;
        let (mut failed, mut worst) = (0, 0);
        loop {
            tokio::select! {
                joined = following.join_next() => match joined {
                    None => break,
                    Some(Err(error)) => return Err(CliError::Engine(format!("a job's task ended: {error}"))),
                    Some(Ok((name, outcome))) => {
                        if let Err(error) = show(&args, &client, &name, outcome).await {
                            failed += 1;
                            worst = error.code().max(worst);
                        }
                    }
                },
                () = interrupted(&interrupt) => {
                    eprintln!("prover: interrupted, cancelling (again to stop at once)");
                    following.abort_all();
                    cancel(&client, &jobs).await;
                    return Err(CliError::Interrupted);
                }
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(CliError::Jobs { failed, all: jobs.len(), code: worst }),
        }
    })
}

/// A job's proofs by partition, with the ids to acknowledge.
type JobOutcome = Result<Vec<(v1::PartitionId, PartitionProof)>, CliError>;

async fn follow(client: &Client, jobs: &[PlannedJob]) -> Result<JoinSet<(String, JobOutcome)>, CliError> {
    let requests: Vec<(String, Vec<v1::SubmitRequest>)> =
        jobs.iter().map(|job| (job.name.clone(), job.submissions.iter().map(message::request).collect())).collect();
    for request in requests.iter().flat_map(|(_, partitions)| partitions) {
        client
            .calls()
            .submit(request.clone())
            .await
            .map_err(|status| CliError::Engine(format!("the daemon refused a job: {}", status.message())))?;
    }
    let turns = Arc::new(Semaphore::new(FOLLOWED));
    let mut tasks = JoinSet::new();
    for (name, partitions) in requests {
        let (client, turns) = (client.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            let mut proofs = Vec::new();
            for request in &partitions {
                match prove(&client, request).await {
                    Ok(proof) => proofs.push(proof),
                    Err(error) => return (name, Err(error)),
                }
            }
            (name, Ok(proofs))
        });
    }
    Ok(tasks)
}

async fn prove(client: &Client, request: &v1::SubmitRequest) -> Result<(v1::PartitionId, PartitionProof), CliError> {
    match client.prove(request, |_| {}).await.map_err(client_error)? {
        Ok(proof) => Ok((request.id.clone().unwrap_or_default(), message::proof(&proof).map_err(client_error)?)),
        Err(failure) => {
            let failure: Failure = message::failure(&failure);
            let text = format!("{}: {}", reason(failure.kind), failure.message);
            Err(Failure { message: text, ..failure }.into())
        }
    }
}

/// Keeps a job's proofs and says so.
async fn show(args: &SubmitArgs, client: &Client, name: &str, outcome: JobOutcome) -> Result<(), CliError> {
    let kept = match outcome {
        Ok(proofs) => keep(args, client, name, proofs).await,
        Err(error) => Err(error),
    };
    match &kept {
        Ok(kept) if args.json => println!(
            "{}",
            json!({
                "event": "result", "job": name, "succeeded": true, "proof": kept.path,
                "insecureKey": kept.insecure, "milliseconds": kept.total.as_millis() as u64,
            })
        ),
        Ok(kept) => {
            println!("{name}: proved and verified in {}: {}", seconds(kept.total), kept.path.display());
            if kept.insecure {
                println!("{name}: WARNING: its circuit's key is insecure: anyone can forge its proofs");
            }
        }
        Err(error) if args.json => {
            println!("{}", json!({"event": "result", "job": name, "succeeded": false, "message": error.to_string()}));
        }
        Err(error) => println!("{name}: {error}"),
    }
    kept.map(drop)
}

struct Kept {
    path: PathBuf,
    total: Duration,
    insecure: bool,
}

/// Writes a job's proofs, then lets the daemon forget them.
async fn keep(
    args: &SubmitArgs,
    client: &Client,
    name: &str,
    proofs: Vec<(v1::PartitionId, PartitionProof)>,
) -> Result<Kept, CliError> {
    let (ids, proofs): (Vec<_>, Vec<_>) = proofs.into_iter().unzip();
    let path = output::write_proofs(&args.out.join(name), &proofs.iter().collect::<Vec<_>>())?;
    for id in &ids {
        client.acknowledge(id).await.map_err(client_error)?;
    }
    Ok(Kept {
        path,
        total: proofs.iter().map(|proof| proof.timings.total).max().unwrap_or_default(),
        insecure: proofs.iter().any(|proof| proof.insecure_key),
    })
}

/// Reads inputs that are files here; others are left to the daemon. A changed request gets an identity of its own.
fn with_input(mut job: PlannedJob) -> Result<PlannedJob, CliError> {
    for submission in &mut job.submissions {
        if let Input::Fetch(source) = &submission.input
            && let Some(path) = local_file(&source.url, &job.folder)
        {
            let fetcher = Fetcher::new(Policy::run("/")).map_err(|e| CliError::Engine(e.to_string()))?;
            let url =
                proofmill_sources::resolve(&source.url, &job.folder).map_err(|e| CliError::Usage(e.to_string()))?;
            let bytes = fetcher.fetch_bytes(&url, source.sha256, INLINE_LIMIT, &|| false, &|_, _| {}).map_err(|e| {
                CliError::Input(format!(
                    "{}: {e}; larger inputs go beneath the daemon's --file-root, or on a server: then name them by \
                         that URL ({})",
                    job.name,
                    path.display()
                ))
            })?;
            submission.input = Input::Inline(bytes.into());
        }
        submission.digest = message::digest(submission);
        let name: String = job.name.replace('/', ":").chars().take(NAME_LENGTH).collect();
        submission.id.job = format!("{name}:{}", &hex::encode(&submission.digest)[..16]);
    }
    Ok(job)
}

fn local_file(url: &str, folder: &Path) -> Option<PathBuf> {
    let url = SourceUrl::parse(url).ok().filter(|url| url.scheme() == Scheme::File)?;
    let path = folder.join(url.file_path().ok()?);
    path.is_file().then_some(path)
}

async fn cancel(client: &Client, jobs: &[PlannedJob]) {
    for submission in jobs.iter().flat_map(|job| &job.submissions) {
        let request = v1::CancelRequest { id: message::request(submission).id };
        // Best effort: what is not reached goes on and its result waits.
        drop(client.calls().cancel(request).await);
    }
}

async fn interrupted(interrupt: &Interrupt) {
    while !interrupt.requested() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
