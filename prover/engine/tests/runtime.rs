//! The whole engine with real threads: protocol, failures, keys, memory, drain.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use proofmill_engine::engine::{Config, Engine, ResultBounds, SubmitError, Submitted};
use proofmill_engine::job::{Circuit, FailureKind, Input, PartitionState, Priority, Source};
use proofmill_engine::parts::Canary;
use proofmill_groth16::device::DeviceError;
use proofmill_groth16::device::simulated::{Fault, SimulatedCircuit};

#[test]
fn a_submission_becomes_a_verified_proof() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", SimulatedCircuit { synthesis: ms(3), finish: ms(2), ..mk_simulated(5) });
    let mut watch = engine.watch(None);
    assert_eq!(engine.submit(mk_submission("a", &circuit, "abc")), Ok(Submitted::Accepted));
    let proof = outcome(&engine, "a").unwrap();
    assert!(SimulatedCircuit::verify(&proof.proof, 3));
    assert_eq!(proof.public_signals, vec![[3, 0, 0, 0]]);
    assert_eq!(proof.device, "simulated-0");
    assert_eq!(proof.input_digest[..4], [0xba, 0x78, 0x16, 0xbf], "SHA-256 of abc");
    assert!(proof.timings.synthesis >= ms(3) && proof.timings.msm_g1 == ms(5) && proof.timings.finish >= ms(2));
    assert!(proof.timings.total >= ms(10));
    let mut states = Vec::new();
    while let Ok(event) = watch.try_recv() {
        states.push(event.state);
    }
    states.dedup();
    use PartitionState::*;
    assert_eq!(states, [Queued, LoadingKey, Queued, Synthesis, DeviceQueue, Proving, Finishing, Succeeded]);
    let trace: serde_json::Value = serde_json::from_str(&engine.trace()).unwrap();
    let names: Vec<_> = trace["traceEvents"].as_array().unwrap().iter().filter_map(|e| e["name"].as_str()).collect();
    for name in ["key_load", "synthesis", "host_prep", "msm_g1", "hand_over", "finish", "verify", "partition"] {
        assert!(names.contains(&name), "no {name} in the trace");
    }
    // These come just after the outcome.
    for name in ["store", "release"] {
        wait_until("the span", || engine.trace().contains(&format!("\"name\":\"{name}\"")));
    }
    serde_json::to_string(&engine.snapshot()).unwrap();
}

#[test]
fn submit_is_idempotent_and_failed_work_starts_anew() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(20));
    assert_eq!(engine.submit(mk_submission("a", &circuit, "x")), Ok(Submitted::Accepted));
    assert_eq!(engine.submit(mk_submission("a", &circuit, "x")), Ok(Submitted::Attached));
    let mut other = mk_submission("a", &circuit, "x");
    other.digest = [8; 32];
    assert!(matches!(engine.submit(other.clone()), Err(SubmitError::Conflict { .. })));
    outcome(&engine, "a").unwrap();
    assert_eq!(engine.submit(mk_submission("a", &circuit, "x")), Ok(Submitted::Attached));
    assert!(matches!(engine.submit(other.clone()), Err(SubmitError::Conflict { .. })));
    assert!(engine.acknowledge(&mk_id("a")));
    assert!(!engine.acknowledge(&mk_id("a")));
    assert_eq!(engine.submit(other), Ok(Submitted::Accepted));
    outcome(&engine, "a").unwrap();

    assert_eq!(engine.submit(mk_submission("b", &circuit, "bad")), Ok(Submitted::Accepted));
    assert_eq!(kind(&outcome(&engine, "b")), Some(FailureKind::BadInput));
    assert_eq!(engine.submit(mk_submission("b", &circuit, "bad")), Ok(Submitted::Accepted));
    assert_eq!(kind(&outcome(&engine, "b")), Some(FailureKind::BadInput));
}

#[test]
fn an_older_leader_is_refused() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(1));
    let mut submission = mk_submission("a", &circuit, "x");
    submission.epoch = 5;
    assert_eq!(engine.submit(submission.clone()), Ok(Submitted::Accepted));
    submission.epoch = 4;
    assert_eq!(engine.submit(submission), Err(SubmitError::StaleEpoch { given: 4, seen: 5 }));
}

