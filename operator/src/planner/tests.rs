//! The planner in a world in memory.

mod world;

use proofmill_crds::conditions::{ConditionStatus, reasons};
use proofmill_crds::proof_job::{Priority, ProofJobStatus};
use proofmill_proto::v1;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use self::world::{SECOND, World, failure, key, proof};
use super::*;

#[test]
fn a_job_is_sent_proved_verified_and_written_once() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.started(), ["a/0"]);
    assert_eq!(world.status_writes, 0, "what is over in a moment is not written");
    assert!(world.finish("p", proof()));
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!((world.status_writes, world.acked), (1, 1));
    assert_eq!(world.events, [("a".to_owned(), reasons::PROVED)]);
    let status = &world.jobs[&key("a")].status;
    assert_eq!(status.progress.as_deref(), Some("1/1"));
    assert!(status.proof.is_some() && status.start_time.is_some() && status.completion_time.is_some());
    // At rest nothing is written.
    for _ in 0..50 {
        world.pass(30 * SECOND);
    }
    assert_eq!(world.status_writes, 1);
}

#[test]
fn strict_order_by_priority_then_age_then_name() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for (name, priority) in [("b", "Low"), ("a", "Low"), ("z", "Normal"), ("h", "High")] {
        world.add_job(name, json!({"priority": priority}));
    }
    world.now += SECOND;
    world.add_job("0", json!({"priority": "Low"}));
    world.settle();
    assert_eq!(world.started(), ["h/0", "z/0"], "two lie ahead of a device");
    for _ in 0..5 {
        world.finish("p", proof());
        world.settle();
    }
    assert_eq!(world.started(), ["h/0", "z/0", "a/0", "b/0", "0/0"]);
}

#[test]
fn a_critical_job_comes_through_a_full_engine() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for name in ["a", "b", "c", "d"] {
        world.add_job(name, json!({}));
    }
    world.settle();
    world.add_job("urgent", json!({"priority": "Critical"}));
    world.settle();
    assert_eq!(world.started(), ["a/0", "b/0", "urgent/0"]);
}

#[test]
fn waiting_has_a_reason_once_it_lasts() {
    let mut world = World::new(1, &[]);
    world.circuits.clear();
    world.pools.clear();
    world.restart();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.outcome("a"), None);
    world.pass(SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::WAITING_FOR_CIRCUIT);
    world.add_circuit(1);
    world.settle();
    world.pass(2 * SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::WAITING_FOR_POOL);
    assert!(world.starts.is_empty());
}

#[test]
fn bad_input_is_final_and_faults_are_tried_again_elsewhere() {
    let mut world = World::new(1, &["p", "q"]);
    world.settle();
    world.add_job("bad", json!({}));
    world.settle();
    assert!(world.finish("p", failure(v1::FailureKind::UnsatisfiedWitness)));
    world.settle();
    world.expect("bad", ConditionStatus::False, reasons::UNSATISFIED_WITNESS);
    world.pass(600 * SECOND);
    assert_eq!(world.starts.len(), 1);

    world.add_job("faulty", json!({"backoffLimit": 2}));
    world.settle();
    let first = world.starts.last().unwrap().0.clone();
    for pod in ["p", "q", "p"] {
        assert!(world.finish(pod, failure(v1::FailureKind::DeviceFault)), "{pod}");
        world.settle();
        world.pass(61 * SECOND);
    }
    world.expect("faulty", ConditionStatus::False, reasons::DEVICE_FAULT);
    let pods: Vec<&String> = world.starts[1..].iter().map(|(pod, ..)| pod).collect();
    assert_eq!(pods.len(), 3);
    assert!(*pods[0] == first && *pods[1] != first, "{pods:?}");
}

