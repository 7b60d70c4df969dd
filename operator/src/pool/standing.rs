//! How one pod is: alive, going, lost or failed, draining or not, and what keeps it from working.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use proofmill_crds::conditions::reasons;

use super::pod::{MEMORY, PROVER, TEMPLATE_HASH, Template};
use super::{DRAIN, DRAIN_SINCE, DrainCause, PROTECTED_SINCE, PodInput, PodObject, Target};

/// A pod whose node has been away for so long is lost: its node's lease is renewed every 10 s, and NotReady after 40 s.
pub(super) const LOST_AFTER: i64 = 30;
/// A ready pod whose engine has not answered for so long takes no work.
pub(super) const SILENT_AFTER: i64 = 30;
/// A pod that is still there so long after the end of its grace period never ends by itself: its kubelet is gone.
pub(super) const STUCK_AFTER: i64 = 60;
/// A node's autoscaler has had time enough.
pub(super) const NO_CAPACITY_AFTER: i64 = 15 * 60;

/// A pod as the planner sees it.
#[derive(Clone, Debug)]
pub(super) struct Standing<'a> {
    pub input: &'a PodInput<'a>,
    pub stage: Stage,
    pub drain: Option<Draining>,
    /// Made from the present template, with as much memory as it has now.
    pub current: bool,
    /// It has a node.
    pub scheduled: bool,
    /// It is ready by its probe, but does not answer the operator.
    pub silent: bool,
    pub trouble: Option<Trouble>,
}

/// Where a pod is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It starts or runs.
    Live,
    /// It has been deleted and has time until then to end.
    Leaving { until: i64 },
    /// It cannot be counted on any more, and perhaps never ends.
    Lost,
    /// It has ended.
    Failed { reason: String, at: i64 },
}

/// That a pod drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draining {
    pub cause: DrainCause,
    /// None: not yet written down.
    pub since: Option<i64>,
}

/// What keeps a pod from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// One of [`reasons`].
    pub reason: &'static str,
    pub message: String,
    pub since: i64,
}

/// Whether a pod must get no new work, by its annotation.
pub fn is_draining(pod: &PodObject) -> bool {
    annotations(pod).contains_key(DRAIN)
}

impl<'a> Standing<'a> {
    /// Judges a pod.
    pub fn of(input: &'a PodInput<'a>, template: Option<&Template>, now: i64) -> Self {
        let stage = stage(input, now);
        let scheduled = input.pod.pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let engine = &input.engine;
        let unanswered = !engine.reachable && engine.silent_since.is_some_and(|since| now >= since + SILENT_AFTER);
        Self {
            drain: draining(input),
            silent: unanswered && input.pod.ready && stage == Stage::Live,
            // Without a template there is nothing to be outdated against.
            current: template.is_none_or(|template| is_of(input.pod, template)),
            scheduled,
            trouble: if stage == Stage::Live { trouble(input, now) } else { None },
            stage,
            input,
        }
    }

    /// It starts or runs, and is meant to go on.
    pub fn stays(&self) -> bool {
        self.stage == Stage::Live && self.drain.is_none()
    }

    /// It takes work. Until its engine has been reached the kubelet's word holds, so that a new leader does not begin with
    /// telling everyone that nothing works.
    pub fn works(&self) -> bool {
        let engine = &self.input.engine;
        self.stays() && self.input.pod.ready && !self.silent && (engine.ready || !engine.reachable)
    }

    /// It holds a place in the pool. What goes to make room for its like does so to its end, so that no more pods than
    /// desired ever share the devices; in place of any other the next may come at once.
    pub fn holds_place(&self) -> bool {
        let makes_room =
            self.drain.is_none_or(|drain| !matches!(drain.cause, DrainCause::ScaleDown | DrainCause::Node));
        match self.stage {
            Stage::Live => makes_room,
            Stage::Leaving { .. } => self.drain.is_some() && makes_room,
            Stage::Lost | Stage::Failed { .. } => false,
        }
    }

    /// Nothing is lost if it goes at once. By the kubelet's word: a new leader has not reached its engine yet.
    pub fn is_unused(&self) -> bool {
        self.input.engine.assigned == 0 && !self.input.pod.ready
    }

    /// Partitions that it works on.
    pub fn assigned(&self) -> u32 {
        self.input.engine.assigned
    }

    /// Since when it has been protected.
    pub fn protected_since(&self) -> Option<i64> {
        annotations(self.input.pod).get(PROTECTED_SINCE).and_then(|text| parse_time(text))
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        annotations(self.input.pod).get(key).map(String::as_str)
    }

    pub fn name(&self) -> &'a str {
        &self.input.pod.meta.key.name
    }

    pub fn target(&self) -> Target {
        let meta = &self.input.pod.meta;
        Target { key: meta.key.clone(), uid: meta.uid.clone(), resource_version: meta.resource_version.clone() }
    }
}

/// Whether a pod was made from a template, and with no less memory.
fn is_of(pod: &PodObject, template: &Template) -> bool {
    let known = annotations(pod);
    let memory = memory_of(pod).unwrap_or(0);
    known.get(TEMPLATE_HASH).is_some_and(|hash| hash == template.hash())
        && template.memory().is_none_or(|needed| memory >= needed)
}

