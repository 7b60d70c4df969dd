//! What the pool says about itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proofmill_crds::conditions::{Condition, ConditionStatus, reasons, types};
use proofmill_crds::prover_pool::ProverPoolStatus;

use super::plan::{Verdict, number};
use super::scale::Decision;
use super::standing::{Stage, Standing};
use super::{DrainCause, KeyLoad, PoolInput, StatusWrite};
use crate::conditions;
use crate::index::POOL_LABEL;

/// What hides the others comes first.
const TROUBLES: [&str; 5] =
    [reasons::IMAGE_PULL, reasons::CRASH_LOOP, reasons::PODS_FAILED, reasons::NO_CAPACITY, reasons::WAITING_FOR_NODE];

/// What the status is made from.
pub(super) struct Facts<'a> {
    pub input: &'a PoolInput<'a>,
    pub pods: &'a [Standing<'a>],
    pub verdict: &'a Verdict,
    pub decision: &'a Decision,
}

/// The status, if it is not what the API server has.
pub(super) fn write(facts: &Facts<'_>) -> Option<StatusWrite> {
    let old = &facts.input.pool.status;
    let mut new = status(facts);
    keep_near_figures(&mut new, old);
    if new == *old {
        return None;
    }
    let urgent = without_figures(&new) != without_figures(old);
    Some(StatusWrite { status: new, urgent })
}

