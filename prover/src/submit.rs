//! `prover submit`: a manifest's jobs to a daemon, their proofs back.
//!
//! Everything is submitted before anything is waited for, so that the daemon can order it. A job that is refused or fails
//! does not stop the others: each is followed to its end and reported.

mod input;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proofmill_engine::job::PartitionProof;
use proofmill_proto::v1;
use proofmill_server::client::{Client, ClientError, message};
use proofmill_server::report::partition_id;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::cli::SubmitArgs;
use crate::daemon::{self, client_error};
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::manifest::{self, FileUrls, PlannedJob};
use crate::results::{JobFailure, Results};
use crate::runtime;

/// Jobs that are followed at a time: of the 64 streams that a daemon allows on a connection some are left for submissions
/// and acknowledgements.
const FOLLOWED: usize = 48;
/// How often Ctrl-C is looked for.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);
/// How long the daemon may take to answer cancellations.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// Submits every job and waits for all.
pub fn submit(args: SubmitArgs) -> Result<(), CliError> {
    let config = daemon::config(&args.daemon)?;
    let (planned, remarks) = manifest::plan(&args.files, FileUrls::Daemon)?;
    // From here on Ctrl-C is ours; before, it ends the process even while a manifest is read from a terminal.
    let interrupt = Interrupt::catch()?;
    for remark in remarks {
        eprintln!("prover: {remark}");
    }
    let mut results = Results::new(&args.out, args.json, planned.len());
    let mut jobs = Vec::new();
    for job in planned {
        let name = job.name.clone();
        match input::attach(job, &interrupt)? {
            Ok(job) => jobs.push(job),
            Err(failure) => results.failed(&name, &failure, say),
        }
    }
    if jobs.is_empty() {
        return results.outcome();
    }
    runtime::block_on(async {
        let client = daemon::connect(config)?;
        let mut submitting = Submitting {
            client: &client,
            jobs: &jobs,
            results,
            open: BTreeSet::new(),
            following: JoinSet::new(),
            turns: Arc::new(Semaphore::new(FOLLOWED)),
        };
        tokio::select! {
            ended = submitting.until_the_end() => return ended,
            () = interrupted(&interrupt) => {}
        }
        eprintln!("prover: interrupted, cancelling (again to stop at once)");
        submitting.cancel_open().await;
        Err(CliError::Interrupted)
    })
}

/// The jobs of one call on their way. Jobs are known by their index.
struct Submitting<'a> {
    client: &'a Client,
    jobs: &'a [PlannedJob],
    results: Results<'a>,
    /// Jobs of which the daemon may have something that has not ended.
    open: BTreeSet<usize>,
    following: JoinSet<(usize, Followed)>,
    turns: Arc<Semaphore>,
}

/// A job's proofs by partition.
type Followed = Result<Vec<PartitionProof>, JobFailure>;

impl Submitting<'_> {
    async fn until_the_end(&mut self) -> Result<(), CliError> {
        // A daemon that is not there is told at once; one that goes away later may come back, and is waited for.
        self.client.status(false).await.map_err(client_error)?;
        let mut unreachable = None;
        for index in 0..self.jobs.len() {
            match &unreachable {
                None => unreachable = self.submit(index).await?,
                Some(failure) => self.results.failed(&self.jobs[index].name, failure, say),
            }
        }
        while let Some(joined) = self.following.join_next().await {
            self.end(joined).await?;
        }
        self.results.outcome()
    }

    /// Submits all partitions of a job. Returns the failure if the daemon is gone, so that the others need not wait for it.
    async fn submit(&mut self, index: usize) -> Result<Option<JobFailure>, CliError> {
        let requests: Vec<v1::SubmitRequest> = self.jobs[index].submissions.iter().map(message::request).collect();
        self.open.insert(index);
        for request in &requests {
            while let Err(error) = self.client.submit(request).await {
                // Room comes when work ends. If nothing of ours is left, others have it, for who knows how long.
                if error.is_full()
                    && let Some(joined) = self.following.join_next().await
                {
                    self.end(joined).await?;
                    continue;
                }
                let gone = matches!(error, ClientError::Unreachable { .. });
                let failure = JobFailure::from(error);
                self.fail(index, &failure).await;
                return Ok(gone.then_some(failure));
            }
        }
        let (client, turns) = (self.client.clone(), Arc::clone(&self.turns));
        self.following.spawn(async move {
            let _turn = turns.acquire().await;
            (index, follow(&client, &requests).await)
        });
        Ok(None)
    }

    async fn end(&mut self, joined: Result<(usize, Followed), JoinError>) -> Result<(), CliError> {
        let (index, followed) = joined.map_err(|e| CliError::Engine(format!("a job's task ended: {e}")))?;
        match followed {
            Ok(proofs) => {
                self.open.remove(&index);
                let job = &self.jobs[index];
                if self.results.proved(job, &proofs.iter().collect::<Vec<_>>(), say) {
                    acknowledge(self.client, job).await;
                }
            }
            Err(failure) => self.fail(index, &failure).await,
        }
        Ok(())
    }

    async fn fail(&mut self, index: usize, failure: &JobFailure) {
        self.open.remove(&index);
        let job = &self.jobs[index];
        self.results.failed(&job.name, failure, say);
        // Its other partitions are of no use any more.
        if job.submissions.len() > 1 {
            cancel(self.client, [job]).await;
        }
    }

    async fn cancel_open(&mut self) {
        self.following.abort_all();
        cancel(self.client, self.open.iter().map(|index| &self.jobs[*index])).await;
    }
}

/// The proofs of all partitions, in their order.
async fn follow(client: &Client, requests: &[v1::SubmitRequest]) -> Followed {
    let mut proofs = Vec::with_capacity(requests.len());
    for request in requests {
        match client.prove(request, |_| {}).await? {
            Ok(proof) => proofs.push(message::proof(&proof)?),
            Err(failure) => return Err(JobFailure::from(&message::failure(&failure))),
        }
    }
    Ok(proofs)
}

/// Lets the daemon forget what is kept here.
async fn acknowledge(client: &Client, job: &PlannedJob) {
    for submission in &job.submissions {
        if let Err(error) = client.acknowledge(&partition_id(&submission.id)).await {
            // The proof is safe; the daemon drops its copy by itself some time.
            eprintln!("prover: {}: the daemon still keeps its result: {error}", job.name);
            return;
        }
    }
}

/// Asks the daemon to stop these jobs, all at once.
async fn cancel(client: &Client, jobs: impl IntoIterator<Item = &PlannedJob>) {
    let mut calls = JoinSet::new();
    for submission in jobs.into_iter().flat_map(|job| &job.submissions) {
        let request = v1::CancelRequest { id: Some(partition_id(&submission.id)) };
        let mut prover = client.calls();
        calls.spawn(async move { prover.cancel(request).await.is_ok() });
    }
    let all_answered = async {
        let mut all = true;
        while let Some(answered) = calls.join_next().await {
            all &= matches!(answered, Ok(true));
        }
        all
    };
    if !matches!(timeout(CANCEL_GRACE, all_answered).await, Ok(true)) {
        eprintln!("prover: the daemon did not answer every cancellation: it may go on proving what it has");
    }
}

async fn interrupted(interrupt: &Interrupt) {
    while !interrupt.requested() {
        sleep(INTERRUPT_POLL).await;
    }
}

fn say(line: &str) {
    println!("{line}");
}