#[test]
fn an_input_that_is_not_there_is_waited_for_ever_more_patiently() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.refusal = Some(Refusal::NoInput("there is no ConfigMap `x` with the input".into()));
    world.add_job("a", json!({}));
    for _ in 0..600 {
        world.pass(SECOND);
    }
    world.expect("a", ConditionStatus::Unknown, reasons::FETCHING_INPUT);
    assert!(world.submissions < 20, "{}", world.submissions);
    assert!(world.status_writes < 5, "{}", world.status_writes);
    world.refusal = None;
    world.pass(61 * SECOND);
    world.finish("p", proof());
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.jobs[&key("a")].status.partitions[0].attempts, 1, "nothing has failed");
}

#[test]
fn a_dead_pods_partitions_move_and_finished_ones_stay() {
    let mut world = World::new(4, &["p", "q"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    assert_eq!(world.starts.len(), 4);
    assert!(world.finish("p", proof()));
    world.settle();
    assert_eq!(world.jobs[&key("a")].status.progress.as_deref(), Some("1/4"), "kept at once");
    world.kill_pod("p");
    world.settle();
    while world.finish("q", proof()) {
        world.settle();
    }
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.starts.len(), 5, "only what the dead pod had not finished is proved again");
}

#[test]
fn an_operator_that_starts_adopts_what_is_under_way() {
    let mut world = World::new(2, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.add_job("b", json!({}));
    world.settle();
    assert!(world.finish("p", proof()));
    world.restart();
    // One ends while nobody listens.
    assert!(world.finish("p", proof()));
    world.settle();
    while world.finish("p", proof()) {
        world.settle();
    }
    world.settle();
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    world.expect("b", ConditionStatus::True, reasons::PROVED);
    let mut starts = world.started();
    starts.sort();
    assert_eq!(starts, ["a/0", "a/1", "b/0", "b/1"], "nothing is proved twice");
}

#[test]
fn a_new_leader_waits_for_an_engine_that_may_be_at_work() {
    let mut world = World::new(1, &["p", "q"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    let busy = world.starts[0].0.clone();
    world.nodes.get_mut(&busy).unwrap().alive = false;
    world.restart();
    world.settle();
    world.pass(29 * SECOND);
    assert_eq!(world.starts.len(), 1, "it may be at work still");
    world.pass(2 * SECOND);
    assert_eq!(world.starts.len(), 2, "it counts as lost");
    assert_ne!(world.starts[1].0, busy);
}

#[test]
fn suspended_jobs_wait_and_deleted_ones_are_cancelled() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.change_job("a", |job| job.spec.suspend = true);
    world.settle();
    assert_eq!(world.cancelled, 1);
    world.pass(2 * SECOND);
    world.expect("a", ConditionStatus::Unknown, reasons::SUSPENDED);
    world.change_job("a", |job| job.spec.suspend = false);
    world.settle();
    assert_eq!(world.starts.len(), 2);
    world.delete_job("a");
    world.settle();
    assert_eq!(world.cancelled, 2);
    assert!(!world.finish("p", proof()), "the engine works on nothing");
}

#[test]
fn a_deadline_ends_a_job_wherever_it_is() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    for name in ["a", "b", "c"] {
        world.add_job(name, json!({"activeDeadlineSeconds": 10}));
    }
    world.settle();
    world.pass(9 * SECOND);
    assert_eq!(world.outcome("c").unwrap().0, ConditionStatus::Unknown);
    world.pass(SECOND);
    for name in ["a", "b", "c"] {
        world.expect(name, ConditionStatus::False, reasons::DEADLINE_EXCEEDED);
    }
    assert_eq!(world.cancelled, 2);
}

#[test]
fn a_deadline_goes_on_over_operators() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({"activeDeadlineSeconds": 100}));
    world.pass(2 * SECOND);
    world.pass(2 * SECOND);
    assert!(world.jobs[&key("a")].status.start_time.is_some());
    world.pass(90 * SECOND);
    world.restart();
    // A process of its own, with a clock of its own.
    world.birth = world.now;
    world.settle();
    assert_eq!(world.outcome("a").unwrap().0, ConditionStatus::Unknown);
    world.pass(8 * SECOND);
    world.expect("a", ConditionStatus::False, reasons::DEADLINE_EXCEEDED);
}

