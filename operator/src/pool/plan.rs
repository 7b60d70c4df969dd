//! What to do for one pool.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::pod::Template;
use super::scale::{Decision, Supply, decide};
use super::standing::{Draining, LOST_AFTER, NO_CAPACITY_AFTER, SILENT_AFTER, Stage, Standing, time_text};
use super::status::{self, Facts};
use super::{Action, DRAIN, DRAIN_SINCE, DeleteCause, DrainCause, PROTECTED_SINCE, PoolInput, PoolPlan, Refusal};
use proofmill_crds::conditions::reasons;
use proofmill_crds::prover_pool::DisruptionProtection;

/// Failed pods are kept so long, for people to look at.
const FAILED_KEPT_FOR: i64 = 600;
/// And at most so many.
const FAILED_KEPT: usize = 5;
/// Wait after one failed pod, doubled with each more of those kept.
const FAILED_WAIT: i64 = 10;
/// Wait after a refused creation, doubled with each more.
const REFUSED_WAIT: i64 = 5;
/// The longest of both.
const LONGEST_WAIT: i64 = 300;
/// Pods created by one plan; the next one follows at once.
const BURST: usize = 64;
/// A pod stays protected so long after its last partition, so that a pause between two jobs writes nothing.
const PROTECTED_AFTER: i64 = 30;

/// What keeps nodes' autoscalers from taking a pod's node.
const PROTECTION: [(&str, &str); 2] =
    [("karpenter.sh/do-not-disrupt", "true"), ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")];

/// Whether pods may be made from the template.
pub(super) enum Verdict {
    /// The API server takes them.
    Valid(Template),
    /// It has not been asked yet.
    Unchecked(Template),
    /// No; why.
    Invalid(String),
}

/// Plans; see the module.
pub fn plan(input: &PoolInput<'_>) -> PoolPlan {
    if input.pool.meta.deleting {
        // Its pods go with it, by their owner reference.
        return PoolPlan::default();
    }
    let verdict = Verdict::of(input);
    let mut planner = Planner::new(input, &verdict);
    planner.go_on_draining();
    planner.clear_failed();
    let decision = planner.decide();
    planner.drain_leaving_nodes();
    planner.scale_down(decision.desired);
    if let Verdict::Valid(template) = &verdict {
        planner.replace(decision.desired);
        planner.create(template, decision.desired);
    }
    planner.protect();
    planner.finish(&verdict, decision)
}

struct Planner<'a> {
    input: &'a PoolInput<'a>,
    pods: Vec<Standing<'a>>,
    actions: Vec<Action>,
    annotations: BTreeMap<&'a str, BTreeMap<&'static str, Option<String>>>,
    /// Last: a pod is marked as going before the one in its place is made.
    creations: Vec<Action>,
    wake: Wake,
}

/// The earliest time after now at which something is due.
struct Wake {
    now: i64,
    at: Option<i64>,
}

impl Verdict {
    fn of(input: &PoolInput<'_>) -> Self {
        let template = match Template::of(input.pool, &input.circuits, input.settings) {
            Ok(template) => template,
            Err(error) => return Self::Invalid(error.to_string()),
        };
        match input.checked.filter(|checked| checked.hash == template.hash()) {
            None => Self::Unchecked(template),
            Some(checked) => match &checked.refused {
                None => Self::Valid(template),
                Some(words) => Self::Invalid(words.clone()),
            },
        }
    }

    pub(super) fn template(&self) -> Option<&Template> {
        match self {
            Self::Valid(template) | Self::Unchecked(template) => Some(template),
            Self::Invalid(_) => None,
        }
    }
}

impl Wake {
    fn at(&mut self, time: i64) {
        if time > self.now {
            self.at = Some(self.at.map_or(time, |known| known.min(time)));
        }
    }
}

