//! What an engine's failure of a partition means for its job.

use std::time::Duration;

use proofmill_crds::conditions::reasons;
use proofmill_proto::v1::{Failure, FailureKind, KeyFailureStatus};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job fails at once: the next try would end the same way.
    Final,
    /// Try again, as long as `backoffLimit` lasts.
    Retry,
    /// Nobody's fault: send it elsewhere, without counting.
    Elsewhere,
}

/// First pause before a retry; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What a kind of failure means.
pub fn verdict(kind: FailureKind) -> Verdict {
    use FailureKind as K;
    match kind {
        K::BadInput | K::BadKey | K::InsecureKey | K::UnsatisfiedWitness | K::MemoryBudget | K::DeadlineExceeded => {
            Verdict::Final
        }
        K::Unavailable | K::DeviceFault | K::VerificationFailed | K::Internal | K::Unspecified => Verdict::Retry,
        K::Draining | K::Cancelled => Verdict::Elsewhere,
    }
}

/// The reason that a user reads.
pub fn reason(kind: FailureKind) -> &'static str {
    use FailureKind as K;
    match kind {
        K::BadInput => reasons::BAD_INPUT,
        K::BadKey => reasons::BAD_KEY,
        K::InsecureKey => reasons::INSECURE_KEY,
        K::Unavailable => reasons::UNAVAILABLE,
        K::UnsatisfiedWitness => reasons::UNSATISFIED_WITNESS,
        K::DeviceFault => reasons::DEVICE_FAULT,
        K::VerificationFailed => reasons::VERIFICATION_FAILED,
        K::MemoryBudget => reasons::MEMORY_BUDGET,
        K::DeadlineExceeded => reasons::DEADLINE_EXCEEDED,
        K::Cancelled => reasons::CANCELLED,
        K::Draining => reasons::DRAINING,
        K::Internal | K::Unspecified => reasons::INTERNAL,
    }
}

/// Why an engine could not load a circuit: the reason and its words.
pub fn of_key(failed: &KeyFailureStatus) -> (&'static str, &str) {
    (reason(key_kind(failed)), failed.failure.as_ref().map_or("", |failure| &failure.message))
}

/// Whether it may go better next time.
pub fn may_pass(failed: &KeyFailureStatus) -> bool {
    verdict(key_kind(failed)) != Verdict::Final
}

fn key_kind(failed: &KeyFailureStatus) -> FailureKind {
    failed.failure.as_ref().map_or(FailureKind::Unspecified, Failure::kind)
}

/// How long to wait before try number `failures` + 1.
pub fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_input_or_key_causes_is_never_tried_again() {
        for kind in [FailureKind::BadInput, FailureKind::UnsatisfiedWitness, FailureKind::BadKey] {
            assert_eq!(verdict(kind), Verdict::Final, "{kind:?}");
        }
        assert_eq!(verdict(FailureKind::DeviceFault), Verdict::Retry);
        assert_eq!(verdict(FailureKind::Draining), Verdict::Elsewhere);
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let seconds: Vec<u64> = [1, 2, 3, 6, 7, 100].map(|n| pause(n).as_secs()).to_vec();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