#[test]
fn only_proofs_that_can_be_checked_again_are_taken_from_a_status() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.change_job("a", |job| {
        let partition = json!([{"index": 0, "state": "Succeeded", "attempts": 1, "proof": "AAAA"}]);
        job.status.partitions = serde_json::from_value(partition).unwrap();
    });
    let object = world.jobs[&key("a")].clone();
    let spec = |kind: serde_json::Value| serde_json::from_value::<proofmill_crds::circuit::CircuitSpec>(kind).unwrap();
    let mut job = Job::new(object.clone());
    job.set_circuit(&spec(json!({"groth16": {"zkey": {"url": "file:x"}}})));
    assert!(!job.is_proved(), "its public signals are not there");
    let mut job = Job::new(object);
    job.set_circuit(&world.circuits[&key("c")].spec.clone());
    assert!(job.is_proved());
}

#[test]
fn a_pool_is_looked_at_when_jobs_wait_for_it() {
    let mut world = World::new(1, &[]);
    let spec = json!({"template": {}, "autoscaling": {"minReplicas": 0, "maxReplicas": 2}});
    world.pools.get_mut(&key("default")).unwrap().spec = serde_json::from_value(spec).unwrap();
    world.restart();
    world.settle();
    world.pass(60 * SECOND);
    world.tended.clear();
    world.add_job("a", json!({}));
    world.settle();
    world.pass(2 * SECOND);
    let status = &world.pools[&key("default")].status;
    assert_eq!((status.waiting_partitions, status.desired_replicas), (Some(1), Some(1)));
}

#[test]
fn what_does_not_fit_waits_for_a_larger_pod_where_one_will_come() {
    let mut world = World::new(1, &["p"]);
    let spec = json!({"template": {}, "replicas": 1, "circuits": ["c"]});
    world.pools.get_mut(&key("default")).unwrap().spec = serde_json::from_value(spec).unwrap();
    let give_memory = |world: &mut World, bytes: u64| {
        let pod = world.pods.get_mut(&key("p")).unwrap();
        let annotations = pod.pod.metadata.annotations.get_or_insert_default();
        annotations.insert(pool::pod::MEMORY.to_owned(), bytes.to_string());
    };
    give_memory(&mut world, 4 << 30);
    world.circuits.get_mut(&key("c")).unwrap().status.key_bytes = Some(10 << 30);
    world.restart();
    world.add_job("large", json!({"backoffLimit": 0}));
    world.settle();
    for _ in 0..2 {
        assert!(world.finish("p", failure(v1::FailureKind::MemoryBudget)));
        world.settle();
        world.expect_active("large");
        world.pass(6 * SECOND);
    }
    give_memory(&mut world, 1 << 40);
    world.restart();
    world.settle();
    assert!(world.finish("p", failure(v1::FailureKind::MemoryBudget)));
    world.settle();
    world.expect("large", ConditionStatus::False, reasons::MEMORY_BUDGET);
}

#[test]
fn a_circuit_that_may_load_later_is_tried_again() {
    let mut world = World::new(1, &["p"]);
    let spec = json!({"template": {}, "replicas": 1, "circuits": ["c"]});
    world.pools.get_mut(&key("default")).unwrap().spec = serde_json::from_value(spec).unwrap();
    world.restart();
    world.settle();
    assert_eq!(world.preloads, 1);
    world.fail_key("p", v1::FailureKind::Unavailable);
    world.pass(2 * SECOND);
    assert_eq!(world.preloads, 1);
    world.pass(60 * SECOND);
    assert_eq!(world.preloads, 2);
    world.fail_key("p", v1::FailureKind::BadKey);
    world.pass(600 * SECOND);
    assert_eq!(world.preloads, 2, "it would end the same way");
}

