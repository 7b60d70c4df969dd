//! The exposition, read strictly, and its reference.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proofmill_engine::job::Priority;
use proofmill_engine::snapshot::{DeviceSnapshot, Histogram, Snapshot};
use proofmill_metrics::Kind;
use proofmill_server::metrics::catalogue::{CATALOGUE, STAGES, markdown};
use proofmill_server::metrics::{Exposition, NAMED_CIRCUITS};

const PHASES: [&str; 13] = [
    "fetch",
    "queue",
    "budget_wait",
    "synthesis",
    "device_queue",
    "lease_wait",
    "host_prep",
    "transfer",
    "ntt",
    "msm_g1",
    "msm_g2",
    "finish",
    "verify",
];
const OUTCOMES: [&str; 13] = [
    "succeeded",
    "bad_input",
    "bad_key",
    "insecure_key",
    "unavailable",
    "unsatisfied_witness",
    "device_fault",
    "verification_failed",
    "memory_budget",
    "deadline_exceeded",
    "cancelled",
    "draining",
    "internal",
];
const BUSY: [&str; 4] = ["msm_g2", "msm_g1", "ntt", "other_kernel"];
const IDLE: [&str; 13] = [
    "fault",
    "draining",
    "transfer",
    "lease_held",
    "host_prep",
    "finish_backpressure",
    "pickup",
    "key_load",
    "memory_budget",
    "synthesis",
    "input",
    "no_work",
    "unattributed",
];

/// One series: its family's name, the sample's own name, labels, value.
type Series = (String, BTreeMap<String, String>, f64);

struct Page {
    types: BTreeMap<String, String>,
    series: Vec<Series>,
}

/// Reads the text format and panics at anything that the specification does not allow.
fn parse(text: &str) -> Page {
    assert!(text.ends_with('\n'));
    let (mut types, mut helps, mut series) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut seen = BTreeSet::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && helps.insert(name.to_owned()), "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, family, "TYPE follows HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} twice");
        } else {
            let (name, labels, value) = parse_sample(line);
            let histogram = types[&family] == "histogram";
            let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} is not of {family}"));
            assert!(
                if histogram { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() },
                "{line}"
            );
            assert!(seen.insert((name.clone(), labels.clone())), "{line} twice");
            series.push((name, labels, value));
        }
    }
    Page { types, series }
}

fn parse_sample(line: &str) -> Series {
    let (head, value) = line.rsplit_once(' ').unwrap();
    let value: f64 = value.parse().unwrap();
    let Some((name, rest)) = head.split_once('{') else { return (head.to_owned(), BTreeMap::new(), value) };
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}').unwrap();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap();
        assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{line}");
        let mut text = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("{line}: escaped {c}"),
                }),
                (_, c) => text.push(c),
            }
        };
        assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name.to_owned(), labels, value)
}

