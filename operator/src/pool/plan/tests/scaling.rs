//! How many pods there should be.

use super::*;

fn autoscaled() -> Case {
    Case::new(json!({"autoscaling": {"minReplicas": 0, "maxReplicas": 4, "targetQueueSeconds": 60,
        "scaleUpStabilizationSeconds": 0, "scaleDownStabilizationSeconds": 300}}))
}

fn demand(seconds: u64) -> Option<Demand> {
    Some(Demand { waiting: u32::from(seconds > 0), queue_milliseconds: seconds * 1000, busy_permille: None })
}

#[test]
fn autoscaling_follows_the_backlog_up_at_once() {
    let mut case = autoscaled();
    case.demand = demand(0);
    assert_eq!((case.plan().desired, words(&case.plan())), (Some(0), vec![]));
    for (seconds, pods) in [(1, 1), (60, 1), (61, 2), (240, 4), (9_999, 4)] {
        case.demand = demand(seconds);
        assert_eq!(case.plan().desired, Some(pods), "{seconds} s");
    }
    assert_limited(&case, reasons::MAX_REPLICAS);
    case.demand = Some(Demand { waiting: 3, ..Demand::default() });
    assert_eq!(case.plan().desired, Some(1), "work of unknown length, from zero");
}

#[test]
fn pods_with_more_devices_clear_more() {
    let mut case = autoscaled();
    case.working(0).1.devices = 4;
    case.demand = demand(480);
    assert_eq!(case.plan().desired, Some(2));
}

#[test]
fn autoscaling_down_waits_for_its_window_and_its_peak() {
    let mut case = autoscaled();
    case.demand = demand(240);
    case.step();
    assert_eq!(case.pods.len(), 4);
    case.demand = demand(0);
    case.step();
    assert_eq!(case.pool.status.desired_replicas, Some(4));
    assert_limited(&case, reasons::STABILIZING);
    assert_eq!(case.plan().wake, Some(NOW + 300));
    case.now += 100;
    case.demand = demand(100);
    case.step();
    case.now += 100;
    case.demand = demand(0);
    case.step();
    case.now += 100;
    assert_eq!(case.plan().desired, Some(2), "two would have been needed in between");
    // A peak starts the window anew.
    case.demand = demand(240);
    case.step();
    case.demand = demand(0);
    case.now += 299;
    case.step();
    case.now += 299;
    assert_eq!(case.plan().desired, Some(4));
    case.now += 1;
    assert_eq!(case.plan().desired, Some(0));
}

#[test]
fn without_evidence_the_number_stays() {
    let mut case = autoscaled();
    case.demand = demand(240);
    case.step();
    case.demand = None;
    case.now += 10_000;
    let plan = case.plan();
    assert_eq!((plan.desired, words(&plan)), (Some(4), vec![]));
    assert_limited(&case, reasons::EVIDENCE_MISSING);
}

#[test]
fn busy_pods_are_not_scaled_away() {
    let mut case = autoscaled();
    case.demand = demand(240);
    case.step();
    case.demand = demand(0);
    for index in [1, 2] {
        case.pods[index].1.assigned = 1;
    }
    case.step();
    case.now += 300;
    assert_eq!(case.plan().desired, Some(2));
    let drained: Vec<_> = words(&case.plan()).into_iter().filter(|word| word.contains("+drain ")).collect();
    assert_eq!(drained.len(), 2);
    assert!(drained.iter().all(|word| word.contains("default-0") || word.contains("default-3")), "{drained:?}");
}