#[test]
fn metrics_tell_of_pools_and_jobs_and_of_engines_that_are_gone() {
    let mut world = World::new(1, &["p"]);
    let lines = |world: &World| {
        crate::metrics::Metrics::default().text(&world.planner, &world.time(), &[("authority", 1_900_000_000)]).unwrap()
    };
    let told = |world: &World, line: &str| {
        let text = lines(world);
        assert!(text.lines().any(|known| known == line), "no line {line} in\n{text}");
    };
    let before = lines(&world);
    assert!(before.contains("proofmill_operator_leader 0") && !before.contains("proofmill_jobs"), "{before}");
    world.settle();
    for name in ["a", "b", "c"] {
        world.add_job(name, json!({}));
    }
    world.settle();
    assert!(world.finish("p", proof()));
    world.settle();
    assert!(world.finish("p", failure(v1::FailureKind::UnsatisfiedWitness)));
    world.pass(2 * SECOND);
    told(&world, "proofmill_operator_leader 1");
    told(&world, "proofmill_certificate_expiry_timestamp_seconds{certificate=\"authority\"} 1900000000");
    told(&world, "proofmill_jobs{pool_namespace=\"n\",pool=\"default\",state=\"Succeeded\"} 1");
    told(&world, "proofmill_jobs{pool_namespace=\"n\",pool=\"default\",state=\"Failed\"} 1");
    told(&world, "proofmill_jobs_ended_total{pool_namespace=\"n\",pool=\"default\",reason=\"UnsatisfiedWitness\"} 1");
    told(&world, "proofmill_schedule_latency_seconds_count{pool_namespace=\"n\",pool=\"default\"} 3");
    told(&world, "proofmill_pool_replicas{pool_namespace=\"n\",pool=\"default\",state=\"desired\"} 1");
    told(&world, "proofmill_pool_devices{pool_namespace=\"n\",pool=\"default\"} 1");
    told(&world, "proofmill_pool_backlog_device_seconds{pool_namespace=\"n\",pool=\"default\"} 0");
    world.work("p", 2);
    world.settle();
    world.kill_pod("p");
    world.settle();
    let busy =
        "proofmill_pool_device_seconds_total{pool_namespace=\"n\",pool=\"default\",state=\"busy\",cause=\"msm_g1\"} 2";
    told(&world, busy);
    told(&world, "proofmill_retries_total{pool_namespace=\"n\",pool=\"default\",reason=\"Lost\"} 1");
    world.pass(2 * SECOND);
    told(&world, "proofmill_pool_waiting_partitions{pool_namespace=\"n\",pool=\"default\"} 1");
    told(&world, "proofmill_jobs{pool_namespace=\"n\",pool=\"default\",state=\"WaitingForCapacity\"} 1");
}

#[test]
fn what_comes_to_an_engine_too_late_is_cancelled() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.delete_job("a");
    world.settle();
    let before = world.cancelled;
    let pod = world.pods[&key("p")].meta.uid.clone();
    let id = v1::PartitionId { job: "gone".into(), partition: 0, attempt: 0 };
    world.inputs.push_back(Input::Submitted { pod, id, refusal: None });
    world.settle();
    assert_eq!(world.cancelled, before + 1);
}

#[test]
fn a_circuit_that_is_deleted_ends_its_jobs() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.circuits.clear();
    world.inputs.push_back(Input::Circuits(Change::Deleted(key("c"))));
    world.settle();
    world.expect("a", ConditionStatus::False, reasons::CIRCUIT_DELETED);
    assert_eq!(world.cancelled, 1);
}

