//! Conditions of statuses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proofmill_crds::conditions::{Condition, ConditionStatus};

/// Longest message of a condition, in bytes.
const MESSAGE_MAX: usize = 4_096;

/// A status's conditions being set.
pub struct Conditions<'a> {
    /// They.
    pub list: &'a mut Vec<Condition>,
    /// Of the spec that they are about.
    pub generation: i64,
    /// Now.
    pub time: Time,
}

impl Conditions<'_> {
    /// A condition keeps its time as long as its status stays.
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) {
        let known = self.list.iter().position(|condition| condition.type_ == type_);
        let before = known.map(|at| &self.list[at]);
        let condition = next(before, type_, status, self.generation, self.time.clone(), reason, message);
        match known {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
    }
}

/// A condition that follows one of the same type, if there was any: it keeps its time as long as its status stays.
pub fn next(
    before: Option<&Condition>,
    type_: &str,
    status: ConditionStatus,
    generation: i64,
    now: Time,
    reason: &str,
    message: &str,
) -> Condition {
    let since = before.filter(|before| before.status == status).map(|before| before.last_transition_time.clone());
    Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: Some(generation),
        last_transition_time: since.unwrap_or(now),
        reason: reason.to_owned(),
        message: message[..message.floor_char_boundary(MESSAGE_MAX)].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn the_time_is_that_of_the_status() {
        let mut list = Vec::new();
        let mut set = |second: i64, status, message: &str| {
            let time = Time(Timestamp::from_second(second).unwrap());
            Conditions { list: &mut list, generation: second, time }.set("Ready", status, "Reason", message);
            let [condition] = list.as_slice() else { panic!("{list:?}") };
            (condition.last_transition_time.0.as_second(), condition.observed_generation, condition.message.len())
        };
        assert_eq!(set(1, ConditionStatus::False, "a"), (1, Some(1), 1));
        assert_eq!(set(2, ConditionStatus::False, "ab"), (1, Some(2), 2));
        assert_eq!(set(3, ConditionStatus::True, &"ä".repeat(5000)), (3, Some(3), MESSAGE_MAX));
    }
}