/// An engine with everything that it can have.
fn rich(devices: usize, circuits: usize) -> Snapshot {
    let mut snapshot = Snapshot { boot_id: "b".into(), at: Duration::from_secs(100), ..Default::default() };
    for n in 0..devices {
        let states = BUSY.iter().map(|c| ("busy", *c)).chain(IDLE.iter().map(|c| ("idle", *c)));
        snapshot.devices.push(DeviceSnapshot {
            id: format!("GPU-{n}"),
            state: "idle",
            cause: "no_work",
            ledger: states.zip(1..).map(|(state, ms)| (state, Duration::from_millis(ms))).collect(),
            watermark: Duration::from_secs(99),
            cpu: Duration::from_millis(2500),
            verification_failures: 3,
            quarantined: n == 1,
            ready: true,
        });
    }
    for stage in STAGES {
        for priority in [Priority::Critical, Priority::High, Priority::Normal, Priority::Low] {
            snapshot.queues.insert((stage, priority), 5);
        }
    }
    for (r#use, bytes) in [("keys", 1), ("working_sets", 2), ("inputs", 3), ("free", 4), ("budget", 10)] {
        snapshot.memory.insert(r#use, bytes);
    }
    for n in 0..circuits {
        let name = format!("circuit-{n:03}");
        for phase in PHASES {
            let mut histogram = Histogram { sum: Duration::from_millis(1500), ..Default::default() };
            (histogram.buckets[0], histogram.buckets[3], histogram.buckets[16]) = (2, 1, 1);
            snapshot.phases.insert((name.clone(), phase), histogram);
        }
        for outcome in OUTCOMES {
            snapshot.outcomes.insert((name.clone(), outcome), 7);
        }
        snapshot.keys.insert(name, 1000);
    }
    snapshot
}

fn exposition() -> Exposition {
    Exposition::new("1.2.3".into(), vec![("memory_budget", "10".into()), ("tricky", "a\"b\\c\nd".into())])
}

fn value(page: &Page, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let found = page.series.iter().find(|series| series.0 == name && series.1 == labels);
    found.unwrap_or_else(|| panic!("no {name} {labels:?}")).2
}

#[test]
fn names_types_labels_and_values_are_as_documented() {
    let page = parse(&exposition().render(&rich(2, 1), Some(123)).unwrap());
    for definition in CATALOGUE.iter().filter(|d| !d.name.starts_with("proofmill_server_")) {
        let kind = format!("{:?}", definition.kind).to_lowercase();
        assert_eq!(page.types.get(definition.name), Some(&kind), "{}", definition.name);
        assert_eq!(definition.kind == Kind::Counter, definition.name.ends_with("_total"), "{}", definition.name);
        for (name, labels, _) in page.series.iter().filter(|series| series.0.starts_with(definition.name)) {
            let mut expected: BTreeSet<_> = definition.labels.iter().copied().collect();
            if name.ends_with("_bucket") {
                expected.insert("le");
            }
            if !definition.name.ends_with("_info") {
                assert_eq!(labels.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{name}");
            }
        }
    }
    assert!(page.types.keys().all(|name| CATALOGUE.iter().any(|definition| definition.name == name)));

    assert_eq!(
        value(&page, "proofmill_device_seconds_total", &[("device", "GPU-0"), ("state", "busy"), ("cause", "ntt")]),
        0.003
    );
    assert_eq!(
        value(&page, "proofmill_device_seconds_total", &[("device", "GPU-0"), ("state", "idle"), ("cause", "fault")]),
        0.005
    );
    assert_eq!(value(&page, "proofmill_device_cpu_seconds_total", &[("device", "GPU-1")]), 2.5);
    assert_eq!(value(&page, "proofmill_device_ledger_lag_seconds", &[("device", "GPU-1")]), 1.0);
    assert_eq!(value(&page, "proofmill_device_quarantined", &[("device", "GPU-1")]), 1.0);
    assert_eq!(value(&page, "proofmill_device_quarantined", &[("device", "GPU-0")]), 0.0);
    assert_eq!(value(&page, "proofmill_verification_failures_total", &[("device", "GPU-0")]), 3.0);
    assert_eq!(value(&page, "proofmill_queue_depth", &[("stage", "device_queue"), ("priority", "critical")]), 5.0);
    assert_eq!(value(&page, "proofmill_memory_bytes", &[("use", "resident")]), 123.0);
    assert_eq!(value(&page, "proofmill_memory_bytes", &[("use", "budget")]), 10.0);
    assert_eq!(
        value(&page, "proofmill_partitions_total", &[("circuit", "circuit-000"), ("outcome", "succeeded")]),
        7.0
    );
    assert_eq!(value(&page, "proofmill_key_resident_bytes", &[("circuit", "circuit-000")]), 1000.0);
    assert_eq!(value(&page, "proofmill_config_info", &[("memory_budget", "10"), ("tricky", "a\"b\\c\nd")]), 1.0);
    assert_eq!(value(&page, "proofmill_build_info", &[("version", "1.2.3"), ("arch", std::env::consts::ARCH)]), 1.0);

    let of = |le: &str| {
        value(
            &page,
            "proofmill_phase_duration_seconds_bucket",
            &[("circuit", "circuit-000"), ("phase", "ntt"), ("le", le)],
        )
    };
    assert_eq!([of("0.001"), of("0.006"), of("0.016"), of("1800"), of("+Inf")], [2.0, 2.0, 3.0, 3.0, 4.0]);
    assert_eq!(
        value(&page, "proofmill_phase_duration_seconds_count", &[("circuit", "circuit-000"), ("phase", "ntt")]),
        4.0
    );
    assert_eq!(
        value(&page, "proofmill_phase_duration_seconds_sum", &[("circuit", "circuit-000"), ("phase", "ntt")]),
        1.5
    );
}

#[test]
fn series_are_bounded() {
    let count =
        |devices, circuits| parse(&exposition().render(&rich(devices, circuits), Some(1)).unwrap()).series.len();
    let bare = count(8, 0);
    // The server's own series, which this exposition lacks: 12 methods of 3 results, and 7 more.
    assert!(bare + 12 * 3 + 7 + NAMED_CIRCUITS < 500, "{bare}");
    // A key's size is counted with the bare ones.
    assert!(count(8, 1) - bare - 1 <= 247 + OUTCOMES.len(), "{}", count(8, 1) - bare);
    assert_eq!(count(8, NAMED_CIRCUITS + 1), count(8, 500), "more circuits are no more series");
    assert_eq!(count(1, 0), parse(&exposition().render(&rich(1, 0), None).unwrap()).series.len() + 1);
}

#[test]
fn unnamed_circuits_are_summed_and_names_stay() {
    let exposition = exposition();
    let first = parse(&exposition.render(&rich(1, NAMED_CIRCUITS), None).unwrap());
    assert!(!first.series.iter().any(|series| series.1.get("circuit").is_some_and(|c| c == "other")));
    // New circuits that sort before the known ones do not displace them: counters never fall.
    let mut more = rich(1, NAMED_CIRCUITS);
    for name in ["aaa", "aab", "other"] {
        more.outcomes.insert((name.into(), "succeeded"), 10);
        more.phases.insert((name.into(), "ntt"), Histogram { buckets: [1; 17], sum: Duration::from_secs(1) });
        more.keys.insert(name.into(), 5);
    }
    let page = parse(&exposition.render(&more, None).unwrap());
    assert_eq!(value(&page, "proofmill_partitions_total", &[("circuit", "other"), ("outcome", "succeeded")]), 30.0);
    assert_eq!(value(&page, "proofmill_phase_duration_seconds_count", &[("circuit", "other"), ("phase", "ntt")]), 51.0);
    assert_eq!(value(&page, "proofmill_phase_duration_seconds_sum", &[("circuit", "other"), ("phase", "ntt")]), 3.0);
    assert_eq!(value(&page, "proofmill_key_resident_bytes", &[("circuit", "other")]), 15.0);
    assert_eq!(
        value(&page, "proofmill_partitions_total", &[("circuit", "circuit-019"), ("outcome", "succeeded")]),
        7.0
    );
    assert!(!page.series.iter().any(|series| series.1.get("circuit").is_some_and(|c| c == "aaa")));
}

#[test]
fn an_empty_engine_has_a_page_too() {
    let page = parse(&Exposition::new("1".into(), vec![]).render(&Snapshot::default(), None).unwrap());
    assert!(page.types.contains_key("proofmill_build_info"));
    assert_eq!(value(&page, "proofmill_queue_depth", &[("stage", "synthesis"), ("priority", "low")]), 0.0);
    assert!(!page.types.contains_key("proofmill_device_seconds_total"));
}

#[test]
fn the_reference_is_fresh() {
    let path = std::path::Path::new("../../docs/metrics.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let stale =
        "docs/metrics.md is stale; write it with: BLESS=1 cargo test --release -p proofmill-server --test metrics";
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), markdown(), "{stale}");
}
