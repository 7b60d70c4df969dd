use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

/// A report of an engine with one device: busy and idle seconds, and partitions that succeeded.
fn report(boot: &str, busy: u64, idle: u64, proved: u64) -> Box<v1::EngineStatus> {
    let entry = |state: &str, cause: &str, seconds: u64| v1::LedgerEntry {
        state: state.into(),
        cause: cause.into(),
        duration_us: seconds * 1_000_000,
    };
    let ledger = vec![entry("busy", "msm_g1", busy), entry("idle", "no_work", idle)];
    let mut buckets = vec![0; PHASE_BUCKETS];
    buckets[3] = proved;
    Box::new(v1::EngineStatus {
        boot_id: boot.into(),
        devices: vec![v1::DeviceStatus { id: "gpu".into(), ledger, ..Default::default() }],
        outcomes: vec![v1::OutcomeStatus { circuit: "c".into(), outcome: "succeeded".into(), count: proved }],
        phases: vec![v1::PhaseStatus {
            circuit: "c".into(),
            phase: "msm_g1".into(),
            buckets,
            sum_us: busy * 1_000_000,
        }],
        ..Default::default()
    })
}

fn speaker(pool: &Key, age: Option<Duration>, backlog: bool) -> Speaker<'_> {
    Speaker { pod: "p", pool, age, backlog }
}

/// Busy and idle seconds, seconds idle with a backlog, proofs.
fn totals(account: &Account, pool: &Key) -> (u64, u64, u64, u64) {
    let Some(pool) = account.pools().get(pool) else { return (0, 0, 0, 0) };
    let of = |state, cause| pool.ledger.get(&(state, cause)).map_or(0, Duration::as_secs);
    let proved = pool.partitions.get(&("c".to_owned(), "succeeded")).copied().unwrap_or(0);
    assert_eq!(pool.phases.get(&("c".to_owned(), "msm_g1")).map_or(0, |counts| counts.buckets[3]), proved);
    assert_eq!(
        pool.phases.get(&("c".to_owned(), "msm_g1")).map_or(0, |counts| counts.sum.as_secs()),
        of("busy", "msm_g1")
    );
    (of("busy", "msm_g1"), of("idle", "no_work"), pool.idle_with_backlog.as_secs(), proved)
}

#[test]
fn an_engine_of_this_leaders_time_counts_from_its_start() {
    let (mut account, pool) = (Account::default(), key("pool"));
    account.hear(speaker(&pool, Some(20 * SECOND), true), report("a", 8, 10, 2), 100 * SECOND);
    assert_eq!(totals(&account, &pool), (8, 10, 0, 2), "before its first report nobody knows of a backlog");
    account.hear(speaker(&pool, Some(30 * SECOND), true), report("a", 12, 16, 3), 110 * SECOND);
    assert_eq!(totals(&account, &pool), (12, 16, 6, 3), "with a backlog since");
    // The same again, and the pod is gone.
    account.hear(speaker(&pool, None, true), report("a", 12, 16, 3), 111 * SECOND);
    account.forget_engine("p");
    assert_eq!(totals(&account, &pool), (12, 16, 6, 3), "what it did stays");
    account.forget_pool(&pool);
    assert!(account.pools().is_empty());
}

#[test]
fn an_adopted_engine_counts_from_its_first_report_on() {
    let (mut account, pool) = (Account::default(), key("pool"));
    account.hear(speaker(&pool, None, false), report("a", 1000, 1000, 50), SECOND);
    assert_eq!(totals(&account, &pool), (0, 0, 0, 0));
    account.hear(speaker(&pool, None, false), report("a", 1001, 1000, 51), 2 * SECOND);
    assert_eq!(totals(&account, &pool), (1, 0, 0, 1));
}

#[test]
fn a_process_that_was_started_anew_adds_to_what_was() {
    let (mut account, pool) = (Account::default(), key("pool"));
    account.hear(speaker(&pool, Some(20 * SECOND), false), report("a", 8, 10, 2), 100 * SECOND);
    account.hear(speaker(&pool, Some(29 * SECOND), false), report("b", 3, 4, 1), 109 * SECOND);
    assert_eq!(totals(&account, &pool), (11, 14, 0, 3));
}

#[test]
fn what_cannot_be_is_not_believed() {
    let (mut account, pool) = (Account::default(), key("pool"));
    account.hear(speaker(&pool, Some(SECOND), false), report("a", 100, 0, 5), SECOND);
    assert_eq!((totals(&account, &pool), account.disbelieved()), ((0, 0, 0, 0), 1), "older than its pod");
    account.hear(speaker(&pool, Some(SECOND), false), report("a", 101, 0, 6), 2 * SECOND);
    assert_eq!(totals(&account, &pool), (1, 0, 0, 1), "from there on it may be right");
    account.hear(speaker(&pool, Some(SECOND), false), report("a", u64::MAX / 2_000_000, 0, 6), 3 * SECOND);
    account.hear(speaker(&pool, Some(SECOND), false), report("a", 5, 0, 6), 4 * SECOND);
    assert_eq!((totals(&account, &pool).0, account.disbelieved()), (1, 2), "nor do counters fall");
}

#[test]
fn words_that_nobody_knows_make_no_series_each() {
    let (mut account, pool) = (Account::default(), key("pool"));
    let mut status = report("a", 1, 1, 1);
    for i in 0..100 {
        let entry = v1::LedgerEntry { state: "idle".into(), cause: format!("cause-{i}"), duration_us: 1 };
        status.devices[0].ledger.push(entry);
        status.outcomes.push(v1::OutcomeStatus { circuit: format!("c-{i}"), outcome: format!("o-{i}"), count: 1 });
    }
    account.hear(speaker(&pool, Some(10 * SECOND), false), status, 10 * SECOND);
    let pool = &account.pools()[&pool];
    assert_eq!(pool.ledger[&("idle", OTHER)], Duration::from_micros(100));
    assert_eq!(pool.partitions.len(), 1 + 19 + 1, "twenty names, and the rest");
    assert_eq!(pool.partitions[&(OTHER.to_owned(), OTHER)], 81);
}

#[test]
fn latencies_fall_into_their_buckets() {
    let mut latency = Latency::default();
    for milliseconds in [0, 1, 2, 4_000_000] {
        latency.observe(&LATENCY_BOUNDS, Duration::from_millis(milliseconds));
    }
    assert_eq!((latency.buckets[0], latency.buckets[1], latency.buckets[12]), (2, 1, 1));
}
