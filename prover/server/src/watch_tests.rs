use std::collections::BTreeMap;

use proofmill_engine::job::PartitionState;

use super::*;

fn event(n: u64, state: PartitionState, at: u64) -> PartitionEvent {
    let id = PartitionId { job: format!("j{n}"), partition: 0, attempt: 0 };
    PartitionEvent { id, state, at: Duration::from_micros(at), progress: None, outcome: None }
}

const STATES: [PartitionState; 4] =
    [PartitionState::Queued, PartitionState::Synthesis, PartitionState::Proving, PartitionState::Finishing];

#[test]
fn a_client_that_keeps_up_misses_nothing() {
    let mut pending = Pending::default();
    for at in 0..(FAITHFUL as u64 - 1) {
        assert_eq!(pending.push(event(at % 3, STATES[(at / 3 % 4) as usize], at)).unwrap(), 0);
    }
    for at in 0..(FAITHFUL as u64 - 1) {
        let slot = pending.pop().unwrap();
        assert_eq!((slot.event.at, slot.skipped), (Duration::from_micros(at), 0));
    }
    assert!(pending.pop().is_none() && pending.last.is_empty());
}

#[test]
fn progress_within_a_state_is_worth_its_newest_figure() {
    let mut pending = Pending::default();
    for done in 0..5 {
        let mut event = event(0, PartitionState::LoadingKey, done);
        event.progress = Some((done, 5));
        assert_eq!(pending.push(event).unwrap(), 0);
    }
    let slot = pending.pop().unwrap();
    assert_eq!((slot.event.progress, slot.skipped, pending.is_empty()), (Some((4, 5)), 0, true));
}

/// Random pushes and pops against a model: the last event of every partition always arrives, in order per partition, and
/// what was skipped is counted.
#[test]
fn a_slow_client_gets_the_newest_state_of_each() {
    use rand::{Rng, SeedableRng};
    for seed in 0..20 {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let partitions = random.random_range(1..5000);
        let mut pending = Pending::default();
        let mut newest = BTreeMap::new();
        let mut got: BTreeMap<PartitionId, (Duration, u64)> = BTreeMap::new();
        let mut pushed: BTreeMap<PartitionId, u64> = BTreeMap::new();
        let mut take = |pending: &mut Pending| {
            if let Some(slot) = pending.pop() {
                let seen = got.entry(slot.event.id.clone()).or_default();
                assert!(slot.event.at >= seen.0, "seed {seed}: went back");
                *seen = (slot.event.at, seen.1 + 1 + slot.skipped);
            }
        };
        for at in 0..30_000 {
            let mut event = event(random.random_range(0..partitions), STATES[at % 4], at as u64);
            // Never the same state twice in a row, so that every event counts.
            let count = pushed.entry(event.id.clone()).or_default();
            event.state = STATES[(*count % 4) as usize];
            *count += 1;
            newest.insert(event.id.clone(), event.at);
            pending.push(event).unwrap();
            if random.random_range(0..4) == 0 {
                take(&mut pending);
            }
        }
        assert!(pending.queue.len() <= FAITHFUL + partitions as usize, "seed {seed}");
        while !pending.is_empty() {
            take(&mut pending);
        }
        for (id, at) in newest {
            assert_eq!(got[&id], (at, pushed[&id]), "seed {seed}: {id}");
        }
        assert!(pending.last.is_empty());
    }
}

#[test]
fn one_that_falls_too_far_behind_is_cut_off() {
    let mut pending = Pending::default();
    for n in 0..MOST as u64 {
        pending.push(event(n, PartitionState::Queued, n)).unwrap();
    }
    assert!(pending.push(event(7, PartitionState::Proving, 0)).is_ok(), "known ones are replaced");
    assert!(matches!(pending.push(event(u64::MAX, PartitionState::Queued, 0)), Err(Lagged)));
}

#[tokio::test]
async fn a_stalled_client_is_told_and_let_go() {
    let stats = Arc::new(Stats::default());
    let (_close, closing) = watch::channel(false);
    let (sender, events) = mpsc::unbounded_channel();
    let stall = Duration::from_millis(300);
    let terms = Terms { boot_id: "b".into(), stats: Arc::clone(&stats), closing, stall };
    let mut stream = stream(None, events, terms);
    for n in 0..100 {
        sender.send(event(n, PartitionState::Queued, n)).unwrap();
    }
    tokio::time::sleep(stall / 2).await;
    assert_eq!((stats.watches.get(), stats.lagged_watches.get()), (1, 0));
    tokio::time::sleep(stall).await;
    assert!(sender.is_closed(), "the engine no longer sends here");
    assert_eq!(stats.lagged_watches.get(), 1);
    let mut last = None;
    while let Some(message) = tokio_stream::StreamExt::next(&mut stream).await {
        last = Some(message);
    }
    assert_eq!(last.unwrap().unwrap_err().code(), tonic::Code::Aborted);
    assert_eq!(stats.watches.get(), 0);
}
