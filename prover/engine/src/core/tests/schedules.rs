//! Thousands of random schedules: faults, cancels, deadlines, changing priorities, evictions, drains. What must hold is
//! checked by the simulation itself, after each event and at the end.

use std::time::Duration;

use proofmill_groth16::device::{Activity, BusySpan, Phase, WorkingSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::sim::{Fault, KeyScript, MIB, Script, Sim, StepScript, mk_circuit, mk_id, ms};
use crate::engine::{Config, SubmitError};
use crate::job::{FailureKind, Priority};
use crate::ledger::DeviceTime;

const SEEDS: u64 = 3_000;
const CIRCUITS: [&str; 4] = ["a", "b", "c", "d"];

struct Chances {
    faults: f64,
    interference: f64,
}

#[test]
fn with_faults_and_interference_nothing_is_lost() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..SEEDS {
        let sim = run(seed, &Chances { faults: 0.15, interference: 0.5 });
        for outcome in sim.outcomes.values().flatten() {
            *kinds.entry(outcome.as_ref().err().map(|failure| failure.kind)).or_insert(0_u32) += 1;
        }
    }
    // The schedules really reach all ends.
    for kind in [
        None,
        Some(FailureKind::BadInput),
        Some(FailureKind::BadKey),
        Some(FailureKind::UnsatisfiedWitness),
        Some(FailureKind::DeviceFault),
        Some(FailureKind::VerificationFailed),
        Some(FailureKind::MemoryBudget),
        Some(FailureKind::DeadlineExceeded),
        Some(FailureKind::Cancelled),
        Some(FailureKind::Draining),
    ] {
        assert!(kinds.get(&kind).is_some_and(|&count| count >= 20), "{kind:?}: {kinds:?}");
    }
}

#[test]
fn without_faults_everything_succeeds_and_the_ledger_tells_what_threads_did() {
    for seed in 0..SEEDS {
        let mut sim = run(seed, &Chances { faults: 0.0, interference: 0.0 });
        assert!(sim.outcomes.values().flatten().all(Result::is_ok), "seed {seed}");
        for device in 0..sim.core.devices.len() {
            for state in [
                DeviceTime::MsmG2,
                DeviceTime::MsmG1,
                DeviceTime::Ntt,
                DeviceTime::OtherKernel,
                DeviceTime::Transfer,
                DeviceTime::LeaseHeld,
                DeviceTime::HostPrep,
            ] {
                assert_eq!(sim.ledger(device, state), sim.truth(device, state), "seed {seed}, {state:?}");
            }
            assert_eq!(sim.ledger(device, DeviceTime::Fault), Duration::ZERO, "seed {seed}");
        }
    }
}

fn run(seed: u64, chances: &Chances) -> Sim {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let config = Config {
        memory_budget: random.random_range(40..200) * MIB,
        reserve_critical: random.random_range(0..10) * MIB,
        synthesis_workers: random.random_range(1..4),
        finalizers: random.random_range(1..3),
        device_attempts: random.random_range(1..4),
        quarantine_after: random.random_range(1..4),
        queue_limit: 30,
        ..Config::default()
    };
    let devices: Vec<Option<u64>> = (0..random.random_range(1..4))
        .map(|_| random.random_bool(0.5).then(|| random.random_range(8..30) * MIB))
        .collect();
    let mut sim = Sim::new(config, &devices);
    sim.release = ms(random.random_range(0..3));
    sim.canary = ms(random.random_range(0..20));
    for canaries in &mut sim.canaries {
        *canaries = (0..20).map(|_| !random.random_bool(chances.faults)).collect();
    }
    for circuit in CIRCUITS {
        let script = mk_key(&mut random, chances);
        sim.keys.insert(circuit.to_owned(), script);
    }
    for n in 0..random.random_range(5..25) {
        sim.run_until(sim.now + ms(random.random_range(0..40)));
        submit(&mut sim, &mut random, chances, n);
        if random.random_bool(chances.interference) {
            interfere(&mut sim, &mut random, n);
        }
    }
    if random.random_bool(chances.interference * 0.3) {
        sim.act(|core, now| core.close(now));
        let refused = sim.submit("late", "a", Priority::Normal, Script::default());
        assert_eq!(refused, Err(SubmitError::Draining));
        sim.run_until(sim.now + ms(random.random_range(0..300)));
        sim.act(|core, now| core.abandon(now));
    }
    sim.run_out();
    sim
}

