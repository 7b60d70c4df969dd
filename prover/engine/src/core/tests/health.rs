//! Who is to blame for proofs that do not verify: witness, circuit or device; and when that is decided.

use std::time::Duration;

use super::sim::{Fault, KeyScript, MIB, Script, Sim, mk_id, ms};
use crate::engine::Config;
use crate::job::{FailureKind, Priority};

fn mk_sim() -> Sim {
    let mut sim = Sim::new(Config { memory_budget: 100 * MIB, ..Config::default() }, &[None]);
    sim.canary = ms(100);
    sim
}

fn mk_script(faults: &[Fault]) -> Script {
    Script { fetch: Duration::ZERO, faults: faults.to_vec(), ..Script::default() }
}

fn submit(sim: &mut Sim, job: &str, faults: &[Fault]) {
    sim.submit(job, "chain", Priority::Normal, mk_script(faults)).unwrap();
}

/// How a job ended; `None` if it was proved.
fn ended(sim: &Sim, job: &str) -> Option<FailureKind> {
    sim.outcomes[&mk_id(job)].last().unwrap().as_ref().err().map(|failure| failure.kind)
}

fn ended_at(sim: &Sim, job: &str) -> Duration {
    sim.events.iter().find(|event| event.id.job == job && event.outcome.is_some()).unwrap().at
}

const BAD: Fault = Fault::Invalid;

#[test]
fn a_canary_that_began_before_a_wrong_proof_does_not_decide() {
    let mut sim = mk_sim();
    // The first job's canary passes while the second job's second proof turns out wrong; the next canary fails.
    sim.canaries[0] = vec![false, true];
    submit(&mut sim, "first", &[BAD, BAD]);
    submit(&mut sim, "second", &[BAD, BAD]);
    sim.run_out();
    assert_eq!(ended(&sim, "first"), Some(FailureKind::UnsatisfiedWitness));
    assert_eq!(ended(&sim, "second"), None, "its device was out of order, which only a later canary could show");
}

#[test]
fn a_quarantined_device_judges_as_soon_as_it_is_free() {
    let mut sim = mk_sim();
    // The first canary after the wrong proofs of "first" fails: no other for a second, but for "second".
    sim.canaries[0] = vec![true, false];
    submit(&mut sim, "first", &[BAD, BAD]);
    submit(&mut sim, "second", &[BAD, BAD]);
    sim.run_until(ms(900));
    assert_eq!(ended(&sim, "second"), Some(FailureKind::UnsatisfiedWitness));
    assert!(ended_at(&sim, "second") < ms(300), "{:?}", ended_at(&sim, "second"));
    sim.run_out();
    assert_eq!(ended(&sim, "first"), None);
}

#[test]
fn with_checked_constraints_the_canary_decides_between_r1cs_and_device() {
    let checked = KeyScript { checks_constraints: true, ..KeyScript::default() };
    let mut sim = mk_sim();
    sim.keys.insert("chain".to_owned(), checked.clone());
    submit(&mut sim, "a", &[BAD, BAD]);
    sim.run_out();
    assert_eq!(ended(&sim, "a"), Some(FailureKind::BadKey));
    let snapshot = sim.core.snapshot(sim.now, "boot");
    assert!(!snapshot.devices[0].quarantined && snapshot.devices[0].verification_failures == 0);

    let mut sim = mk_sim();
    sim.keys.insert("chain".to_owned(), checked);
    sim.canaries[0] = vec![true, true, true, false];
    submit(&mut sim, "a", &[BAD, BAD]);
    sim.run_out();
    assert_eq!(ended(&sim, "a"), None);
    assert_eq!(sim.core.snapshot(sim.now, "boot").devices[0].verification_failures, 2);
}

#[test]
fn a_device_whose_canaries_keep_failing_fails_the_partition() {
    let mut sim = mk_sim();
    sim.canaries[0] = [[true, true, true, false]; 3].concat();
    submit(&mut sim, "a", &[BAD; 9]);
    sim.run_out();
    assert_eq!(ended(&sim, "a"), Some(FailureKind::VerificationFailed));
    assert_eq!(sim.core.snapshot(sim.now, "boot").devices[0].verification_failures, 3);
}
