//! What counts as taken, and for how long.

use std::time::Duration;

use proofmill_groth16::device::WorkingSet;

use super::sim::{Fault, KeyScript, MIB, Script, Sim, mk_id, ms};
use crate::core::Area;
use crate::engine::Config;
use crate::job::{FailureKind, PartitionState, Priority};

fn inline() -> Script {
    Script { fetch: Duration::ZERO, ..Script::default() }
}

fn mk_sim(device: Option<u64>) -> Sim {
    Sim::new(Config { memory_budget: 100 * MIB, ..Config::default() }, &[device])
}

#[test]
fn a_devices_memory_is_free_when_its_buffers_are_dropped() {
    let mut sim = mk_sim(Some(4 * MIB));
    sim.release = ms(50);
    let set = WorkingSet { evaluations: MIB, host: MIB, device: 3 * MIB };
    sim.keys.insert("chain".to_owned(), KeyScript { set, ..KeyScript::default() });
    let failing = Script { faults: vec![Fault::Step(0)], ..inline() };
    sim.submit("failing", "chain", Priority::Normal, failing).unwrap();
    sim.submit("next", "chain", Priority::Normal, inline()).unwrap();
    sim.run_out();
    // The step failed; the release of its buffers took 50 ms, and only then was there room for another preparation.
    let failed = sim.steps[0].0 + ms(1);
    let prepared = sim.prepared[1].0;
    assert!(prepared >= failed + ms(50), "{prepared:?} after {failed:?}");
}

#[test]
fn a_damaged_key_goes_with_its_last_partition_and_comes_back_anew() {
    let mut sim = mk_sim(None);
    let damaged = Script { faults: vec![Fault::Damaged], ..inline() };
    let slow = Script { finish: ms(200), ..inline() };
    sim.submit("slow", "chain", Priority::High, slow).unwrap();
    sim.submit("damaged", "chain", Priority::Normal, damaged).unwrap();
    sim.run_until(ms(220));
    assert!(sim.outcomes[&mk_id("slow")][0].is_ok());
    sim.submit("next", "chain", Priority::Low, inline()).unwrap();
    sim.run_out();
    let kind = |job: &str| sim.outcomes[&mk_id(job)][0].as_ref().err().map(|failure| failure.kind);
    assert_eq!((kind("damaged"), kind("next")), (Some(FailureKind::BadKey), None));
    let loads = sim.events.iter().filter(|event| event.id.job == "next" && event.state == PartitionState::LoadingKey);
    assert_eq!(loads.count(), 1, "the key was loaded anew");
    let device = &sim.core.snapshot(sim.now, "boot").devices[0];
    assert!(!device.quarantined && device.verification_failures == 0);
}

#[test]
fn what_a_synthesis_took_is_what_the_next_one_gets() {
    let mut sim = mk_sim(None);
    let mut taken = Vec::new();
    let key = KeyScript { scratch: 20 * MIB, scratch_found: Some(5 * MIB), ..KeyScript::default() };
    sim.keys.insert("chain".to_owned(), key);
    for job in ["first", "second"] {
        sim.submit(job, "chain", Priority::Normal, Script { synthesis: ms(10), ..inline() }).unwrap();
        sim.run_until(sim.now + ms(5));
        taken.push(sim.core.budget().used(Area::WorkingSets));
        sim.run_until(sim.now + ms(100));
    }
    // Evaluations and partial sums of a MiB each come on top.
    assert_eq!(taken, [22 * MIB, 7 * MIB]);
    sim.run_out();
}

#[test]
fn an_input_takes_its_memory_before_it_comes_and_waits_for_it() {
    let mut sim = mk_sim(None);
    // Inputs may take 12.5 MiB together.
    let script = |input_bytes| Script { input_bytes, fetch: ms(100), ..Script::default() };
    for (job, bytes) in [("first", 8 * MIB), ("second", 6 * MIB)] {
        sim.submit(job, "chain", Priority::Normal, script(bytes)).unwrap();
    }
    sim.run_until(ms(50));
    assert!(sim.core.budget().used(Area::Inputs) >= 8 * MIB, "it counts while it is fetched");
    sim.submit("never", "chain", Priority::High, script(14 * MIB)).unwrap();
    sim.run_out();
    let kind = |job: &str| sim.outcomes[&mk_id(job)][0].as_ref().err().map(|failure| failure.kind);
    assert_eq!((kind("first"), kind("second")), (None, None));
    assert_eq!(kind("never"), Some(FailureKind::MemoryBudget));
}