fn submit(sim: &mut Sim, random: &mut StdRng, chances: &Chances, n: u32) {
    let priority = match random.random_range(0..10) {
        0 => Priority::Critical,
        1 => Priority::High,
        2 => Priority::Low,
        _ => Priority::Normal,
    };
    let circuit = CIRCUITS[random.random_range(0..CIRCUITS.len())];
    let deadline = random.random_bool(chances.interference * 0.3).then(|| ms(random.random_range(0..400)));
    let script = mk_script(random, chances);
    let sequence = random.random_range(0..4);
    // What is refused has no outcome.
    match sim.submit_with(&format!("job-{n}"), circuit, priority, sequence, deadline, script) {
        Ok(_) | Err(SubmitError::QueueFull { .. } | SubmitError::InputMemory { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn interfere(sim: &mut Sim, random: &mut StdRng, n: u32) {
    let job = format!("job-{}", random.random_range(0..=n));
    match random.random_range(0..6) {
        0 | 1 => drop(sim.act(|core, now| core.cancel(now, &mk_id(&job)))),
        2 => {
            let priority = [Priority::Critical, Priority::High, Priority::Low][random.random_range(0..3)];
            sim.act(|core, now| core.reprioritise(now, &job, priority));
        }
        3 => drop(sim.act(|core, now| core.evict(now, CIRCUITS[random.random_range(0..CIRCUITS.len())]))),
        4 => sim.act(|core, now| core.preload(now, mk_circuit(CIRCUITS[random.random_range(0..CIRCUITS.len())]))),
        _ => {
            // The same submission again: attaches, or starts anew what has failed.
            if let Some(script) = sim.scripts.get(&mk_id(&job)).cloned() {
                let again = sim.submit(&job, "a", Priority::Normal, script);
                let full = matches!(again, Err(SubmitError::QueueFull { .. } | SubmitError::InputMemory { .. }));
                assert!(again.is_ok() || full);
            }
        }
    }
}

fn mk_key(random: &mut StdRng, chances: &Chances) -> KeyScript {
    let resident = random.random_range(1..12) * MIB;
    let faulty = chances.faults > 0.0;
    KeyScript {
        // Sometimes too low, sometimes too high.
        estimated: if faulty { random.random_range(1..14) * MIB } else { resident },
        resident: if faulty && random.random_bool(0.03) { 150 * MIB } else { resident },
        scratch: random.random_range(0..3) * MIB,
        scratch_found: random.random_bool(0.3).then(|| random.random_range(0..6) * MIB),
        set: WorkingSet {
            evaluations: random.random_range(0..6) * MIB,
            host: random.random_range(0..6) * MIB,
            device: random.random_range(0..if faulty { 10 } else { 8 }) * MIB,
        },
        estimate: ms(random.random_range(0..5)),
        load: ms(random.random_range(0..60)),
        failures: u32::from(random.random_bool(chances.faults)),
        checks_constraints: random.random_bool(0.3),
    }
}

fn mk_script(random: &mut StdRng, chances: &Chances) -> Script {
    let steps = (0..random.random_range(1..6)).map(|_| mk_step(random)).collect::<Vec<_>>();
    let faults = (0..6)
        .map(|_| match random.random_bool(chances.faults).then(|| random.random_range(0..8)) {
            None => Fault::None,
            Some(0) => Fault::Prepare,
            Some(1) => Fault::Step(random.random_range(0..steps.len())),
            Some(2) => Fault::Output,
            Some(3) => Fault::Finish,
            Some(4) => Fault::Damaged,
            Some(_) => Fault::Invalid,
        })
        .collect();
    let hopeless = random.random_bool(chances.faults * 0.3);
    Script {
        input_bytes: random.random_range(0..2 * MIB),
        fetch: ms(random.random_range(0..30)),
        synthesis: ms(random.random_range(0..60)),
        synthesis_fails: random.random_bool(chances.faults * 0.3),
        wake: ms(random.random_range(0..3)),
        prepare: ms(random.random_range(0..20)),
        steps,
        output: ms(random.random_range(0..10)),
        finish: ms(random.random_range(0..40)),
        verify: ms(random.random_range(0..5)),
        // A witness that satisfies nothing: every proof of it is wrong.
        faults: if hopeless { vec![Fault::Invalid; 50] } else { faults },
    }
}

fn mk_step(random: &mut StdRng) -> StepScript {
    let length = random.random_range(1..50);
    let activities = [
        Activity::Transfer,
        Activity::Kernel(Phase::Ntt),
        Activity::Kernel(Phase::MsmG1),
        Activity::Kernel(Phase::MsmG2),
        Activity::Kernel(Phase::OtherKernel),
    ];
    let spans = (0..random.random_range(0..4))
        .map(|_| {
            let start = random.random_range(0..length);
            let activity = activities[random.random_range(0..activities.len())];
            BusySpan { activity, start: ms(start), end: ms(random.random_range(start..=length)) }
        })
        .collect();
    StepScript { phase: Phase::MsmG1, length: ms(length), spans }
}
