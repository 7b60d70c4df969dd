//! Every metric of the operator: name, type, labels, unit, meaning. `docs/metrics-operator.md` is made from this table.

use proofmill_metrics::{catalogue, table};

catalogue! {
    BUILD_INFO = Gauge "proofmill_operator_build_info" [] "1",
        "The binary that runs.", "Labels `version`, `arch`.";
    LEADER = Gauge "proofmill_operator_leader" [] "0 or 1",
        "Whether this replica leads.", "The sum over replicas is 1. All metrics of pools and jobs are told by the leader alone.";
    PLANNING = Histogram "proofmill_operator_planning_seconds" [] "seconds",
        "Time of one turn of the planner.", "";
    COMMANDS = Counter "proofmill_operator_commands_total" ["kind"] "commands",
        "What the planner wanted done.", "Those that failed come again.";
    FAILURES = Counter "proofmill_operator_failures_total" ["kind"] "failures",
        "What could not be done, and is tried again.",
        "`kind`: submit, verify, write_status, write_circuit, write_output, tend_pool. The log tells each with its object.";
    DISBELIEVED = Counter "proofmill_operator_reports_disbelieved_total" [] "reports",
        "Reports of engines with more device time than has passed: not counted.", "A clock that jumps, or an engine that lies.";
    CERTIFICATE_EXPIRY = Gauge "proofmill_certificate_expiry_timestamp_seconds" ["certificate"] "seconds since 1970",
        "When the operator's own certificates run out.", "`certificate`: authority, operator. They are renewed when a third of their life is left.";
    JOBS = Gauge "proofmill_jobs" ["pool_namespace", "pool", "state"] "jobs",
        "ProofJobs that exist, by where they are.",
        "`state`: the reason that a job waits for (WaitingForCapacity, LoadingKey, …), Proving, Succeeded, Failed.";
    JOBS_ENDED = Counter "proofmill_jobs_ended_total" ["pool_namespace", "pool", "reason"] "jobs",
        "Jobs that ended, by reason.", "`reason`: Proved, BadInput, DeadlineExceeded, …";
    RETRIES = Counter "proofmill_retries_total" ["pool_namespace", "pool", "reason"] "partitions",
        "Partitions that were sent again after a failure.", "`reason`: of the failure; Lost for those of pods that are gone.";
    SCHEDULE_LATENCY = Histogram "proofmill_schedule_latency_seconds" ["pool_namespace", "pool"] "seconds",
        "From a job's creation, as the operator first saw it, to its first submission to a pod.", "";
    POOL_REPLICAS = Gauge "proofmill_pool_replicas" ["pool_namespace", "pool", "state"] "pods",
        "Pods of a pool.", "`state`: desired, live, ready, updated, busy.";
    POOL_DEVICES = Gauge "proofmill_pool_devices" ["pool_namespace", "pool"] "devices",
        "Devices of a pool's pods that take work.", "";
    POOL_BACKLOG = Gauge "proofmill_pool_backlog_device_seconds" ["pool_namespace", "pool"] "seconds",
        "Device time that the partitions which wait in the operator's queue will take.",
        "What HPA and KEDA should scale on; it exists at zero pods. Partitions of circuits that were never proved count 0 here and 1 in the next.";
    POOL_WAITING = Gauge "proofmill_pool_waiting_partitions" ["pool_namespace", "pool"] "partitions",
        "Partitions that wait in the operator's queue.", "";
    POOL_READY = Gauge "proofmill_pool_ready" ["pool_namespace", "pool", "reason"] "0 or 1",
        "The pool's condition Ready, with its reason.", "";
    POOL_SCALING_LIMITED = Gauge "proofmill_pool_scaling_limited" ["pool_namespace", "pool", "reason"] "0 or 1",
        "The pool's condition ScalingLimited, with its reason.", "Absent: the pool has no `autoscaling`.";
    POOL_DEVICE_SECONDS = Counter "proofmill_pool_device_seconds_total" ["pool_namespace", "pool", "state", "cause"] "seconds",
        "The ledgers of a pool's devices, those of pods that are gone included.",
        "`state`, `cause`: as in `proofmill_device_seconds_total`.";
    POOL_IDLE_WITH_BACKLOG = Counter "proofmill_pool_idle_with_backlog_seconds_total" ["pool_namespace", "pool"] "seconds",
        "Device time without work on a pod while partitions waited in the operator's queue.",
        "More than a little: the pods cannot take what waits (drains, keys that do not fit), or the operator is slow.";
    POOL_PARTITIONS = Counter "proofmill_pool_partitions_total" ["pool_namespace", "pool", "circuit", "outcome"] "partitions",
        "Partitions that ended on a pool's engines.", "`circuit`: the first 20 of a pool by name, the others as `other`.";
    POOL_PHASE_DURATION = Histogram "proofmill_pool_phase_duration_seconds" ["pool_namespace", "pool", "circuit", "phase"] "seconds",
        "Duration of each phase of a partition.", "`phase`: as in `proofmill_phase_duration_seconds`.";
    POOL_VERIFICATION_FAILURES = Counter "proofmill_pool_verification_failures_total" ["pool_namespace", "pool"] "proofs",
        "Proofs that did not verify on their engine.", "Any growth: suspect a device; `proofmill_verification_failures_total` says which.";
}

/// The reference, `docs/metrics-operator.md`.
pub fn markdown() -> String {
    String::from(
        "# Metrics of the operator\n\n\
        `GET /metrics` on port 8080 of each replica, Prometheus's text format. Made from `operator/src/metrics/catalogue.rs`; a \
        test fails when this page is stale (`BLESS=1 cargo test --release -p proofmill-operator metrics` writes it).\n\n\
        Metrics of a pool carry `pool_namespace`: the scrape's own `namespace` would displace that name. No label ever names a job. \
        Counters begin at 0 with each leader. The device time and the phases are the operator's own account, from what every engine \
        tells it each second: unlike the engines' own metrics they hold what pods did that lived for less than a few scrapes. \
        A family without any series yet is left out.\n\n",
    ) + &table(CATALOGUE)
}
