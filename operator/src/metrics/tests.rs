use crate::metrics::catalogue::{CATALOGUE, markdown};

#[test]
fn the_reference_is_fresh() {
    let path = std::path::Path::new("../docs/metrics-operator.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let stale =
        "docs/metrics-operator.md is stale; write it with: BLESS=1 cargo test --release -p proofmill-operator metrics";
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), markdown(), "{stale}");
}

#[test]
fn names_follow_prometheus() {
    for metric in CATALOGUE {
        assert!(metric.name.starts_with("proofmill_"), "{}", metric.name);
        let counter = metric.kind == proofmill_metrics::Kind::Counter;
        assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
        for foreign in ["namespace", "pod", "job", "instance"] {
            assert!(!metric.labels.contains(&foreign), "{}: the scrape sets {foreign}", metric.name);
        }
    }
}
