//! Every metric of an engine: name, type, labels, unit, meaning. `docs/metrics.md` is made from this table.

use proofmill_metrics::{catalogue, table};

catalogue! {
    BUILD_INFO = Gauge "proofmill_build_info" [] "1",
        "The binary that runs.", "Labels `version`, `arch`.";
    CONFIG_INFO = Gauge "proofmill_config_info" [] "1",
        "The settings that the engine runs with.", "A label per setting; `GET /status` and the log have them too.";
    DRAINING = Gauge "proofmill_draining" [] "0 or 1",
        "Whether intake is closed.", "";
    QUEUE_DEPTH = Gauge "proofmill_queue_depth" ["stage", "priority"] "partitions",
        "Partitions that have not ended, by stage and priority.",
        "`stage`: queued, fetching_input, loading_key, memory_budget, synthesis, device_queue, proving, finishing. `priority`: critical, high, normal, low.";
    MEMORY = Gauge "proofmill_memory_bytes" ["use"] "bytes",
        "The memory budget by use, and what the process really has.",
        "`use`: keys, working_sets, inputs, free (their sum is budget), budget; resident is the kernel's figure, and above budget only if the accounting is wrong.";
    DEVICE_SECONDS = Counter "proofmill_device_seconds_total" ["device", "state", "cause"] "seconds",
        "The device's ledger: each moment is busy in one phase or idle for one cause; the sum is the wall time.",
        "`state` busy: msm_g2, msm_g1, ntt, other_kernel. `state` idle: fault, draining, transfer, lease_held, host_prep, finish_backpressure, pickup, key_load, memory_budget, synthesis, input, no_work, unattributed (always 0).";
    DEVICE_CPU_SECONDS = Counter "proofmill_device_cpu_seconds_total" ["device"] "seconds",
        "CPU time of the threads that worked for the device.",
        "On the CPU device far below its busy seconds times threads: starved of cores.";
    DEVICE_LEDGER_LAG = Gauge "proofmill_device_ledger_lag_seconds" ["device"] "seconds",
        "How far the ledger is behind the clock; a GPU's events are known late.", "";
    DEVICE_READY = Gauge "proofmill_device_ready" ["device"] "0 or 1",
        "Whether the device's canary proofs have passed since start.", "";
    DEVICE_QUARANTINED = Gauge "proofmill_device_quarantined" ["device"] "0 or 1",
        "Whether the device is out of service until canary proofs pass.", "";
    VERIFICATION_FAILURES = Counter "proofmill_verification_failures_total" ["device"] "proofs",
        "Proofs of the device that did not verify; none of them left the engine.", "Any growth: suspect the hardware.";
    PHASE_DURATION = Histogram "proofmill_phase_duration_seconds" ["circuit", "phase"] "seconds",
        "Duration of each phase of a partition.",
        "`phase`: fetch, queue, budget_wait, synthesis, device_queue, lease_wait, host_prep, transfer, ntt, msm_g1, msm_g2, finish, verify.";
    PARTITIONS = Counter "proofmill_partitions_total" ["circuit", "outcome"] "partitions",
        "Ended partitions.",
        "`outcome`: succeeded, bad_input, bad_key, insecure_key, unavailable, unsatisfied_witness, device_fault, verification_failed, memory_budget, deadline_exceeded, cancelled, draining, internal.";
    KEY_RESIDENT = Gauge "proofmill_key_resident_bytes" ["circuit"] "bytes",
        "Memory of the circuit's key, mapped.", "Absent: not resident.";
    REQUESTS = Counter "proofmill_server_requests_total" ["method", "result"] "requests",
        "gRPC requests; a stream counts once, at its begin.",
        "`method`: a call of `proofmill.v1.Prover`. `result`: ok, refused (by the client's fault or the engine's bounds), failed (the engine's fault).";
    CONNECTIONS = Gauge "proofmill_server_connections" ["listener"] "connections",
        "Open connections.", "`listener`: grpc, http.";
    CONNECTIONS_REFUSED = Counter "proofmill_server_connections_refused_total" ["listener"] "connections",
        "Connections closed by a bound or for not speaking the protocol.", "`listener`: grpc, http.";
    WATCHES = Gauge "proofmill_server_watches" [] "streams",
        "Open gRPC streams.", "";
    WATCH_SKIPPED = Counter "proofmill_server_watch_skipped_events_total" [] "events",
        "Events that slow watches did not get because a newer one of the same partition replaced them.", "";
    WATCH_LAGGED = Counter "proofmill_server_watches_lagged_total" [] "streams",
        "Watches ended because they read too slowly.", "";
}

/// Stages of a partition that has not ended: values of `stage`.
pub const STAGES: [&str; 8] =
    ["queued", "fetching_input", "loading_key", "memory_budget", "synthesis", "device_queue", "proving", "finishing"];

/// The reference, `docs/metrics.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Metrics of an engine\n\n\
        `GET /metrics` on the HTTP port, Prometheus's text format. Made from `prover/server/src/metrics/catalogue.rs`; a test \
        fails when this page is stale (`BLESS=1 cargo test --release -p proofmill-server --test metrics` writes it).\n\n\
        Series are bounded: no label ever names a job, sector or miner; the first 20 circuits that an engine sees have their own \
        `circuit` label, the others are summed as `other`. Without circuits an engine of up to 8 devices has at most 500 series, \
        each named circuit adds 247, and one for each outcome it had. Histograms have the buckets 1, 2.5, 6, 16, 40, 100, 250, 600 ms, 1.6, 4, 10, 25, 60 s, \
        3, 10, 30 min. A family without any series yet is left out.\n\n",
    );
    text += &table(CATALOGUE);
    text
}
