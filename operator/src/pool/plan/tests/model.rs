//! A pool in a cluster where everything happens at random, against what must hold always, and what must hold in the end.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::pool::is_draining;

const SEEDS: u64 = 60;
const TURNS: usize = 120;

/// One plan and what the cluster makes of it. Pods that are deleted go at once or, if they are lost, not at all.
fn turn(case: &mut Case, random: &mut ChaCha8Rng, history: &mut Vec<String>) {
    let plan = case.plan();
    history.push(format!("{} {:?}", case.now - NOW, words(&plan)));
    let desired = usize::try_from(plan.desired.unwrap()).unwrap();
    for action in &plan.actions {
        match action {
            Action::Delete { pod, cause: DeleteCause::Drained(_) } => {
                let index = find(case, &pod.key.name);
                let (known, engine, _) = &case.pods[index];
                let since = known.pod.metadata.annotations.as_ref().unwrap().get(DRAIN_SINCE);
                let since = since.map(|text| text.parse::<k8s_openapi::jiff::Timestamp>().unwrap().as_second());
                let out_of_time = since.is_some_and(|since| case.now >= since + GRACE);
                assert!(engine.assigned == 0 || out_of_time, "work was lost with {}: {history:#?}", pod.key.name);
                case.pods.remove(index);
            }
            Action::Delete { pod, .. } => {
                let index = find(case, &pod.key.name);
                case.pods.remove(index);
            }
            Action::Create { pod } => {
                let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(case.pods.iter().all(|(known, ..)| known.meta.key.name != name), "{name} twice: {history:#?}");
                let staying = case.pods.iter().filter(|pod| stays(pod, case.now)).count();
                assert!(staying < desired, "{name} is one too many: {history:#?}");
                case.pod(name.rsplit('-').next().unwrap().parse().unwrap(), json!({"status": {"phase": "Pending"}}));
            }
            Action::Annotate { pod, annotations } => {
                let index = find(case, &pod.key.name);
                let known = case.pods[index].0.pod.metadata.annotations.get_or_insert_default();
                for (key, value) in annotations {
                    match value {
                        Some(value) => known.insert((*key).to_owned(), value.clone()),
                        None => known.remove(*key),
                    };
                }
            }
            Action::Drain { pod, .. } => {
                let index = find(case, &pod.name);
                case.pods[index].1.draining = true;
            }
            Action::Check { .. } => case.checked = Some(Checked { hash: case.hash(), refused: None }),
        }
    }
    if let Some(write) = plan.status {
        case.pool.status = write.status;
    }
    // A leader that is lost forgets.
    case.memory = if random.random_bool(0.02) { Memory::default() } else { plan.memory };
}

fn find(case: &Case, name: &str) -> usize {
    case.pods.iter().position(|(pod, ..)| pod.meta.key.name == name).unwrap()
}

fn stays((pod, _, node): &(PodObject, EngineView, NodeView), now: i64) -> bool {
    let ended = pod.pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"));
    let lost = node.lost_since.is_some_and(|since| now >= since + LOST_AFTER);
    !ended && !lost && !is_draining(pod)
}

/// Pods start, work and finish as time goes by.
fn live(case: &mut Case, random: &mut ChaCha8Rng, settle: bool) {
    let now = case.now;
    for (pod, engine, node) in &mut case.pods {
        let running = pod.pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
        let pending = pod.pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Pending"));
        if node.lost_since.is_some() {
            continue;
        }
        if pending && (settle || random.random_bool(0.5)) {
            pod.pod.status.as_mut().unwrap().phase = Some("Running".to_owned());
        } else if running && !pod.ready && (settle || random.random_bool(0.5)) {
            pod.ready = true;
            (engine.reachable, engine.ready, engine.devices, engine.idle_since) = (true, true, 1, Some(now));
        } else if engine.assigned > 0 && (settle || random.random_bool(0.3)) {
            engine.assigned -= 1;
            engine.idle_since = (engine.assigned == 0).then_some(now);
        } else if engine.reachable && !is_draining(pod) && !engine.draining && !settle && random.random_bool(0.3) {
            engine.assigned += 1;
            engine.idle_since = None;
        }
    }
}

fn mishap(case: &mut Case, random: &mut ChaCha8Rng) {
    let now = case.now;
    let threads = random.random_range(1..100);
    let event = random.random_range(0..12);
    let some = (!case.pods.is_empty()).then(|| random.random_range(0..case.pods.len()));
    match (event, some) {
        (0, _) => case.pool.spec.replicas = Some(random.random_range(0..6)),
        (1, _) => case.pool.spec.template.engine.threads = Some(threads),
        (2, Some(index)) => case.pods[index].2.leaving = true,
        (3, Some(index)) => case.pods[index].2.lost_since = Some(now),
        (4, Some(index)) => {
            let (pod, engine, _) = &mut case.pods[index];
            let failed = serde_json::from_value(json!({"phase": "Failed", "reason": "Evicted"})).unwrap();
            (pod.pod.status, pod.ready, *engine) = (Some(failed), false, EngineView::default());
            pod.meta.created = now;
        }
        (5, Some(index)) => case.annotate(index, &[(DRAIN, "true")]),
        (6, Some(index)) => drop(case.pods.remove(index)),
        (7, _) => case.refusal = Some(Refusal { message: "quota".to_owned(), at: now, times: 1 }),
        (8, _) => case.refusal = None,
        _ => {}
    }
}

#[test]
fn whatever_happens_no_work_is_lost_and_the_pool_comes_to_rest() {
    for seed in 0..SEEDS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut case = Case::new(json!({"replicas": 3, "maxHoldSeconds": 600}));
        let mut history = vec![format!("seed {seed}")];
        for _ in 0..TURNS {
            case.now += random.random_range(1..60);
            mishap(&mut case, &mut random);
            live(&mut case, &mut random, false);
            turn(&mut case, &mut random, &mut history);
        }
        // Lost nodes are removed, and their pods with them; nothing happens any more.
        case.pods.retain(|(_, _, node)| node.lost_since.is_none());
        case.refusal = None;
        for _ in 0..400 {
            case.now += 20;
            live(&mut case, &mut random, true);
            turn(&mut case, &mut random, &mut history);
        }
        let plan = case.plan();
        assert_eq!((words(&plan), plan.status, plan.wake), (vec![], None, None), "{history:#?}");
        let (desired, hash) = (usize::try_from(plan.desired.unwrap()).unwrap(), case.hash());
        assert_eq!(case.pods.len(), desired, "{history:#?}");
        let current = |pod: &PodObject| pod.pod.metadata.annotations.as_ref().unwrap()[TEMPLATE_HASH] == hash;
        assert!(case.pods.iter().all(|(pod, ..)| pod.ready && current(pod) && !is_draining(pod)), "{history:#?}");
        let ready = case.condition(types::READY);
        assert_eq!(ready.status, ConditionStatus::True, "{}", ready.message);
    }
}
