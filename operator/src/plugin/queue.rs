//! The order in which a pool's jobs go.

use std::cmp::Reverse;

use kube::ResourceExt as _;
use proofmill_crds::ProofJob;
use proofmill_crds::conditions::{Condition, ConditionStatus, types};

/// The outcome of a job, if it has one or a reason for having none.
pub fn outcome(job: &ProofJob) -> Option<&Condition> {
    job.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == types::SUCCEEDED)
}

/// Whether a job has not ended.
pub fn is_active(job: &ProofJob) -> bool {
    outcome(job).is_none_or(|condition| condition.status == ConditionStatus::Unknown)
}

/// The active jobs of a pool in the order in which they go.
pub fn of<'a>(jobs: &'a [ProofJob], pool: &str) -> Vec<&'a ProofJob> {
    let mine = jobs.iter().filter(|job| job.spec.pool_ref.name == pool && is_active(job) && !job.spec.suspend);
    let mut queue: Vec<&ProofJob> = mine.collect();
    queue.sort_by_key(|job| (Reverse(job.spec.priority), job.creation_timestamp().map(|time| time.0), job.name_any()));
    queue
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(name: &str, priority: &str, created: &str, pool: &str, status: Option<&str>) -> ProofJob {
        let conditions = status.map_or(json!([]), |status| {
            let time = "2026-01-01T00:00:00Z";
            json!([{"type": "Succeeded", "status": status, "lastTransitionTime": time, "reason": "R", "message": "m"}])
        });
        serde_json::from_value(json!({
            "apiVersion": "proofmill.dev/v1alpha1", "kind": "ProofJob",
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {"circuitRef": {"name": "c"}, "input": {"inline": ""}, "priority": priority, "poolRef": {"name": pool}},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn by_priority_then_age_then_name() {
        let early = "2026-01-01T00:00:00Z";
        let late = "2026-01-01T00:00:01Z";
        let jobs = [
            job("late", "Normal", late, "p", None),
            job("b", "Normal", early, "p", Some("Unknown")),
            job("a", "Normal", early, "p", None),
            job("urgent", "Critical", late, "p", None),
            job("done", "Critical", early, "p", Some("True")),
            job("failed", "Critical", early, "p", Some("False")),
            job("elsewhere", "Critical", early, "q", None),
        ];
        let names: Vec<String> = of(&jobs, "p").iter().map(|job| job.name_any()).collect();
        assert_eq!(names, ["urgent", "a", "b", "late"]);
    }
}