/// Failed pods by reason.
pub(super) fn failures(pods: &[Standing<'_>]) -> BTreeMap<String, u32> {
    let mut failures = BTreeMap::new();
    for pod in pods {
        if let Stage::Failed { reason, .. } = &pod.stage {
            *failures.entry(reason.clone()).or_default() += 1;
        }
    }
    failures
}

fn status(facts: &Facts<'_>) -> ProverPoolStatus {
    let pool = facts.input.pool;
    let count =
        |which: &dyn Fn(&Standing<'_>) -> bool| Some(number(facts.pods.iter().filter(|pod| which(pod)).count()));
    let demand = facts.input.demand;
    let figure = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    ProverPoolStatus {
        observed_generation: Some(pool.meta.generation),
        conditions: all_conditions(facts),
        desired_replicas: Some(facts.decision.desired),
        replicas: count(&|pod| pod.stage == Stage::Live),
        ready_replicas: count(&|pod| pod.works()),
        updated_replicas: count(&|pod| pod.stays() && pod.current),
        busy_replicas: count(&|pod| pod.stage == Stage::Live && pod.assigned() > 0),
        // Unknown figures stay as they were.
        busy_permille: demand.and_then(|demand| demand.busy_permille).map(i32::from).or(pool.status.busy_permille),
        waiting_partitions: demand.map(|d| figure(d.waiting.into())).or(pool.status.waiting_partitions),
        queue_milliseconds: demand
            .map(|demand| i64::try_from(demand.queue_milliseconds).unwrap_or(i64::MAX))
            .or(pool.status.queue_milliseconds),
        selector: Some(format!("{POOL_LABEL}={}", pool.meta.key.name)),
        template_hash: facts
            .verdict
            .template()
            .map(|template| template.hash().to_owned())
            .or_else(|| pool.status.template_hash.clone()),
    }
}

fn all_conditions(facts: &Facts<'_>) -> Vec<Condition> {
    let old = &facts.input.pool.status.conditions;
    let mut conditions = vec![ready(facts)];
    match facts.verdict {
        Verdict::Valid(_) => {
            let message = "the API server takes the template's pods".to_owned();
            conditions.push(make(
                facts,
                types::TEMPLATE_VALID,
                ConditionStatus::True,
                reasons::TEMPLATE_ACCEPTED,
                message,
            ));
        }
        Verdict::Invalid(problem) => {
            let reason = reasons::TEMPLATE_INVALID;
            conditions.push(make(facts, types::TEMPLATE_VALID, ConditionStatus::False, reason, problem.clone()));
        }
        // The last answer holds until there is another.
        Verdict::Unchecked(_) => {
            conditions.extend(old.iter().find(|known| known.type_ == types::TEMPLATE_VALID).cloned());
        }
    }
    if !facts.input.pool.spec.circuits.is_empty() {
        let (status, reason, message) = circuits_loaded(facts);
        conditions.push(make(facts, types::CIRCUITS_LOADED, status, reason, message));
    }
    if facts.input.pool.spec.autoscaling.is_some() {
        let (status, reason, message) = match &facts.decision.limited {
            Some((reason, message)) => (ConditionStatus::True, *reason, message.clone()),
            None => {
                let message = "there are as many pods as the work asks for".to_owned();
                (ConditionStatus::False, reasons::NOT_LIMITED, message)
            }
        };
        conditions.push(make(facts, types::SCALING_LIMITED, status, reason, message));
    }
    conditions
}

fn ready(facts: &Facts<'_>) -> Condition {
    let desired = facts.decision.desired;
    let working = number(facts.pods.iter().filter(|pod| pod.works()).count());
    let status = if working >= desired { ConditionStatus::True } else { ConditionStatus::False };
    let (reason, detail) = reason(facts, working);
    let mut message = format!("{working} of {desired} pods take work");
    if !detail.is_empty() {
        message += "; ";
        message += &detail;
    }
    make(facts, types::READY, status, reason, message)
}

/// What explains the number of working pods, and its details.
fn reason(facts: &Facts<'_>, working: i32) -> (&'static str, String) {
    let desired = facts.decision.desired;
    let live = || facts.pods.iter().filter(|pod| pod.stage == Stage::Live);
    let drained = |cause: DrainCause| {
        facts.pods.iter().filter(move |pod| {
            matches!(pod.stage, Stage::Live | Stage::Leaving { .. })
                && pod.drain.is_some_and(|drain| drain.cause == cause)
        })
    };
    let outdated = live().filter(|pod| pod.stays() && !pod.current).count();
    let replaced = drained(DrainCause::Replace).count();
    let replacing = || {
        (
            reasons::REPLACING,
            format!(
                "{} pods are of an earlier template, or have less memory than their circuits need",
                outdated + replaced
            ),
        )
    };
    let no_template = matches!(facts.verdict, Verdict::Invalid(_));
    if working >= desired {
        // Nothing is replaced while there is nothing to replace with.
        if outdated + replaced > 0 && !no_template {
            return replacing();
        }
        let going = drained(DrainCause::ScaleDown).count();
        if going > 0 {
            return (reasons::SCALING_DOWN, format!("{going} pods finish their work and go"));
        }
        let reason = if desired == 0 { reasons::SCALED_TO_ZERO } else { reasons::PODS_READY };
        return (reason, String::new());
    }
    if let Verdict::Invalid(problem) = facts.verdict {
        return (reasons::TEMPLATE_INVALID, problem.clone());
    }
    if let Some(refusal) = facts.input.refusal {
        return (reasons::PODS_REFUSED, format!("the API server refuses pods: {}", refusal.message));
    }
    let failed = failures(facts.pods);
    for reason in TROUBLES {
        let troubled: Vec<_> =
            live().filter_map(|pod| pod.trouble.as_ref().filter(|t| t.reason == reason).map(|t| (pod, t))).collect();
        if let Some((pod, trouble)) = troubled.first() {
            return (reason, format!("{} pods, such as {}: {}", troubled.len(), pod.name(), trouble.message));
        }
        if reason == reasons::PODS_FAILED && !failed.is_empty() {
            let counted: Vec<_> = failed.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            return (reason, format!("pods failed: {}", counted.join(", ")));
        }
    }
    if outdated + replaced > 0 {
        return replacing();
    }
    let silent: Vec<_> = live().filter(|pod| pod.silent).collect();
    let detail = silent.first().map_or_else(String::new, |first| {
        let (count, name, why) = (silent.len(), first.name(), &first.input.engine.silence);
        format!(
            "{count} are ready but do not answer the operator, such as {name} ({why}): a NetworkPolicy or a certificate may be \
             in the way"
        )
    });
    (reasons::WARMING_UP, detail)
}

/// Whether the pods that take work have the circuits that the pool keeps in memory.
fn circuits_loaded(facts: &Facts<'_>) -> (ConditionStatus, &'static str, String) {
    let circuits = &facts.input.pool.spec.circuits;
    let working: Vec<_> = facts.pods.iter().filter(|pod| pod.works()).collect();
    if working.is_empty() {
        return (ConditionStatus::Unknown, reasons::WARMING_UP, "no pod takes work".to_owned());
    }
    let mut missing = Vec::new();
    for circuit in circuits {
        let loads = || working.iter().filter_map(|pod| Some((pod, pod.input.engine.key_loads.get(circuit)?)));
        let failures: Vec<_> = loads()
            .filter_map(|(pod, load)| match load {
                KeyLoad::Failed(reason, words) => Some((pod.name(), *reason, words)),
                KeyLoad::Done => None,
            })
            .collect();
        if let Some((pod, reason, words)) = failures.first() {
            let message = format!(
                "{circuit}: {} of {} pods cannot load it, such as {pod}: {words}",
                failures.len(),
                working.len()
            );
            return (ConditionStatus::False, reason, message);
        }
        if !facts.input.known.contains(circuit.as_str()) {
            let message = format!("there is no Circuit {circuit} in the pool's namespace");
            return (ConditionStatus::False, reasons::WAITING_FOR_CIRCUIT, message);
        }
        let done = loads().count();
        if done < working.len() {
            missing.push(format!("{circuit} by {done} of {}", working.len()));
        }
    }
    if missing.is_empty() {
        return (ConditionStatus::True, reasons::KEYS_LOADED, "every pod that takes work has loaded them".to_owned());
    }
    (ConditionStatus::False, reasons::LOADING_KEY, format!("loaded: {}", missing.join(", ")))
}

fn make(facts: &Facts<'_>, type_: &str, status: ConditionStatus, reason: &str, message: String) -> Condition {
    let pool = facts.input.pool;
    let known = pool.status.conditions.iter().find(|known| known.type_ == type_);
    let now = Time(Timestamp::from_second(facts.input.now).unwrap_or_default());
    conditions::next(known, type_, status, pool.meta.generation, now, reason, &message)
}

/// Figures that have changed by at most 5 % stay as they were: nobody could act on the difference, and everyone would be
/// sent it.
fn keep_near_figures(new: &mut ProverPoolStatus, old: &ProverPoolStatus) {
    fn near(new: i64, old: i64) -> bool {
        new.abs_diff(old) * 20 <= old.unsigned_abs()
    }
    fn keep<T: Copy + Into<i64>>(new: &mut Option<T>, old: Option<T>) {
        if let (Some(value), Some(known)) = (*new, old)
            && near(value.into(), known.into())
        {
            *new = old;
        }
    }
    keep(&mut new.busy_permille, old.busy_permille);
    keep(&mut new.waiting_partitions, old.waiting_partitions);
    keep(&mut new.queue_milliseconds, old.queue_milliseconds);
}

/// A status without what changes all the time: its figures, which pods are busy, and the sentences that count pods.
fn without_figures(status: &ProverPoolStatus) -> ProverPoolStatus {
    let without_message = |condition: &Condition| Condition { message: String::new(), ..condition.clone() };
    ProverPoolStatus {
        conditions: status.conditions.iter().map(without_message).collect(),
        busy_permille: None,
        waiting_partitions: None,
        queue_milliseconds: None,
        busy_replicas: None,
        ..status.clone()
    }
}