impl<'a> Planner<'a> {
    fn new(input: &'a PoolInput<'a>, verdict: &Verdict) -> Self {
        let owned = |pod: &&super::PodInput<'_>| {
            let mut owners = pod.pod.pod.metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.uid == input.pool.meta.uid)
        };
        let mut actions = Vec::new();
        if let Verdict::Unchecked(template) = verdict {
            let pod = template.pod(&format!("{}-check", input.pool.meta.key.name));
            actions.push(Action::Check { hash: template.hash().to_owned(), pod });
        }
        let mut wake = Wake { now: input.now, at: None };
        let pods: Vec<_> =
            input.pods.iter().filter(owned).map(|pod| Standing::of(pod, verdict.template(), input.now)).collect();
        for pod in &pods {
            if let Stage::Leaving { until } = pod.stage {
                wake.at(until);
            }
            if let Some(since) = pod.input.node.lost_since {
                wake.at(since + LOST_AFTER);
            }
            if let Some(since) = pod.input.engine.silent_since {
                wake.at(since + SILENT_AFTER);
            }
            if let Some(trouble) = pod.trouble.as_ref().filter(|trouble| trouble.reason == reasons::WAITING_FOR_NODE) {
                wake.at(trouble.since + NO_CAPACITY_AFTER);
            }
        }
        Self { input, pods, actions, annotations: BTreeMap::new(), creations: Vec::new(), wake }
    }

    /// Sees each drain through: written down, told to the engine, and the pod deleted when it is empty or out of time.
    fn go_on_draining(&mut self) {
        for index in 0..self.pods.len() {
            let pod = &self.pods[index];
            let Some(drain) = pod.drain.filter(|_| pod.stage == Stage::Live) else { continue };
            let Some(since) = drain.since else {
                self.begin_drain(index, drain.cause);
                continue;
            };
            let engine = &pod.input.engine;
            let end = since + self.grace(pod);
            let empty = engine.reachable && engine.draining && engine.assigned == 0;
            if empty || pod.is_unused() || self.input.now >= end {
                self.delete(index, DeleteCause::Drained(drain.cause));
                continue;
            }
            if engine.reachable && !engine.draining {
                let grace = end - self.input.now;
                self.actions.push(Action::Drain { pod: pod.input.pod.meta.key.clone(), grace });
            }
            self.wake.at(end);
        }
    }

    /// Deletes failed pods that have been seen for long enough, or are too many.
    fn clear_failed(&mut self) {
        let mut failed: Vec<(i64, usize, String)> = Vec::new();
        for (index, pod) in self.pods.iter().enumerate() {
            if let Stage::Failed { reason, at } = &pod.stage {
                failed.push((*at, index, reason.clone()));
            }
        }
        failed.sort_by_key(|(at, index, _)| (Reverse(*at), *index));
        for (place, (at, index, reason)) in failed.into_iter().enumerate() {
            if place >= FAILED_KEPT || self.input.now >= at + FAILED_KEPT_FOR {
                let pod = self.pods[index].target();
                self.actions.push(Action::Delete { pod, cause: DeleteCause::Failed(reason) });
            } else {
                self.wake.at(at + FAILED_KEPT_FOR);
            }
        }
    }

    fn decide(&mut self) -> Decision {
        let staying = || self.pods.iter().filter(|pod| pod.stays());
        let supply = Supply {
            pods: number(staying().count()),
            busy: number(staying().filter(|pod| pod.assigned() > 0).count()),
            devices: staying().map(|pod| pod.input.engine.devices).max().unwrap_or_default(),
        };
        let input = self.input;
        let decision = decide(input.pool, supply, input.demand, input.memory, input.now);
        if let Some(at) = decision.wake {
            self.wake.at(at);
        }
        decision
    }

    fn drain_leaving_nodes(&mut self) {
        for index in 0..self.pods.len() {
            if self.pods[index].stays() && self.pods[index].input.node.leaving {
                self.begin_drain(index, DrainCause::Node);
            }
        }
    }

    /// The pods that are too many go: first those that are no use yet, then the coldest.
    fn scale_down(&mut self, desired: i32) {
        let mut staying: Vec<usize> = self.indices(Standing::stays);
        let excess = staying.len().saturating_sub(usize::try_from(desired).unwrap_or_default());
        staying.sort_by_key(|index| {
            let pod = &self.pods[*index];
            (pod.scheduled, pod.works(), coldness(pod), pod.current, Reverse(ordinal(pod.name())))
        });
        for index in staying.into_iter().take(excess) {
            self.begin_drain(index, DrainCause::ScaleDown);
        }
    }

    /// Outdated pods, and those that were protected for too long, make room for new ones: those that are no use at once, the
    /// others one by one, each when the one before has been replaced by one that works.
    fn replace(&mut self, desired: i32) {
        for index in self.indices(|pod| pod.stays() && !pod.current && pod.is_unused()) {
            self.delete(index, DeleteCause::Drained(DrainCause::Replace));
        }
        let hold = i64::from(self.input.pool.spec.max_hold_seconds);
        let mut next: Option<(usize, DrainCause)> = None;
        let mut candidates = self.indices(|pod| pod.stays() && !pod.current);
        candidates.sort_by_key(|index| coldness(&self.pods[*index]));
        if let Some(index) = candidates.first() {
            next = Some((*index, DrainCause::Replace));
        }
        for (index, pod) in self.pods.iter().enumerate().filter(|(_, pod)| pod.stays()) {
            let Some(since) = pod.protected_since() else { continue };
            self.wake.at(since + hold);
            if next.is_none() && self.input.now >= since + hold {
                next = Some((index, DrainCause::Held));
            }
        }
        let Some((index, cause)) = next else { return };
        let all_work = self.pods.iter().filter(|pod| pod.stays() && pod.current).all(Standing::works);
        let none_on_its_way = self.pods.iter().filter(|pod| pod.holds_place()).all(Standing::stays);
        if all_work && none_on_its_way && self.places() >= desired {
            self.begin_drain(index, cause);
        }
    }

    fn create(&mut self, template: &Template, desired: i32) {
        let missing = usize::try_from(desired - self.places()).unwrap_or_default();
        if missing == 0 {
            return;
        }
        let ready_at = self.wait_until();
        if self.input.now < ready_at {
            self.wake.at(ready_at);
            return;
        }
        // One shows whether the API server has changed its mind.
        let most = if self.input.refusal.is_some() { 1 } else { BURST };
        if missing > BURST && most == BURST {
            self.wake.at(self.input.now + 1);
        }
        let pool = &self.input.pool.meta.key.name;
        let names = (0..).map(|ordinal: u32| format!("{pool}-{ordinal}"));
        // Pods of a pool of the same name that was deleted hold their names until they are gone.
        let free = names.filter(|name| self.input.pods.iter().all(|pod| pod.pod.meta.key.name != *name));
        self.creations = free.take(missing.min(most)).map(|name| Action::Create { pod: template.pod(&name) }).collect();
    }

    /// Until when no pod is created, because of those that were refused or have failed.
    fn wait_until(&self) -> i64 {
        let refused = self.input.refusal.map_or(i64::MIN, retry_at);
        let failures: Vec<i64> = self.pods.iter().filter_map(failed_at).collect();
        let failed = failures.iter().max().map_or(i64::MIN, |at| at + wait(FAILED_WAIT, failures.len()));
        refused.max(failed)
    }

    /// Marks pods whose work would be lost with their node, and takes the marks away again.
    fn protect(&mut self) {
        let always = self.input.pool.spec.disruption_protection == DisruptionProtection::Always;
        for index in self.indices(|pod| pod.stage == Stage::Live) {
            let pod = &self.pods[index];
            let name = pod.name();
            let given_up = pod.drain.is_some_and(|drain| matches!(drain.cause, DrainCause::Node | DrainCause::Held));
            let wanted = !given_up && (pod.assigned() > 0 || (always && pod.drain.is_none()));
            let marked = PROTECTION.iter().all(|(key, value)| pod.annotation(key) == Some(value));
            let since = pod.protected_since();
            // Marks without a time are a user's.
            if wanted && !marked {
                let marks = PROTECTION.map(|(key, value)| (key, Some(value.to_owned())));
                self.annotations.entry(name).or_default().extend(marks);
                self.annotate(name, PROTECTED_SINCE, Some(time_text(self.input.now)));
            } else if !wanted && since.is_some() {
                let end = pod.input.engine.idle_since.unwrap_or(i64::MIN / 2) + PROTECTED_AFTER;
                if given_up || self.input.now >= end {
                    for key in PROTECTION.map(|(key, _)| key).into_iter().chain([PROTECTED_SINCE]) {
                        self.annotate(name, key, None);
                    }
                } else {
                    self.wake.at(end);
                }
            }
        }
    }

    fn finish(mut self, verdict: &Verdict, decision: Decision) -> PoolPlan {
        for pod in &self.pods {
            if let Some(annotations) = self.annotations.remove(pod.name()) {
                self.actions.push(Action::Annotate { pod: pod.target(), annotations });
            }
        }
        self.actions.append(&mut self.creations);
        let facts = Facts { input: self.input, pods: &self.pods, verdict, decision: &decision };
        PoolPlan {
            actions: self.actions,
            status: status::write(&facts),
            desired: Some(decision.desired),
            failures: status::failures(&self.pods),
            memory: decision.memory,
            wake: self.wake.at,
        }
    }

    /// Begins to drain a pod, or deletes it if it is no use yet.
    fn begin_drain(&mut self, index: usize, cause: DrainCause) {
        if self.pods[index].is_unused() {
            self.delete(index, DeleteCause::Drained(cause));
            return;
        }
        let name = self.pods[index].name();
        if self.pods[index].annotation(DRAIN).is_none() {
            self.annotate(name, DRAIN, Some(cause.as_str().to_owned()));
        }
        self.annotate(name, DRAIN_SINCE, Some(time_text(self.input.now)));
        self.pods[index].drain = Some(Draining { cause, since: Some(self.input.now) });
    }

    fn delete(&mut self, index: usize, cause: DeleteCause) {
        let pod = &mut self.pods[index];
        let target = pod.target();
        pod.stage = Stage::Leaving { until: self.input.now };
        self.actions.push(Action::Delete { pod: target, cause });
    }

    fn annotate(&mut self, pod: &'a str, key: &'static str, value: Option<String>) {
        self.annotations.entry(pod).or_default().insert(key, value);
    }

    fn indices(&self, which: impl Fn(&Standing<'a>) -> bool) -> Vec<usize> {
        (0..self.pods.len()).filter(|index| which(&self.pods[*index])).collect()
    }

    /// Places of the pool that are taken.
    fn places(&self) -> i32 {
        number(self.pods.iter().filter(|pod| pod.holds_place()).count())
    }

    /// The time that a pod has to finish what it works on.
    fn grace(&self, pod: &Standing<'_>) -> i64 {
        let own = pod.input.pod.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        own.unwrap_or(self.input.pool.spec.template.termination_grace_period_seconds)
    }
}

/// The coldest first: with the least work, then with the fewest keys in memory.
fn coldness(pod: &Standing<'_>) -> (u32, usize) {
    (pod.assigned(), pod.input.engine.resident.len())
}

/// The number that a pod's name ends with.
fn ordinal(name: &str) -> u32 {
    name.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX)
}

fn failed_at(pod: &Standing<'_>) -> Option<i64> {
    match pod.stage {
        Stage::Failed { at, .. } => Some(at),
        _ => None,
    }
}

/// When a refused creation is tried again.
pub(super) fn retry_at(refusal: &Refusal) -> i64 {
    refusal.at + wait(REFUSED_WAIT, usize::try_from(refusal.times).unwrap_or(usize::MAX))
}

fn wait(first: i64, times: usize) -> i64 {
    let doubled = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    (first << doubled).min(LONGEST_WAIT)
}

pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
