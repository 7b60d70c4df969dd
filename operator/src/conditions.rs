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
        let message = shortened(message);
        let known = self.list.iter().position(|condition| condition.type_ == type_);
        let time = known.map(|at| &self.list[at]).filter(|known| known.status == status);
        let condition = Condition {
            type_: type_.to_owned(),
            status,
            observed_generation: Some(self.generation),
            last_transition_time: time.map_or_else(|| self.time.clone(), |known| known.last_transition_time.clone()),
            reason: reason.to_owned(),
            message,
        };
        match known {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
    }
}

fn shortened(message: &str) -> String {
    let mut end = message.len().min(MESSAGE_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}