#[test]
fn a_change_of_an_ended_job_is_acknowledged_and_changes_nothing_else() {
    let mut world = World::new(1, &["a"]);
    world.add_job("j", json!({}));
    world.settle();
    assert!(world.finish("a", proof()));
    world.settle();
    let before = world.planner.jobs[&key("j")].object.status.clone();
    world.change_job("j", |job| {
        job.meta.generation += 1;
        job.spec.suspend = true;
    });
    world.settle();
    let job = &world.planner.jobs[&key("j")].object;
    assert_eq!(job.status.observed_generation, Some(job.meta.generation));
    assert_ne!(job.status.observed_generation, before.observed_generation);
    assert_eq!(job.status, ProofJobStatus { observed_generation: job.status.observed_generation, ..before });
}

#[test]
fn ended_jobs_are_deleted_in_time() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("default", json!({}));
    world.add_job("short", json!({"ttlSecondsAfterFinished": 5}));
    world.settle();
    while world.finish("p", proof()) {
        world.settle();
    }
    world.pass(6 * SECOND);
    assert_eq!(world.jobs.len(), 1);
    world.pass(3600 * SECOND);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_busy_api_server_is_asked_again() {
    let mut world = World::new(1, &["p"]);
    world.settle();
    world.add_job("a", json!({}));
    world.settle();
    world.conflicts = 3;
    world.finish("p", proof());
    world.settle();
    assert_eq!((world.status_writes, world.acked), (0, 0), "an engine keeps what is not written");
    for _ in 0..10 {
        world.pass(SECOND);
    }
    world.expect("a", ConditionStatus::True, reasons::PROVED);
    assert_eq!(world.acked, 1);
}

/// Pods die and come, operators start anew, the API server is busy, jobs are deleted: in the end every job that is left is
/// proved, and a partition was begun twice only if a pod that had it was lost.
#[test]
fn whatever_happens_nothing_is_lost_and_little_is_done_twice() {
    for seed in 0..200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(rng.random_range(1..5), &["p0", "p1"]);
        let mut pods = 2;
        let mut lost = 0;
        for step in 0..200 {
            match rng.random_range(0..20) {
                0..5 => {
                    let priority = ["Low", "Normal", "Critical"][step % 3];
                    world.add_job(&format!("j{step}"), json!({"priority": priority}));
                }
                5..14 => {
                    let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
                    if !live.is_empty() {
                        world.finish(&live[rng.random_range(0..live.len())], proof());
                    }
                }
                14 => {
                    let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
                    if live.len() > 1 {
                        lost += world.kill_pod(&live[rng.random_range(0..live.len())]);
                    }
                }
                15 => {
                    world.add_pod(&format!("p{pods}"));
                    pods += 1;
                }
                16 => world.restart(),
                17 => world.conflicts = rng.random_range(0..3),
                18 => {
                    let all: Vec<String> = world.jobs.keys().map(|job| job.name.clone()).collect();
                    if !all.is_empty() {
                        world.delete_job(&all[rng.random_range(0..all.len())]);
                    }
                }
                _ => world.now += Duration::from_millis(rng.random_range(0..3000)),
            }
            if rng.random_bool(0.7) {
                world.settle();
            }
        }
        world.conflicts = 0;
        for _ in 0..2000 {
            world.pass(Duration::from_millis(500));
            let live: Vec<String> = world.pods.keys().map(|pod| pod.name.clone()).collect();
            live.iter().for_each(|pod| while world.finish(pod, proof()) {});
        }
        for name in world.jobs.keys() {
            world.expect(&name.name, ConditionStatus::True, reasons::PROVED);
        }
        let held: usize = world.nodes.values().map(|node| node.partitions.len()).sum();
        assert_eq!(held, 0, "seed {seed}: engines keep nothing for ever");
        let mut starts = world.starts.clone();
        starts.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        let again = starts.windows(2).filter(|pair| (&pair[0].1, pair[0].2) == (&pair[1].1, pair[1].2)).count();
        assert!(again <= lost, "seed {seed}: {again} of {} begun again, pods had {lost}", starts.len());
    }
}

#[test]
fn priorities_compare_as_they_are_named() {
    assert!(
        Priority::Critical > Priority::High && Priority::High > Priority::Normal && Priority::Normal > Priority::Low
    );
}