#[test]
fn the_queue_and_its_inputs_are_bounded() {
    let config = Config { queue_limit: 2, memory_budget: 64 * MIB, ..mk_config() };
    let engine = mk_engine(config, vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(200));
    let mut large = mk_submission("large", &circuit, "");
    large.input = Input::Inline(vec![0; 8 << 20].into());
    assert!(engine.submit(large.clone()).is_ok());
    large.id = mk_id("large-2");
    assert!(matches!(engine.submit(large), Err(SubmitError::InputMemory { .. })));
    engine.submit(mk_submission("b", &circuit, "")).unwrap();
    assert_eq!(engine.submit(mk_submission("c", &circuit, "")), Err(SubmitError::QueueFull { limit: 2 }));
    outcome(&engine, "large").unwrap();
    engine.submit(mk_submission("c", &circuit, "")).unwrap();
    outcome(&engine, "c").unwrap();
}

#[test]
fn results_are_bounded_in_number_and_age() {
    let results = ResultBounds { count: 2, bytes: 1 << 20, age: ms(300) };
    let engine = mk_engine(Config { results, ..mk_config() }, vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(1));
    for job in ["a", "b", "c"] {
        engine.submit(mk_submission(job, &circuit, "x")).unwrap();
        outcome(&engine, job).unwrap();
    }
    let kept: Vec<_> = engine.snapshot().partitions.into_iter().map(|partition| partition.id.job).collect();
    assert_eq!(kept, ["b", "c"]);
    wait_until("the results are too old", || engine.snapshot().partitions.is_empty());
}

#[test]
fn panics_are_failures_of_their_kind_and_the_engine_goes_on() {
    let world = Arc::new(World::default());
    for place in ["prepare", "prove_finish"] {
        let device = Panicking { inner: mk_device("simulated-0"), armed: AtomicBool::new(true), place };
        let engine = mk_engine_with(mk_config(), vec![Arc::new(device)], Arc::clone(&world), None);
        let circuit = mk_circuit("chain", mk_simulated(1));
        engine.submit(mk_submission("a", &circuit, "x")).unwrap();
        outcome(&engine, "a").unwrap();
        engine.submit(mk_submission("b", &circuit, "panic")).unwrap();
        let failure = outcome(&engine, "b").unwrap_err();
        assert_eq!(failure.kind, FailureKind::Internal);
        assert!(!failure.message.contains("told to panic"), "a panic's words may hold values: {failure}");
        engine.submit(mk_submission("c", &circuit, "x")).unwrap();
        outcome(&engine, "c").unwrap();
        world.panic_in_load.store(true, Ordering::Relaxed);
        engine.submit(mk_submission("d", &mk_circuit("other", mk_simulated(2)), "x")).unwrap();
        assert_eq!(kind(&outcome(&engine, "d")), Some(FailureKind::Internal));
        world.panic_in_load.store(false, Ordering::Relaxed);
        assert!(engine.drain(ms(5000)));
    }
}

#[test]
fn a_circuit_is_loaded_once_and_its_failure_reaches_everybody() {
    let world = Arc::new(World::default());
    let engine = mk_engine_with(mk_config(), vec![Arc::new(mk_device("simulated-0"))], Arc::clone(&world), None);
    let circuit = mk_circuit("chain", SimulatedCircuit { key_load: ms(50), ..mk_simulated(1) });
    world.fail_loads.store(true, Ordering::Relaxed);
    for job in ["a", "b", "c"] {
        engine.submit(mk_submission(job, &circuit, "x")).unwrap();
    }
    for job in ["a", "b", "c"] {
        assert_eq!(kind(&outcome(&engine, job)), Some(FailureKind::BadKey));
    }
    assert_eq!(world.loads.load(Ordering::Relaxed), 1);
    assert_eq!(engine.snapshot().key_failures["chain"].failure.message, "the key is no key");
    world.fail_loads.store(false, Ordering::Relaxed);
    for job in ["a", "b", "c"] {
        engine.submit(mk_submission(job, &circuit, "x")).unwrap();
    }
    for job in ["a", "b", "c"] {
        outcome(&engine, job).unwrap();
    }
    assert_eq!(world.loads.load(Ordering::Relaxed), 2);
    assert_eq!(engine.snapshot().keys["chain"], MIB);
    assert!(engine.snapshot().key_failures.is_empty());
    assert!(engine.evict("chain"));
    assert!(!engine.evict("chain"));
    engine.preload(circuit);
    wait_until("the circuit is resident", || engine.snapshot().keys.contains_key("chain"));
    assert_eq!(world.loads.load(Ordering::Relaxed), 3);
}

