//! Pods that go: drained, replaced, protected until then.

use super::*;

#[test]
fn scale_down_takes_what_is_no_use_first_then_the_coldest() {
    let mut case = Case::replicas(5);
    case.busy(0, 2);
    case.working(1).1.resident = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    case.working(2).1.resident = BTreeSet::from(["a".to_owned()]);
    case.pod(3, json!({"status": {"phase": "Running"}}));
    case.pod(4, json!({"spec": {"nodeName": null}, "status": {"phase": "Pending"}}));
    let victims = |replicas: i32| {
        let mut case = Case { pods: case.pods.clone(), ..Case::replicas(replicas) };
        case.pool.status.desired_replicas = Some(5);
        let said = words(&case.plan());
        said.into_iter().filter(|word| !word.contains("do-not-disrupt")).collect::<Vec<_>>()
    };
    let why = "there are more pods than desired";
    assert_eq!(victims(4), [format!("delete default-4: {why}")]);
    assert_eq!(victims(3), [format!("delete default-4: {why}"), format!("delete default-3: {why}")]);
    assert_eq!(victims(2)[2..], ["annotate default-2 +drain +drain-since"]);
    assert_eq!(
        victims(1)[2..],
        ["annotate default-1 +drain +drain-since", "annotate default-2 +drain +drain-since"],
        "the busy one is the last"
    );
}

#[test]
fn a_drained_pod_goes_when_it_is_empty() {
    let mut case = Case::replicas(2);
    case.busy(0, 1);
    case.busy(1, 3);
    case.step();
    case.pool.spec.replicas = Some(0);
    let said = case.step();
    assert!(said.iter().all(|word| word.contains("+drain ")), "{said:?}");
    case.now += 10;
    assert_eq!(case.step(), ["drain default-0 590", "drain default-1 590"]);
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + GRACE)));
    assert_ready(&case, ConditionStatus::True, reasons::SCALING_DOWN, "2 pods finish");
    case.pods[0].1.assigned = 0;
    assert_eq!(case.step(), ["delete default-0: there are more pods than desired"]);
    // The other never ends: its grace period does.
    case.now = NOW + GRACE;
    assert_eq!(case.step(), ["delete default-1: there are more pods than desired"]);
    assert_ready(&case, ConditionStatus::True, reasons::SCALED_TO_ZERO, "0 of 0");
}

#[test]
fn a_new_leader_that_has_not_reached_engines_deletes_no_ready_pod() {
    let mut case = Case::replicas(1);
    case.working(0).1 = EngineView::default();
    case.working(1).1 = EngineView::default();
    assert_eq!(words(&case.plan()), ["annotate default-1 +drain +drain-since"]);
    case.step();
    assert!(words(&case.plan()).is_empty(), "it waits for the engine's word, or for the end of the grace period");
}

#[test]
fn scaling_up_again_does_not_wait_for_those_that_go() {
    let mut case = Case::replicas(1);
    case.busy(0, 1);
    case.busy(1, 1);
    case.step();
    case.pool.spec.replicas = Some(2);
    let said = case.step();
    assert!(said.contains(&"create default-2".to_owned()), "{said:?}");
}

#[test]
fn a_changed_template_replaces_pods_one_by_one() {
    let mut case = Case::replicas(3);
    case.step();
    case.step();
    case.pods[0].1.assigned = 1;
    case.pods[0].1.idle_since = None;
    case.step();
    case.change_template();
    let mut seen = Vec::new();
    for _ in 0..20 {
        case.now += 5;
        if case.now > NOW + 40 {
            case.pods.iter_mut().for_each(|pod| (pod.1.assigned, pod.1.idle_since) = (0, Some(NOW)));
        }
        let staying = case.pods.iter().filter(|(pod, ..)| !crate::pool::is_draining(pod)).count();
        assert!(staying >= 2, "never two at once: {seen:?}");
        assert!(case.pods.len() <= 3, "never one too many: {seen:?}");
        let said = case.step();
        seen.extend(said.into_iter().filter(|word| !word.contains("disrupt")));
    }
    let deleted: Vec<_> = seen.iter().filter(|word| word.starts_with("delete")).collect();
    assert_eq!(deleted.len(), 3, "{seen:?}");
    assert!(deleted[2].starts_with("delete default-0"), "the busy one was the last: {seen:?}");
    let hash = case.hash();
    assert!(case.pods.iter().all(|(pod, ..)| pod.pod.metadata.annotations.as_ref().unwrap()[TEMPLATE_HASH] == hash));
    assert_eq!(case.plan().status, None);
    assert_eq!(case.pool.status.updated_replicas, Some(3));
}

