//! Each state of the ledger, in a scenario whose truth is plain to see. Times in milliseconds.

use std::time::Duration;

use proofmill_groth16::device::{Activity, BusySpan, Phase, WorkingSet};

use super::sim::{KeyScript, MIB, Script, Sim, StepScript, mk_step, ms};
use crate::engine::Config;
use crate::job::Priority;
use crate::ledger::DeviceTime;

/// Compares every state of device 0; those not named must be zero.
fn assert_ledger(sim: &mut Sim, truth: &[(DeviceTime, u64)]) {
    let mut wrong = Vec::new();
    for state in DeviceTime::ALL {
        let expected = truth.iter().filter(|(named, _)| *named == state).map(|&(_, n)| ms(n)).sum::<Duration>();
        let found = sim.ledger(0, state);
        if found != expected {
            wrong.push(format!("{state:?}: {found:?}, should be {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "at {:?}: {wrong:#?}", sim.now);
}

fn mk_config() -> Config {
    Config { memory_budget: 800 * MIB, ..Config::default() }
}

/// A machine whose circuits are resident.
fn mk_warm(config: Config, circuits: &[&str]) -> Sim {
    let mut sim = Sim::new(config, &[None]);
    for circuit in circuits {
        let script = sim.keys.entry((*circuit).to_owned()).or_default();
        (script.estimate, script.load) = (Duration::ZERO, Duration::ZERO);
        sim.act(|core, now| core.preload(now, super::sim::mk_circuit(circuit)));
    }
    sim.run_until(Duration::ZERO);
    sim
}

fn inline() -> Script {
    Script { fetch: Duration::ZERO, ..Script::default() }
}

#[test]
fn one_partition_from_its_input_to_its_proof() {
    let mut sim = mk_warm(mk_config(), &["chain"]);
    sim.run_until(ms(10)); // no_work 10
    let span = |activity, start, end| BusySpan { activity, start: ms(start), end: ms(end) };
    let steps = vec![
        // A copy of 4 that overlaps 1 with an NTT of 6, and 3 of host work after it.
        StepScript {
            phase: Phase::Ntt,
            length: ms(12),
            spans: vec![span(Activity::Transfer, 0, 4), span(Activity::Kernel(Phase::Ntt), 3, 9)],
        },
        mk_step(Phase::MsmG1, 7),
        // G2 wins over G1 while both run.
        StepScript {
            phase: Phase::MsmG2,
            length: ms(10),
            spans: vec![span(Activity::Kernel(Phase::MsmG1), 0, 10), span(Activity::Kernel(Phase::MsmG2), 2, 10)],
        },
        mk_step(Phase::OtherKernel, 2),
    ];
    let script = Script {
        fetch: ms(20),
        synthesis: ms(30),
        wake: ms(1),
        prepare: ms(5),
        steps,
        output: ms(3),
        finish: ms(40),
        verify: ms(6),
        ..Script::default()
    };
    sim.submit("a", "chain", Priority::Normal, script).unwrap();
    sim.run_until(ms(200));
    let all = 10 + 20 + 30 + 1 + 5 + 4 + (12 + 7 + 10 + 2) + 3;
    assert_ledger(
        &mut sim,
        &[
            (DeviceTime::Input, 20),
            (DeviceTime::Synthesis, 30),
            (DeviceTime::Pickup, 1 + 4),
            (DeviceTime::HostPrep, 5 + 3),
            (DeviceTime::Transfer, 3),
            (DeviceTime::Ntt, 6),
            (DeviceTime::LeaseHeld, 3),
            (DeviceTime::MsmG1, 7 + 2),
            (DeviceTime::MsmG2, 8),
            (DeviceTime::OtherKernel, 2),
            // Before it came, and while it was finished.
            (DeviceTime::NoWork, 200 - all + 10),
        ],
    );
    sim.run_out();
}

#[test]
fn a_key_is_sized_and_loaded() {
    let mut sim = Sim::new(mk_config(), &[None]);
    sim.keys.insert("chain".to_owned(), KeyScript { estimate: ms(5), load: ms(25), ..KeyScript::default() });
    sim.submit("a", "chain", Priority::Normal, inline()).unwrap();
    sim.run_until(ms(29));
    assert_ledger(&mut sim, &[(DeviceTime::KeyLoad, 29)]);
    sim.run_until(ms(40));
    assert_ledger(
        &mut sim,
        &[
            (DeviceTime::KeyLoad, 30),
            (DeviceTime::Synthesis, 1),
            (DeviceTime::HostPrep, 2),
            (DeviceTime::MsmG1, 1),
            (DeviceTime::NoWork, 6),
        ],
    );
}

#[test]
fn a_warm_up_counts_as_key_load() {
    let mut sim = Sim::new(mk_config(), &[None]);
    sim.keys.insert("chain".to_owned(), KeyScript { load: ms(25), ..KeyScript::default() });
    sim.run_until(ms(5));
    sim.act(|core, now| core.preload(now, super::sim::mk_circuit("chain")));
    sim.run_until(ms(40));
    assert_ledger(&mut sim, &[(DeviceTime::KeyLoad, 25), (DeviceTime::NoWork, 15)]);
}

#[test]
fn a_partition_waits_for_memory_that_a_finishing_one_holds() {
    let config = Config { synthesis_workers: 2, ..mk_config() };
    let mut sim = mk_warm(config, &[]);
    // 700 MiB for work: two of these do not fit together, whatever is released after prove_start.
    let set = WorkingSet { evaluations: 100 * MIB, host: 400 * MIB, device: 0 };
    sim.keys.insert("large".to_owned(), KeyScript { load: Duration::ZERO, set, ..KeyScript::default() });
    for job in ["a", "b"] {
        sim.submit(job, "large", Priority::Normal, Script { finish: ms(50), ..inline() }).unwrap();
    }
    // a: synthesis 1, prepare 1, step 1, output 1, then finish 50 and verify 1 while b waits for memory.
    sim.run_until(ms(55));
    assert_ledger(
        &mut sim,
        &[
            // While a is synthesised, b waits for memory and the second synthesis worker is free.
            (DeviceTime::MemoryBudget, 1 + 51),
            (DeviceTime::HostPrep, 2),
            (DeviceTime::MsmG1, 1),
        ],
    );
    sim.run_until(ms(56));
    assert_eq!(sim.ledger(0, DeviceTime::Synthesis), ms(1));
    sim.run_out();
}

#[test]
fn without_a_free_synthesis_worker_waiting_for_memory_is_synthesis() {
    let mut sim = mk_warm(mk_config(), &[]);
    let set = WorkingSet { evaluations: 100 * MIB, host: 400 * MIB, device: 0 };
    sim.keys.insert("large".to_owned(), KeyScript { load: Duration::ZERO, set, ..KeyScript::default() });
    for job in ["a", "b"] {
        sim.submit(job, "large", Priority::Normal, Script { synthesis: ms(20), ..inline() }).unwrap();
    }
    sim.run_until(ms(20));
    assert_ledger(&mut sim, &[(DeviceTime::Synthesis, 20)]);
}

#[test]
fn finalizers_that_are_too_slow_hold_the_device_up() {
    let config = Config { finalizers: 1, synthesis_workers: 4, ..mk_config() };
    let mut sim = mk_warm(config, &["chain"]);
    let script = Script {
        synthesis: Duration::ZERO,
        prepare: Duration::ZERO,
        output: Duration::ZERO,
        steps: vec![mk_step(Phase::Ntt, 1)],
        finish: ms(99),
        ..inline()
    };
    for job in ["a", "b", "c", "d", "e"] {
        sim.submit(job, "chain", Priority::Normal, script.clone()).unwrap();
    }
    // a is finished until 101, b waits in the queue of one, c and d occupy both workers from 4 on; e waits.
    sim.run_until(ms(101));
    assert_ledger(&mut sim, &[(DeviceTime::Ntt, 4), (DeviceTime::FinishBackpressure, 97)]);
    // b is finished from 101 to 201, c moves into the queue, e runs for 1, and again both workers wait.
    sim.run_until(ms(201));
    assert_ledger(&mut sim, &[(DeviceTime::Ntt, 5), (DeviceTime::FinishBackpressure, 97 + 99)]);
    sim.run_out();
}

#[test]
fn a_broken_device_is_a_fault_until_its_canaries_pass() {
    let config = Config { quarantine_after: 1, device_attempts: 2, ..mk_config() };
    let mut sim = mk_warm(config, &["chain"]);
    sim.run_until(ms(7));
    (sim.canary, sim.canary_wake) = (ms(10), ms(1));
    // The first one fails, then three pass.
    sim.canaries[0] = vec![true, true, true, false];
    let script = Script { faults: vec![super::sim::Fault::Prepare], synthesis: Duration::ZERO, ..inline() };
    sim.submit("a", "chain", Priority::Normal, script).unwrap();
    sim.run_until(ms(2000));
    assert_ledger(
        &mut sim,
        &[
            // 1 to the first canary, 1000 after it failed, 1 before each of the others.
            (DeviceTime::Fault, 1 + 1000 + 3),
            (DeviceTime::OtherKernel, 40),
            (DeviceTime::HostPrep, 1 + 2),
            (DeviceTime::MsmG1, 1),
            (DeviceTime::NoWork, 2000 - 1004 - 40 - 4),
        ],
    );
}

#[test]
fn the_first_canary_is_waited_for() {
    let mut sim = Sim::new(mk_config(), &[None]);
    // The first canary began with the engine and took no time.
    sim.run_until(ms(3));
    assert_ledger(&mut sim, &[(DeviceTime::NoWork, 3)]);
}

#[test]
fn after_the_last_partition_a_closed_engine_drains() {
    let mut sim = mk_warm(mk_config(), &["chain"]);
    sim.submit("a", "chain", Priority::Normal, Script { synthesis: ms(9), finish: ms(30), ..inline() }).unwrap();
    sim.act(|core, now| core.close(now));
    sim.run_until(ms(50));
    assert_ledger(
        &mut sim,
        &[
            (DeviceTime::Synthesis, 9),
            (DeviceTime::HostPrep, 2),
            (DeviceTime::MsmG1, 1),
            // Finishing needs no device: nothing is left for it.
            (DeviceTime::Draining, 38),
        ],
    );
}

#[test]
fn two_workers_hide_the_preparation_of_the_next_partition() {
    let mut sim = mk_warm(Config { synthesis_workers: 2, finalizers: 2, ..mk_config() }, &["chain"]);
    let script = Script {
        synthesis: Duration::ZERO,
        prepare: ms(8),
        steps: vec![mk_step(Phase::MsmG1, 10), mk_step(Phase::MsmG2, 10)],
        output: ms(5),
        ..inline()
    };
    for n in 0..10 {
        sim.submit(&format!("job-{n}"), "chain", Priority::Normal, script.clone()).unwrap();
    }
    sim.run_until(ms(8 + 10 * 20 + 5));
    assert_ledger(&mut sim, &[(DeviceTime::HostPrep, 8 + 5), (DeviceTime::MsmG1, 100), (DeviceTime::MsmG2, 100)]);
}

#[test]
fn a_warm_up_that_does_not_fit_is_no_partition_that_waits() {
    let mut sim = Sim::new(Config { memory_budget: 16 * MIB, ..Config::default() }, &[None]);
    for circuit in ["a", "b"] {
        let script = sim.keys.entry(circuit.to_owned()).or_default();
        (script.estimated, script.resident, script.estimate, script.load) =
            (10 * MIB, 10 * MIB, Duration::ZERO, Duration::ZERO);
        sim.act(|core, now| core.preload(now, super::sim::mk_circuit(circuit)));
    }
    // Of the two, one fits; the other one waits, and nothing keeps the device from work but that there is none.
    sim.run_until(ms(50));
    assert_eq!(sim.core.budget().used(crate::core::Area::Keys), 10 * MIB);
    assert_ledger(&mut sim, &[(DeviceTime::NoWork, 50)]);
}