#[test]
fn an_idle_circuit_makes_room_and_what_never_fits_fails_with_figures() {
    let config = Config { memory_budget: 32 * MIB, ..mk_config() };
    let engine = mk_engine(config, vec![Arc::new(mk_device("simulated-0"))]);
    for name in ["a", "b", "a"] {
        let circuit = mk_circuit(name, SimulatedCircuit { key_bytes: 20 * MIB, ..mk_simulated(1) });
        let job = format!("{name}-{}", engine.snapshot().partitions.len());
        engine.submit(mk_submission(&job, &circuit, "x")).unwrap();
        outcome(&engine, &job).unwrap();
        wait_until("only this one is resident", || engine.snapshot().keys.keys().collect::<Vec<_>>() == [name]);
    }
    let huge = mk_circuit("huge", SimulatedCircuit { key_bytes: 29 * MIB, ..mk_simulated(1) });
    engine.submit(mk_submission("huge", &huge, "x")).unwrap();
    let failure = outcome(&engine, "huge").unwrap_err();
    assert_eq!(failure.kind, FailureKind::MemoryBudget);
    assert!(failure.message.contains(&(29 * MIB).to_string()), "{failure}");
    let working = mk_circuit("working", SimulatedCircuit { working_set: 40 * MIB, ..mk_simulated(1) });
    engine.submit(mk_submission("working", &working, "x")).unwrap();
    assert_eq!(kind(&outcome(&engine, "working")), Some(FailureKind::MemoryBudget));
}

#[test]
fn inputs_are_fetched_in_time_and_cancelled_in_time() {
    let world = Arc::new(World::default());
    let engine = mk_engine_with(mk_config(), vec![Arc::new(mk_device("simulated-0"))], Arc::clone(&world), None);
    let circuit = mk_circuit("chain", mk_simulated(1));
    let fetched = |job: &str| {
        let mut submission = mk_submission(job, &circuit, "");
        submission.input = Input::Fetch(Source { url: format!("file:{job}"), sha256: None });
        submission
    };
    engine.submit(fetched("late")).unwrap();
    engine.submit(fetched("never")).unwrap();
    wait_until("the fetch goes on", || world.fetches.load(Ordering::Relaxed) == 2);
    assert!(engine.cancel(&mk_id("never")));
    assert_eq!(kind(&outcome(&engine, "never")), Some(FailureKind::Cancelled));
    assert!(!engine.cancel(&mk_id("never")));
    // Larger than what a fetch takes at first: the engine learns its size.
    world.inputs.lock().unwrap().insert("file:late".to_owned(), vec![0; 3 << 20].into());
    assert_eq!(outcome(&engine, "late").unwrap().public_signals, vec![[3 << 20, 0, 0, 0]]);
    let mut deadline = fetched("deadline");
    deadline.deadline = Some(ms(20));
    engine.submit(deadline).unwrap();
    assert_eq!(kind(&outcome(&engine, "deadline")), Some(FailureKind::DeadlineExceeded));
    wait_until("all inputs are given back", || engine.snapshot().memory["inputs"] == 0);
}

#[test]
fn a_fault_is_retried_on_another_device_and_too_many_fail() {
    let (bad, good) = (mk_device("bad"), mk_device("good"));
    bad.set_broken(true);
    let config = Config { quarantine_after: 100, ..mk_config() };
    let engine = mk_engine(config.clone(), vec![Arc::new(bad.clone()), Arc::new(good)]);
    let circuit = mk_circuit("chain", mk_simulated(1));
    for n in 0..10 {
        engine.submit(mk_submission(&format!("job-{n}"), &circuit, "x")).unwrap();
    }
    for n in 0..10 {
        assert_eq!(outcome(&engine, &format!("job-{n}")).unwrap().device, "good");
    }
    let engine = mk_engine(config, vec![Arc::new(bad)]);
    engine.submit(mk_submission("a", &circuit, "x")).unwrap();
    let failure = outcome(&engine, "a").unwrap_err();
    assert_eq!(failure.kind, FailureKind::DeviceFault);
    assert!(failure.message.contains("3 times"), "{failure}");
}

