//! The operator on the test cluster, by parts: `jobs` (one pod), `scale` (a thousand), `failover`.
//!
//! `tests/bench/operator [PART...]` brings up the cluster and runs them.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used, dead_code)]

mod failover;
#[path = "../../tests/cluster_operator/files.rs"]
mod files;
mod jobs;
mod measure;
mod scale;
mod stand_in;
#[path = "../../tests/cluster_operator/world.rs"]
mod world;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --benches` only wants to see that it is built.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let parts = ["jobs", "scale", "failover"];
    let named = |part: &str| arguments.iter().any(|argument| argument == part);
    let all = !parts.iter().any(|part| named(part));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if all || named("jobs") {
            jobs::run().await;
        }
        if all || named("scale") {
            scale::run().await;
        }
        if all || named("failover") {
            failover::run().await;
        }
    });
}
