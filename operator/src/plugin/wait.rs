//! Waiting for the ends of jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use proofmill_crds::ProofJob;
use proofmill_crds::conditions::{ConditionStatus, reasons};

use super::queue::{is_active, outcome};
use super::{PluginError, TROUBLE};

/// Waits; the exit code.
pub async fn run(
    jobs: &Api<ProofJob>,
    names: Vec<String>,
    selector: Option<String>,
    timeout: Option<Duration>,
) -> Result<u8, PluginError> {
    let mut waiting: BTreeMap<String, ()> = names.iter().map(|name| (name.clone(), ())).collect();
    let listed = match &selector {
        Some(labels) => jobs.list(&ListParams::default().labels(labels)).await?,
        None => jobs.list(&ListParams::default()).await?,
    };
    if waiting.is_empty() {
        waiting.extend(listed.items.iter().map(|job| (job.name_any(), ())));
    }
    for name in &names {
        if !listed.items.iter().any(|job| job.name_any() == *name) {
            return Err(PluginError::Missing(format!("there is no proofjob {name} in this namespace")));
        }
    }
    let mut code = 0;
    let follow = async {
        for job in &listed.items {
            code = code.max(end(job, &mut waiting));
        }
        let mut events = watcher(jobs.clone(), watcher::Config::default()).default_backoff().boxed();
        // Between the list and the watch nothing is lost: a watch begins with all there is.
        let mut there: Option<Vec<String>> = None;
        while !waiting.is_empty() {
            match events.try_next().await {
                Ok(Some(watcher::Event::Init)) => there = Some(Vec::new()),
                Ok(Some(watcher::Event::InitApply(job))) => {
                    there.iter_mut().for_each(|names| names.push(job.name_any()));
                    code = code.max(end(&job, &mut waiting));
                }
                Ok(Some(watcher::Event::InitDone)) => {
                    let names = there.take().unwrap_or_default();
                    let gone: Vec<String> = waiting.keys().filter(|name| !names.contains(name)).cloned().collect();
                    gone.iter().for_each(|name| code = code.max(deleted(name, &mut waiting)));
                }
                Ok(Some(watcher::Event::Apply(job))) => code = code.max(end(&job, &mut waiting)),
                Ok(Some(watcher::Event::Delete(job))) => code = code.max(deleted(&job.name_any(), &mut waiting)),
                Ok(None) => return,
                Err(error) => eprintln!("the watch broke and begins again: {error}"),
            }
        }
    };
    match timeout {
        None => follow.await,
        Some(limit) => {
            if tokio::time::timeout(limit, follow).await.is_err() {
                for name in waiting.keys() {
                    eprintln!("{name}: has not ended within the time limit");
                }
                return Ok(TROUBLE);
            }
        }
    }
    Ok(code)
}

/// Tells how a job has ended, once; the exit code that it asks for.
fn end(job: &ProofJob, waiting: &mut BTreeMap<String, ()>) -> u8 {
    if is_active(job) || waiting.remove(&job.name_any()).is_none() {
        return 0;
    }
    let Some(outcome) = outcome(job) else { return 0 };
    println!("{}: {}: {}", job.name_any(), outcome.reason, outcome.message);
    if outcome.status == ConditionStatus::True { 0 } else { code(&outcome.reason) }
}

fn deleted(name: &str, waiting: &mut BTreeMap<String, ()>) -> u8 {
    if waiting.remove(name).is_none() {
        return 0;
    }
    println!("{name}: deleted before it ended");
    TROUBLE
}

/// The exit code of a reason, as `prover run` has it.
fn code(reason: &str) -> u8 {
    match reason {
        reasons::BAD_INPUT | reasons::BAD_KEY | reasons::INSECURE_KEY | reasons::UNAVAILABLE => 3,
        reasons::UNSATISFIED_WITNESS => 4,
        reasons::CANCELLED => 130,
        _ => TROUBLE,
    }
}
