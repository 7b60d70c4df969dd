//! How many pods a pool should have. The rule is simple: as many as clear the waiting work in `targetQueueSeconds`.

use proofmill_crds::conditions::reasons;
use proofmill_crds::prover_pool::Autoscaling;

use super::{Demand, PoolObject};

/// Since when more, and since when fewer pods have been wanted. A leader that has lost it waits a window longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    more: Option<Streak>,
    fewer: Option<Streak>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Streak {
    since: i64,
    /// The number nearest to the present one that was wanted in that time.
    nearest: i32,
}

/// What the autoscaler sees of the pods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Supply {
    /// Pods that are meant to stay.
    pub pods: i32,
    /// Of those, busy ones.
    pub busy: i32,
    /// Devices of a pod.
    pub devices: u32,
}

/// A number of pods, and why it is not the one that the work asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub desired: i32,
    pub limited: Option<(&'static str, String)>,
    pub memory: Memory,
    /// When a window ends.
    pub wake: Option<i64>,
}

/// Decides.
pub(super) fn decide(pool: &PoolObject, supply: Supply, demand: Option<Demand>, memory: Memory, now: i64) -> Decision {
    let Some(range) = &pool.spec.autoscaling else {
        let desired = pool.spec.replicas.unwrap_or_default().max(0);
        return Decision { desired, limited: None, memory: Memory::default(), wake: None };
    };
    let within = |number: i32| number.max(range.min_replicas).min(range.max_replicas.max(range.min_replicas));
    // What was decided last, or, before the first decision, what there is.
    let present = within(pool.status.desired_replicas.unwrap_or(supply.pods));
    let Some(demand) = demand else {
        let message = "the waiting work is not known: the number of pods stays as it is".to_owned();
        return Decision { desired: present, limited: Some((reasons::EVIDENCE_MISSING, message)), memory, wake: None };
    };
    let wanted = wanted(range, supply, demand);
    let (desired, memory, wake) = stabilise(range, present, within(wanted), memory, now);
    let limited = if wake.is_some() {
        let message = format!("{} pods would do; a stabilisation window has not passed", within(wanted));
        Some((reasons::STABILIZING, message))
    } else if wanted > range.max_replicas {
        Some((reasons::MAX_REPLICAS, format!("the work asks for {wanted} pods, maxReplicas is {}", range.max_replicas)))
    } else if wanted < range.min_replicas {
        Some((reasons::MIN_REPLICAS, format!("the work asks for {wanted} pods, minReplicas is {}", range.min_replicas)))
    } else {
        None
    };
    Decision { desired, limited, memory, wake }
}

/// Pods that clear what waits in the target time; a busy pod is needed in any case.
fn wanted(range: &Autoscaling, supply: Supply, demand: Demand) -> i32 {
    let one = u64::from(range.target_queue_seconds.unsigned_abs()).max(1) * 1_000 * u64::from(supply.devices.max(1));
    let queue = demand.queue_milliseconds.div_ceil(one);
    // Work whose length nobody knows yet asks for a pod, too.
    let queue = queue.max(u64::from(demand.waiting > 0));
    i32::try_from(queue).unwrap_or(i32::MAX).max(supply.busy)
}

/// Follows `wanted` only once it has been on the same side of `present` for the window of that side, and then only as far
/// as it has been all that time.
fn stabilise(range: &Autoscaling, present: i32, wanted: i32, memory: Memory, now: i64) -> (i32, Memory, Option<i64>) {
    let up = wanted > present;
    let (known, window) = match wanted.cmp(&present) {
        std::cmp::Ordering::Equal => return (present, Memory::default(), None),
        std::cmp::Ordering::Greater => (memory.more, range.scale_up_stabilization_seconds),
        std::cmp::Ordering::Less => (memory.fewer, range.scale_down_stabilization_seconds),
    };
    let nearer = |streak: Streak| if up { streak.nearest.min(wanted) } else { streak.nearest.max(wanted) };
    let streak = match known {
        Some(streak) => Streak { nearest: nearer(streak), ..streak },
        None => Streak { since: now, nearest: wanted },
    };
    let end = streak.since + i64::from(window);
    if now >= end {
        return (streak.nearest, Memory::default(), None);
    }
    let (more, fewer) = if up { (Some(streak), None) } else { (None, Some(streak)) };
    (present, Memory { more, fewer }, Some(end))
}