/// Bytes of memory that a pod was made with, where its pool leaves that to the operator.
pub fn memory_of(pod: &PodObject) -> Option<u64> {
    annotations(pod).get(MEMORY)?.parse().ok()
}

/// A time as annotations hold it.
pub(super) fn time_text(at: i64) -> String {
    Timestamp::from_second(at).unwrap_or_default().to_string()
}

fn parse_time(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(|time| time.as_second())
}

fn annotations(pod: &PodObject) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    pod.pod.metadata.annotations.as_ref().unwrap_or(&NONE)
}

fn stage(input: &PodInput<'_>, now: i64) -> Stage {
    let pod = &input.pod.pod;
    let ended = |status: &&PodStatus| matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let lost = input.node.lost_since.is_some_and(|since| now >= since + LOST_AFTER);
    match &pod.metadata.deletion_timestamp {
        // The time at which the grace period ends, not the time of the request.
        Some(Time(end)) if now >= end.as_second() + STUCK_AFTER || lost => Stage::Lost,
        Some(Time(end)) => Stage::Leaving { until: end.as_second() + STUCK_AFTER },
        None => match pod.status.as_ref().filter(ended) {
            Some(status) => failed(status, input.pod.meta.created),
            None if lost => Stage::Lost,
            None => Stage::Live,
        },
    }
}

/// Why and when a pod failed. An eviction or a node's refusal names itself; else a container's last words count.
fn failed(status: &PodStatus, created: i64) -> Stage {
    let containers = status.container_statuses.iter().flatten();
    let ended: Vec<_> =
        containers.filter_map(|c| c.state.as_ref().and_then(|state| state.terminated.as_ref())).collect();
    let disruption = status.conditions.iter().flatten().find(|c| c.type_ == "DisruptionTarget" && c.status == "True");
    let reason = status
        .reason
        .clone()
        .or_else(|| disruption.and_then(|condition| condition.reason.clone()))
        .or_else(|| ended.iter().find(|end| end.exit_code != 0).and_then(|end| end.reason.clone()))
        .unwrap_or_else(|| "Ended".to_owned());
    let times = ended.iter().filter_map(|end| end.finished_at.as_ref());
    let times = times.chain(disruption.and_then(|condition| condition.last_transition_time.as_ref()));
    let at = times.map(|Time(time)| time.as_second()).max().unwrap_or(created);
    Stage::Failed { reason, at }
}

fn draining(input: &PodInput<'_>) -> Option<Draining> {
    let known = annotations(input.pod);
    match known.get(DRAIN) {
        Some(cause) => {
            let since = known.get(DRAIN_SINCE).and_then(|text| parse_time(text));
            Some(Draining { cause: DrainCause::parse(cause), since })
        }
        // Someone drained the engine itself. It never takes work again.
        None if input.engine.reachable && input.engine.draining => {
            Some(Draining { cause: DrainCause::User, since: None })
        }
        None => None,
    }
}

/// The last line of what a container said before it ended, not longer than a condition should be.
fn last_words(log: &str) -> Option<String> {
    const LONGEST: usize = 300;
    let line = log.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(LONGEST).collect())
}

fn trouble(input: &PodInput<'_>, now: i64) -> Option<Trouble> {
    let pod = &input.pod.pod;
    let status = pod.status.as_ref()?;
    let created = input.pod.meta.created;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    for container in containers {
        let Some(waiting) = container.state.as_ref().and_then(|state| state.waiting.as_ref()) else { continue };
        let word = waiting.reason.as_deref().unwrap_or_default();
        let reason = match word {
            "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => reasons::IMAGE_PULL,
            "CrashLoopBackOff" => reasons::CRASH_LOOP,
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => reasons::PODS_FAILED,
            _ => continue,
        };
        let mut message = format!("{word}: {}", waiting.message.as_deref().unwrap_or("the kubelet gives no reason"));
        let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        if let Some(last) = last.filter(|_| reason == reasons::CRASH_LOOP) {
            let why = last.reason.as_deref().unwrap_or("Error");
            message = format!("{} starts, last exit code {} ({why})", container.restart_count + 1, last.exit_code);
            if let Some(words) = last.message.as_deref().and_then(last_words) {
                message = format!("{message}: {words}");
            }
        }
        if container.name != PROVER {
            message = format!("container {}: {message}", container.name);
        }
        return Some(Trouble { reason, message, since: created });
    }
    let unscheduled = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled" && condition.status == "False" && condition.reason.is_some()
    })?;
    let since = unscheduled.last_transition_time.as_ref().map_or(created, |Time(time)| time.as_second());
    let reason = if now >= since + NO_CAPACITY_AFTER { reasons::NO_CAPACITY } else { reasons::WAITING_FOR_NODE };
    let message = unscheduled.message.clone().unwrap_or_else(|| "the scheduler gives no reason".to_owned());
    Some(Trouble { reason, message, since })
}