#[test]
fn quarantine_lasts_until_three_canaries_pass() {
    let device = mk_device("simulated-0");
    let canaries = Arc::new(AtomicUsize::new(0));
    let canary: Canary = {
        let (device, canaries) = (device.clone(), Arc::clone(&canaries));
        Arc::new(move |_| {
            // The third one finds the device mended.
            if canaries.fetch_add(1, Ordering::Relaxed) == 2 {
                device.set_broken(false);
            }
            match canaries.load(Ordering::Relaxed) {
                2 => Err(DeviceError::Fault { device: "simulated-0".to_owned(), message: "still broken".to_owned() }),
                _ => Ok(()),
            }
        })
    };
    let config = Config { device_attempts: 5, quarantine_after: 2, ..mk_config() };
    let engine = mk_engine_with(config, vec![Arc::new(device.clone())], Arc::default(), Some(canary));
    wait_until("the first canary has passed", || engine.snapshot().devices[0].ready);
    device.set_broken(true);
    let circuit = mk_circuit("chain", mk_simulated(1));
    engine.submit(mk_submission("a", &circuit, "x")).unwrap();
    wait_until("the device is in quarantine", || engine.snapshot().devices[0].quarantined);
    outcome(&engine, "a").unwrap();
    // One at start, one that failed, three that passed.
    assert_eq!(canaries.load(Ordering::Relaxed), 5);
    let device = &engine.snapshot().devices[0];
    assert!(!device.quarantined && device.ready);
    assert!(device.ledger[&("idle", "fault")] >= ms(900), "the wait after the failed canary is a fault");
}

#[test]
fn a_wrong_proof_never_leaves_and_its_cause_is_found() {
    let device = mk_device("simulated-0");
    let engine = mk_engine(mk_config(), vec![Arc::new(device.clone())]);
    let circuit = mk_circuit("chain", mk_simulated(1));
    // Once: the second proof is right, so the device was at fault.
    device.inject(Fault::InvalidProof);
    engine.submit(mk_submission("a", &circuit, "x")).unwrap();
    assert!(SimulatedCircuit::verify(&outcome(&engine, "a").unwrap().proof, 1));
    assert_eq!(engine.snapshot().devices[0].verification_failures, 1);
    // Twice, and the canary passes: the witness is at fault.
    device.inject(Fault::InvalidProof);
    device.inject(Fault::InvalidProof);
    engine.submit(mk_submission("b", &circuit, "x")).unwrap();
    let failure = outcome(&engine, "b").unwrap_err();
    assert_eq!(failure.kind, FailureKind::UnsatisfiedWitness);
    assert!(failure.message.contains("r1cs"), "{failure}");
    assert_eq!(engine.snapshot().devices[0].verification_failures, 1);
}

#[test]
fn with_checked_constraints_wrong_proofs_of_a_sound_device_accuse_the_r1cs() {
    let world = Arc::new(World::default());
    world.checks_constraints.store(true, Ordering::Relaxed);
    let device = mk_device("simulated-0");
    for _ in 0..2 {
        device.inject(Fault::InvalidProof);
    }
    let engine = mk_engine_with(mk_config(), vec![Arc::new(device)], world, None);
    engine.submit(mk_submission("a", &mk_circuit("chain", mk_simulated(1)), "x")).unwrap();
    let failure = outcome(&engine, "a").unwrap_err();
    assert_eq!(failure.kind, FailureKind::BadKey);
    assert!(failure.message.contains("r1cs"), "{failure}");
    assert_eq!(engine.snapshot().devices[0].verification_failures, 0);
}

#[test]
fn priorities_hold_and_can_be_changed() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(30));
    let mut watch = engine.watch(None);
    for n in 0..12 {
        engine.submit(mk_submission(&format!("job-{n:02}"), &circuit, "x")).unwrap();
    }
    assert_eq!(engine.reprioritise("job-11", Priority::High), 1);
    let mut critical = mk_submission("critical", &circuit, "x");
    critical.priority = Priority::Critical;
    engine.submit(critical).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 13 {
        match watch.try_recv() {
            Ok(event) if event.outcome.is_some() => ended.push(event.id.job),
            Ok(_) => {}
            Err(_) => std::thread::sleep(ms(1)),
        }
    }
    let place = |job: &str| ended.iter().position(|ended| ended == job).unwrap();
    assert!(place("critical") <= 2, "{ended:?}");
    assert!(place("job-11") < place("job-08"), "{ended:?}");
    assert!(place("job-07") < place("job-08") && place("job-08") < place("job-09"), "{ended:?}");
}