#[test]
fn a_new_template_that_does_not_work_stops_the_replacement() {
    let mut case = Case::replicas(3);
    case.working(0);
    case.working(1);
    case.change_template();
    case.pod(2, waiting("CrashLoopBackOff", "back-off"));
    let plan = case.plan();
    assert!(words(&plan).is_empty(), "{:?}", words(&plan));
    let words = "default-2: 5 starts, last exit code 5 (Error): prover: no memory";
    assert_ready(&case, ConditionStatus::False, reasons::CRASH_LOOP, words);
    let mut sidecar = waiting("CrashLoopBackOff", "back-off");
    sidecar["status"]["containerStatuses"][0]["name"] = json!("mesh");
    case.pods.pop();
    case.pod(2, sidecar);
    assert_ready(&case, ConditionStatus::False, reasons::CRASH_LOOP, "default-2: container mesh: 5 starts");
}

#[test]
fn outdated_pods_that_are_no_use_are_replaced_at_once() {
    let mut case = Case::replicas(2);
    case.pod(0, waiting("ImagePullBackOff", "no such image"));
    case.pod(1, waiting("ImagePullBackOff", "no such image"));
    assert_ready(
        &case,
        ConditionStatus::False,
        reasons::IMAGE_PULL,
        "2 pods, such as default-0: ImagePullBackOff: no such image",
    );
    case.change_template();
    let why = "the template has changed";
    assert_eq!(
        words(&case.plan()),
        [
            format!("delete default-0: {why}"),
            format!("delete default-1: {why}"),
            "create default-2".to_owned(),
            "create default-3".to_owned(),
        ]
    );
}

#[test]
fn a_pod_that_makes_room_holds_its_place_until_it_is_gone() {
    let mut case = Case::replicas(1);
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:30Z"}});
    case.pod(0, going.clone());
    assert_eq!(words(&case.plan()), ["create default-1"], "a user deleted it");
    case.annotate(0, &[(DRAIN, "Replace"), (DRAIN_SINCE, "2027-01-15T07:55:00Z")]);
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + 90)));
    case.pods.clear();
    case.pod(0, going);
    case.annotate(0, &[(DRAIN, "Node"), (DRAIN_SINCE, "2027-01-15T07:55:00Z")]);
    assert_eq!(words(&case.plan()), ["create default-1"], "that node takes no other");
}

#[test]
fn pods_on_cordoned_nodes_are_drained_lose_their_mark_and_are_replaced() {
    let mut case = Case::replicas(2);
    case.busy(0, 1);
    case.busy(1, 1);
    case.step();
    assert!(case.pods[0].0.pod.metadata.annotations.as_ref().unwrap().contains_key(PROTECTED_SINCE));
    case.pods[0].2.leaving = true;
    let said = case.step();
    let marks = "-safe-to-evict -do-not-disrupt +drain +drain-since -protected-since";
    assert_eq!(said, [format!("annotate default-0 {marks}"), "create default-2".to_owned()]);
}

#[test]
fn a_user_drains_by_annotation_or_at_the_engine() {
    let mut case = Case::replicas(2);
    case.working(0);
    case.annotate(0, &[(DRAIN, "true")]);
    case.working(1).1.draining = true;
    assert_eq!(case.step(), ["annotate default-0 +drain-since", "annotate default-1 +drain +drain-since"]);
    let said = case.step();
    assert_eq!(said[..2], ["drain default-0 600", "delete default-1: the annotation proofmill.dev/drain was set"]);
}

#[test]
fn busy_pods_are_protected_and_for_a_moment_after() {
    let mut case = Case::replicas(1);
    case.busy(0, 1);
    assert_eq!(case.step(), ["annotate default-0 +safe-to-evict +do-not-disrupt +protected-since"]);
    assert!(case.step().is_empty());
    (case.pods[0].1.assigned, case.pods[0].1.idle_since) = (0, Some(NOW));
    let plan = case.plan();
    assert_eq!((words(&plan), plan.wake), (vec![], Some(NOW + PROTECTED_AFTER)));
    case.now += PROTECTED_AFTER;
    assert_eq!(case.step(), ["annotate default-0 -safe-to-evict -do-not-disrupt -protected-since"]);

    case.annotate(0, &PROTECTION);
    assert!(words(&case.plan()).is_empty(), "a user's own marks stay");
}

#[test]
fn a_pod_held_for_too_long_is_drained_once() {
    let mut case = Case::new(json!({"replicas": 2, "maxHoldSeconds": 3600, "disruptionProtection": "Always"}));
    case.busy(0, 1);
    case.busy(1, 1);
    case.step();
    case.now += 3599;
    assert!(case.step().is_empty());
    assert_eq!(case.plan().wake, Some(NOW + 3600));
    case.now += 1;
    let said = case.step();
    let marks = "-safe-to-evict -do-not-disrupt +drain +drain-since -protected-since";
    assert_eq!(said, [format!("annotate default-0 {marks}")], "one at a time");
}
