//! Why a job has no proof yet.

use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use proofmill_crds::conditions::{Condition, types};
use proofmill_crds::{Circuit, ProofJob, ProverPool};

use super::PluginError;
use super::queue::{self, is_active, outcome};

/// Prints what is known.
pub async fn run(client: &Client, namespace: &str, name: &str) -> Result<(), PluginError> {
    let jobs = Api::<ProofJob>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?.items;
    let Some(job) = jobs.iter().find(|job| job.name_any() == name) else {
        return Err(PluginError::Missing(format!("there is no proofjob {name} in namespace {namespace}")));
    };
    let circuit = Api::<Circuit>::namespaced(client.clone(), namespace).get_opt(&job.spec.circuit_ref.name).await?;
    let pool = Api::<ProverPool>::namespaced(client.clone(), namespace).get_opt(&job.spec.pool_ref.name).await?;
    for line in explain(job, &jobs, circuit.as_ref(), pool.as_ref()) {
        println!("{line}");
    }
    Ok(())
}

/// The story of a job, in lines.
fn explain(job: &ProofJob, jobs: &[ProofJob], circuit: Option<&Circuit>, pool: Option<&ProverPool>) -> Vec<String> {
    let name = job.name_any();
    let mut lines = vec![match outcome(job) {
        Some(condition) if is_active(job) => format!("{name} waits: {}: {}", condition.reason, condition.message),
        Some(condition) => format!("{name} has ended: {}: {}", condition.reason, condition.message),
        None => format!("{name} has no status yet: it is younger than a second, or no operator watches this namespace"),
    }];
    if !is_active(job) {
        return lines;
    }
    let circuit_name = &job.spec.circuit_ref.name;
    lines.push(match circuit {
        None => format!("circuit {circuit_name}: there is none of this name: create it"),
        Some(circuit) => {
            let conditions = circuit.status.as_ref().map_or(&[][..], |status| &status.conditions);
            format!("circuit {circuit_name}: {}", told(conditions))
        }
    });
    let pool_name = &job.spec.pool_ref.name;
    let Some(pool) = pool else {
        lines.push(format!("pool {pool_name}: there is none of this name: create it"));
        return lines;
    };
    let status = pool.status.clone().unwrap_or_default();
    lines.push(format!("pool {pool_name}: {}", told(&status.conditions)));
    let waiting = job.status.iter().flat_map(|status| &status.partitions);
    let waiting = waiting.filter(|partition| partition.pod.is_none() && partition.proof.is_none()).count();
    let sent = job.status.as_ref().is_some_and(|status| !status.partitions.is_empty() && waiting == 0);
    if sent {
        let pods =
            job.status.iter().flat_map(|status| &status.partitions).filter_map(|partition| partition.pod.clone());
        let mut pods: Vec<String> = pods.collect();
        pods.sort();
        pods.dedup();
        lines.push(format!("all its partitions are with pods: {}", pods.join(", ")));
        return lines;
    }
    let queue = queue::of(jobs, pool_name);
    if let Some(place) = queue.iter().position(|other| other.name_any() == name) {
        lines.push(format!("place {} of {} in the queue of pool {pool_name}", place + 1, queue.len()));
        let pods = status.ready_replicas.unwrap_or_default();
        match (status.queue_milliseconds, pods) {
            (_, 0) => lines.push("no start can be estimated: the pool has no pod that takes work".to_owned()),
            (Some(milliseconds), pods) if milliseconds > 0 => {
                let share = milliseconds.saturating_mul(i64::try_from(place).unwrap_or(0))
                    / i64::try_from(queue.len().max(1)).unwrap_or(1);
                let seconds = share / 1000 / i64::from(pods);
                lines.push(format!("it may start in about {seconds} s, if {pods} pods go on as they do now"));
            }
            _ => {
                lines.push("no start can be estimated: nothing was proved yet that tells how long it takes".to_owned())
            }
        }
    }
    lines
}

fn told(conditions: &[Condition]) -> String {
    let ready = conditions.iter().find(|condition| condition.type_ == types::READY);
    ready.map_or_else(|| "nothing is known yet".to_owned(), |c| format!("{}: {}", c.reason, c.message))
}