#[test]
fn drain_finishes_what_it_can_and_hands_the_rest_back() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(30));
    engine.submit(mk_submission("a", &circuit, "x")).unwrap();
    assert!(engine.drain(ms(5000)));
    outcome(&engine, "a").unwrap();
    assert_eq!(engine.submit(mk_submission("b", &circuit, "x")), Err(SubmitError::Draining));
    assert_eq!(engine.submit(mk_submission("a", &circuit, "x")), Ok(Submitted::Attached));
    std::thread::sleep(ms(20));
    assert!(engine.snapshot().devices[0].ledger[&("idle", "draining")] >= ms(15));

    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    for n in 0..20 {
        engine.submit(mk_submission(&format!("job-{n}"), &circuit, "x")).unwrap();
    }
    assert!(!engine.drain(ms(100)));
    let drained =
        (0..20).filter(|n| kind(&outcome(&engine, &format!("job-{n}"))) == Some(FailureKind::Draining)).count();
    assert!((15..20).contains(&drained), "{drained} of 20 were handed back");
    wait_until("all memory is given back", || {
        let memory = engine.snapshot().memory;
        memory["working_sets"] == 0 && memory["inputs"] == 0
    });
}

#[test]
fn cancelling_works_wherever_a_partition_is() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let slow = SimulatedCircuit { key_load: ms(60), synthesis: ms(60), finish: ms(60), ..mk_simulated(60) };
    use PartitionState::*;
    for (n, state) in [LoadingKey, Synthesis, Proving, Finishing].into_iter().enumerate() {
        let (job, circuit) = (format!("job-{n}"), mk_circuit(&format!("circuit-{n}"), slow.clone()));
        engine.submit(mk_submission(&job, &circuit, "x")).unwrap();
        wait_until("the state", || engine.snapshot().partitions.iter().any(|p| p.id.job == job && p.state == state));
        assert!(engine.cancel(&mk_id(&job)));
        assert_eq!(kind(&outcome(&engine, &job)), Some(FailureKind::Cancelled), "{state:?}");
    }
    wait_until("all memory is given back", || engine.snapshot().memory["working_sets"] == 0);
}

#[test]
fn an_idle_engine_hands_over_within_two_milliseconds_and_keeps_a_busy_device_busy() {
    let engine = mk_engine(mk_config(), vec![Arc::new(mk_device("simulated-0"))]);
    let circuit = mk_circuit("chain", mk_simulated(10));
    engine.submit(mk_submission("warm", &circuit, "x")).unwrap();
    outcome(&engine, "warm").unwrap();
    // Everything before the first step: `total` less what the step takes, finish and verification included.
    let mut waits: Vec<Duration> = (0..40)
        .map(|n| {
            let job = format!("single-{n}");
            engine.submit(mk_submission(&job, &circuit, "x")).unwrap();
            let timings = outcome(&engine, &job).unwrap().timings;
            timings.queue + timings.synthesis + timings.device_queue + timings.host_prep + timings.lease_wait
        })
        .collect();
    waits.sort();
    assert!(waits[20] <= ms(2), "submit to device start, p50: {:?}", waits[20]);

    // A sleep of 10 ms takes some 0.1 ms longer, and this machine may have other work: the best of some rounds counts,
    // and the benchmark asks for more.
    let best = (0..8).map(|round| busy_share(&engine, &circuit, round)).find(|share| *share >= 0.9);
    assert!(best.is_some(), "the device was never busy for 90 % of the time");
}

/// How much of the time the device is busy while 50 proofs of 10 ms are queued.
fn busy_share(engine: &Engine, circuit: &Circuit, round: u32) -> f64 {
    let before = engine.snapshot();
    let begin = Instant::now();
    for n in 0..50 {
        engine.submit(mk_submission(&format!("queued-{round}-{n}"), circuit, "x")).unwrap();
    }
    for n in 0..50 {
        outcome(engine, &format!("queued-{round}-{n}")).unwrap();
    }
    let wall = begin.elapsed();
    let after = engine.snapshot();
    let spent = |cause| after.devices[0].ledger[&cause] - before.devices[0].ledger[&cause];
    assert_eq!(spent(("idle", "unattributed")), Duration::ZERO);
    let busy = spent(("busy", "msm_g1"));
    assert_eq!(busy, ms(500), "the script's truth");
    let share = busy.as_secs_f64() / wall.as_secs_f64();
    println!("50 proofs of 10 ms: busy {:.1} %", 100.0 * share);
    share
}
