//! `prover run`: manifests in, verified proofs out, on this machine.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use proofmill_engine::engine::{Engine, PartitionEvent, SubmitError, Submitted, Watch};
use proofmill_engine::job::{Failure, PartitionProof, Submission};
use proofmill_engine::report;
use proofmill_sources::policy::FileAccess;
use serde_json::json;

use crate::cli::RunArgs;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::manifest::{self, FileUrls, PlannedJob};
use crate::output;
use crate::progress::{Form, Progress};
use crate::results::{JobFailure, Results};
use crate::wiring::{self, Wiring};

/// How often Ctrl-C is looked for while nothing happens.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// How long cancelled work may take to let go.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

/// Proves every job of the manifests.
pub fn run(args: RunArgs, environment: &Environment) -> Result<(), CliError> {
    let interrupt = Interrupt::catch()?;
    let (jobs, remarks) = manifest::plan(&args.files, FileUrls::Manifest)?;
    for remark in remarks {
        eprintln!("prover: {remark}");
    }
    let (engine, _) = wiring::start(&Wiring {
        engine: &args.engine,
        sources: &args.sources,
        environment,
        files: FileAccess::Manifest { base: "/".into() },
        allow_urls: None,
        refuse_insecure_keys: false,
        circuit_log: args.circuit_log,
        // A bad device shows at once: every proof is verified.
        canary: false,
    })?;
    let failure = Run::new(&args, jobs, &engine, &interrupt).until_the_end()?;
    let snapshot = engine.snapshot();
    if args.json {
        println!("{}", json!({"event": "report", "report": report::summary(&snapshot)}));
    } else {
        print!("\n{}", report::table(&snapshot));
    }
    if let Some(path) = &args.trace {
        output::write_atomically(path, engine.trace().as_bytes())?;
        eprintln!("trace: {} (open it in ui.perfetto.dev)", path.display());
    }
    engine.drain(CANCEL_GRACE);
    failure.map_or(Ok(()), Err)
}

/// The jobs of one run on their way.
struct Run<'a> {
    jobs: Vec<RunningJob>,
    by_name: HashMap<String, usize>,
    engine: &'a Engine,
    interrupt: &'a Interrupt,
    progress: Progress,
    results: Results<'a>,
    begun: Instant,
    /// Jobs that have not ended.
    open: usize,
}

struct RunningJob {
    planned: PlannedJob,
    proofs: BTreeMap<u32, Arc<PartitionProof>>,
    ended: bool,
}

impl<'a> Run<'a> {
    fn new(args: &'a RunArgs, jobs: Vec<PlannedJob>, engine: &'a Engine, interrupt: &'a Interrupt) -> Self {
        Self {
            by_name: jobs.iter().enumerate().map(|(index, job)| (job.name.clone(), index)).collect(),
            progress: Progress::new(Form::choose(args.json), jobs.len()),
            results: Results::new(&args.out, args.json, jobs.len()),
            begun: Instant::now(),
            open: jobs.len(),
            jobs: jobs
                .into_iter()
                .map(|planned| RunningJob { planned, proofs: BTreeMap::new(), ended: false })
                .collect(),
            engine,
            interrupt,
        }
    }

    /// Submits everything and shows what happens until the last job has ended; then how many failed, if any did.
    fn until_the_end(mut self) -> Result<Option<CliError>, CliError> {
        let events = forward(self.engine.watch(None));
        let mut waiting: Vec<Submission> =
            self.jobs.iter().flat_map(|job| job.planned.submissions.iter().cloned()).collect();
        // The last one is the next: those of one priority in their order, the urgent ones first.
        waiting.sort_by_key(|submission| submission.priority);
        waiting.reverse();
        let mut cancelled = false;
        while self.open > 0 {
            if self.interrupt.requested() && !cancelled {
                cancelled = true;
                eprintln!("prover: interrupted, cancelling (again to stop at once)");
                self.cancel_all(std::mem::take(&mut waiting));
                continue;
            }
            self.submit(&mut waiting)?;
            match events.recv_timeout(INTERRUPT_POLL) {
                Ok(event) => self.take(&event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(CliError::Engine("the engine stopped before its jobs had ended".into()));
                }
            }
        }
        self.progress.finish();
        Ok(if cancelled { Some(CliError::Interrupted) } else { self.results.outcome().err() })
    }

    /// Submits what the engine has room for: inputs that do not fit wait here until others have ended.
    fn submit(&self, waiting: &mut Vec<Submission>) -> Result<(), CliError> {
        while let Some(next) = waiting.last() {
            // Of a job that has failed already.
            let void = self.by_name.get(&next.id.job).is_none_or(|&index| self.jobs[index].ended);
            // The deadline counts from the begin, waiting included.
            let deadline = next.deadline.map(|left| left.saturating_sub(self.begun.elapsed()));
            let next = Submission { deadline, ..next.clone() };
            match if void { Ok(Submitted::Attached) } else { self.engine.submit(next) } {
                Ok(_) => drop(waiting.pop()),
                Err(SubmitError::InputMemory { need, limit, .. }) if need <= limit => break,
                Err(error) => return Err(CliError::Engine(error.to_string())),
            }
        }
        Ok(())
    }

    /// Cancels what runs, and ends the jobs of which something still waits: no event would come of that.
    fn cancel_all(&mut self, waiting: Vec<Submission>) {
        for index in 0..self.jobs.len() {
            self.cancel(index);
        }
        for submission in waiting {
            if let Some(&index) = self.by_name.get(&submission.id.job)
                && !self.jobs[index].ended
            {
                self.end(index);
            }
        }
    }

    fn take(&mut self, event: &PartitionEvent) {
        let Some(&index) = self.by_name.get(&event.id.job) else { return };
        let job = &mut self.jobs[index];
        if job.ended {
            return;
        }
        self.progress.show(&job.planned.name, &job.planned.circuit, event);
        match &event.outcome {
            None => {}
            Some(Ok(proof)) => {
                job.proofs.insert(event.id.partition, Arc::clone(proof));
                if job.proofs.len() == job.planned.submissions.len() {
                    self.succeed(index);
                }
            }
            Some(Err(failure)) => self.fail(index, failure),
        }
    }

    fn succeed(&mut self, index: usize) {
        self.end(index);
        let job = &self.jobs[index];
        let proofs: Vec<&PartitionProof> = job.proofs.values().map(Arc::as_ref).collect();
        self.results.proved(&job.planned, &proofs, |line| self.progress.line(line));
    }

    fn fail(&mut self, index: usize, failure: &Failure) {
        self.end(index);
        // Its other partitions are of no use any more.
        self.cancel(index);
        let name = &self.jobs[index].planned.name;
        self.results.failed(name, &JobFailure::from(failure), |line| self.progress.line(line));
    }

    fn end(&mut self, index: usize) {
        self.jobs[index].ended = true;
        self.open -= 1;
    }

    fn cancel(&self, index: usize) {
        for submission in &self.jobs[index].planned.submissions {
            self.engine.cancel(&submission.id);
        }
    }
}

/// The events on a channel that can be waited for with a time limit.
fn forward(mut watch: Watch) -> mpsc::Receiver<PartitionEvent> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        while let Some(event) = watch.blocking_recv() {
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    receiver
}
