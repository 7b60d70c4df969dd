//! How jobs ended: a line of words or a JSON object for each, the same from every command, and one exit code for all.

use std::path::Path;

use proofmill_engine::job::{Failure, PartitionProof};
use serde_json::json;

use crate::error::{CliError, failure_code, reason};
use crate::manifest::PlannedJob;
use crate::output;
use crate::progress::seconds;

/// Why a job has no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    /// One CamelCase word.
    pub reason: String,
    /// What is wrong and what to do.
    pub message: String,
    /// The exit code that it asks for.
    pub code: u8,
}

/// Keeps proofs, says how each job ended, and counts.
pub struct Results<'a> {
    out: &'a Path,
    json: bool,
    jobs: usize,
    failed: usize,
    /// The highest exit code of a failure.
    worst: u8,
}

impl From<&Failure> for JobFailure {
    fn from(failure: &Failure) -> Self {
        Self {
            reason: reason(failure.kind).to_owned(),
            message: failure.message.clone(),
            code: failure_code(failure.kind),
        }
    }
}

impl<'a> Results<'a> {
    /// For `jobs` jobs, whose proofs go beneath `out`.
    pub const fn new(out: &'a Path, json: bool, jobs: usize) -> Self {
        Self { out, json, jobs, failed: 0, worst: 0 }
    }

    /// Keeps the proofs of a job, one per partition in their order, and says so on stdout through `say`; whether they are
    /// kept.
    pub fn proved(&mut self, job: &PlannedJob, proofs: &[&PartitionProof], say: impl Fn(&str)) -> bool {
        let name = &job.name;
        let path = match output::write_proofs(&self.out.join(name), proofs) {
            Ok(path) => path,
            Err(error) => {
                let failure = JobFailure {
                    reason: "NotWritten".into(),
                    message: format!("proved, but {error}"),
                    code: error.code(),
                };
                self.failed(name, &failure, say);
                return false;
            }
        };
        let total = proofs.iter().map(|proof| proof.timings.total).max().unwrap_or_default();
        let insecure = proofs.iter().any(|proof| proof.insecure_key);
        if self.json {
            let line = json!({
                "event": "result", "job": name, "succeeded": true, "verified": true, "proof": path,
                "insecureKey": insecure, "milliseconds": total.as_millis() as u64,
                "timings": proofs.iter().map(|proof| proof.timings).collect::<Vec<_>>(),
            });
            say(&line.to_string());
            return true;
        }
        say(&format!("{name}: proved and verified in {}: {}", seconds(total), path.display()));
        if insecure {
            say(&format!(
                "{name}: WARNING: the key of circuit {} is insecure: anyone can forge its proofs",
                job.circuit
            ));
        }
        true
    }

    /// Says through `say` why a job has no proof.
    pub fn failed(&mut self, job: &str, failure: &JobFailure, say: impl Fn(&str)) {
        self.failed += 1;
        self.worst = self.worst.max(failure.code);
        let JobFailure { reason, message, .. } = failure;
        if self.json {
            let line = json!({"event": "result", "job": job, "succeeded": false, "reason": reason, "message": message});
            say(&line.to_string());
        } else {
            say(&format!("{job}: {reason}: {message}"));
        }
    }

    /// All in one: the highest exit code of the failures counts.
    pub fn outcome(&self) -> Result<(), CliError> {
        match self.failed {
            0 => Ok(()),
            failed => Err(CliError::Jobs { failed, all: self.jobs, code: self.worst }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proofmill_engine::job::FailureKind;

    use super::*;

    #[test]
    fn the_highest_code_counts() {
        let mut results = Results::new(Path::new("proofs"), false, 4);
        assert_eq!(results.outcome(), Ok(()));
        let said = RefCell::new(Vec::new());
        for (name, kind) in
            [("a", FailureKind::BadInput), ("b", FailureKind::UnsatisfiedWitness), ("c", FailureKind::BadKey)]
        {
            let failure = Failure { kind, message: "why".into() };
            results.failed(name, &JobFailure::from(&failure), |line| said.borrow_mut().push(line.to_owned()));
        }
        assert_eq!(results.outcome(), Err(CliError::Jobs { failed: 3, all: 4, code: 4 }));
        assert_eq!(said.into_inner(), ["a: BadInput: why", "b: UnsatisfiedWitness: why", "c: BadKey: why"]);
    }

    #[test]
    fn machines_get_an_object() {
        let said = RefCell::new(String::new());
        let failure = JobFailure { reason: "QueueFull".into(), message: "wait".into(), code: 5 };
        Results::new(Path::new("proofs"), true, 1).failed("a", &failure, |line| *said.borrow_mut() = line.to_owned());
        let line: serde_json::Value = serde_json::from_str(&said.into_inner()).unwrap();
        assert_eq!(
            line,
            json!({"event": "result", "job": "a", "succeeded": false, "reason": "QueueFull", "message": "wait"})
        );
    }
}
