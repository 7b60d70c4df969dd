//! The daemon and its clients as processes: signals, lost clients, a thousand jobs.

use std::process::Command;
use std::time::Duration;

use crate::common::{Place, chain, finish, kill, simulated};
use crate::daemon::{Daemon, eventually};

#[test]
fn a_real_proof_through_the_daemon() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    std::fs::copy(chain("bn128").join("chain.zkey"), place.path().join("data/chain.zkey")).unwrap();
    std::fs::copy(chain("bn128").join("chain.wtns"), place.path().join("here.wtns")).unwrap();
    place.write(
        "job.yaml",
        "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: c}\n\
         spec: {groth16: {zkey: {url: \"file:chain.zkey\"}}}\n---\n\
         apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: j}\n\
         spec: {circuitRef: {name: c}, input: {url: \"file:here.wtns\"}}\n",
    );
    let submit = ["submit", "-f", "job.yaml", "--to", "unix:engine.sock"];
    place.run(&submit).expect(0).says("j: proved and verified");
    place
        .run(&[
            "verify",
            "--key",
            chain("bn128").join("vk.json").to_str().unwrap(),
            "--proof",
            "proofs/j/proof.json",
            "--public",
            "proofs/j/public.json",
        ])
        .expect(0);
    // A second time: the first result was acknowledged and forgotten, so it is proved anew.
    place.run(&submit).expect(0);
    let (code, metrics) = daemon.get("/metrics");
    assert_eq!(code, 200);
    assert!(metrics.contains("proofmill_partitions_total{circuit=\"c\",outcome=\"succeeded\"} 2"), "{metrics}");
    assert!(metrics.contains("proofmill_device_seconds_total{"), "{metrics}");
    place.run(&["status", "--to", "unix:engine.sock"]).expect(0).says("device cpu").says("ready");
    // A key outside the root is refused.
    place.write(
        "outside.yaml",
        "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: o}\n\
         spec: {groth16: {zkey: {url: \"file:../here.wtns\"}}}\n---\n\
         apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: o}\n\
         spec: {circuitRef: {name: o}, input: {url: \"file:here.wtns\"}}\n",
    );
    place.run(&["submit", "-f", "outside.yaml", "--to", "unix:engine.sock"]).expect(3);
    assert_eq!(daemon.stop("TERM"), Some(0));
    place.run(&["status", "--to", "unix:engine.sock"]).expect(5).says("prover serve");
}

#[test]
fn a_key_that_anyone_can_forge_proofs_of_is_refused_unless_allowed() {
    let place = Place::new();
    let xz = chain("bn128").join("chain.r1cs.xz");
    let r1cs = Command::new("xz").args(["-dc"]).arg(xz).output().expect("xz is installed").stdout;
    place.write("chain.r1cs", r1cs);
    std::fs::create_dir_all(place.path().join("data")).unwrap();
    place.run(&["dev", "setup", "chain.r1cs", "-o", "data/dev.zkey"]).expect(0);
    std::fs::copy(chain("bn128").join("chain.wtns"), place.path().join("my input.wtns")).unwrap();
    // A name with a space, as it is written in a URL.
    place.write(
        "dev.yaml",
        "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: dev}\n\
         spec: {groth16: {zkey: {url: \"file:dev.zkey\"}}}\n---\n\
         apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: j}\n\
         spec: {circuitRef: {name: dev}, input: {url: \"file:my%20input.wtns\"}}\n",
    );
    let submit = ["submit", "-f", "dev.yaml", "--to", "unix:engine.sock"];
    let strict = Daemon::start(&place, &[]);
    place.run(&submit).expect(3).says("InsecureKey").says("dev").never_says("proved and verified");
    assert!(!place.path().join("proofs/j").exists());
    let (_, metrics) = strict.get("/metrics");
    assert!(metrics.contains("proofmill_partitions_total{circuit=\"dev\",outcome=\"insecure_key\"} 1"), "{metrics}");
    assert_eq!(strict.stop("TERM"), Some(0));
    let lenient = Daemon::start(&place, &["--allow-insecure-keys"]);
    place.run(&submit).expect(0).says("j: proved and verified").says("anyone can forge");
    assert_eq!(lenient.stop("TERM"), Some(0));
}

#[cfg(feature = "object-store")]
#[test]
fn urls_are_fetched_beneath_the_listed_prefixes_only() {
    let place = Place::new();
    let prefixes = ["--allow-url", "http://127.0.0.1:9/keys", "--allow-url", "s3://bucket/keys/"];
    let daemon = Daemon::start(&place, &prefixes);
    for (key, told) in [
        ("http://127.0.0.1:9/other/c.zkey", "none of the allowed prefixes"),
        ("s3://bucket/other/c.zkey", "none of the allowed prefixes"),
        // Listed, yet a daemon never asks its own machine's neighbours for others.
        ("http://127.0.0.1:9/keys/c.zkey", "does not send requests there"),
    ] {
        place.write(
            "job.yaml",
            format!(
                "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: c}}\n\
                 spec: {{groth16: {{zkey: {{url: \"{key}\"}}}}}}\n---\n\
                 apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: j}}\n\
                 spec: {{circuitRef: {{name: c}}, input: {{inline: AAAA}}}}\n"
            ),
        );
        place.run(&["submit", "-f", "job.yaml", "--to", "unix:engine.sock"]).expect(3).says(key).says(told);
    }
    assert_eq!(daemon.stop("TERM"), Some(0));
    place.run(&["serve", "--allow-url", "keys.example.com"]).expect(2).says("keys.example.com");
    place.run(&["serve", "--allow-url", "file:/data"]).expect(2).says("files are allowed by a folder");
}

#[test]
fn a_thousand_jobs_and_a_client_that_dies() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    place.write("many.yaml", simulated("many", 1, 2, 1000));
    let arguments = ["submit", "--json", "-f", "many.yaml", "--to", "unix:engine.sock"];
    // The first client is killed while its jobs run; the second one attaches to what is there.
    let mut first = place.command(&arguments).spawn().unwrap();
    eventually("jobs are queued", || daemon.get("/status").1.contains("many-"));
    first.kill().unwrap();
    first.wait().unwrap();
    let ran = place.run(&arguments).expect(0);
    assert_eq!(ran.stdout.lines().filter(|line| line.contains("\"succeeded\":true")).count(), 1000);
    let (_, metrics) = daemon.get("/metrics");
    assert!(metrics.contains("proofmill_partitions_total{circuit=\"many\",outcome=\"succeeded\"} 1000"), "{metrics}");
    assert_eq!(daemon.stop("TERM"), Some(0));
}

#[test]
fn sigterm_during_work_finishes_it() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated", "--grace", "60s"]);
    place.write("slow.yaml", simulated("slow", 1, 2000, 1));
    let submit = place.command(&["submit", "-f", "slow.yaml", "--to", "unix:engine.sock"]).spawn().unwrap();
    eventually("the job is proving", || daemon.get("/status").1.contains("Proving"));
    kill(daemon.pid(), "TERM");
    eventually("the daemon is not ready any more", || daemon.get("/readyz").0 != 200);
    let ran = crate::common::ran(submit.wait_with_output().unwrap());
    ran.expect(0).says("slow-0: proved and verified");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn sigterm_hands_back_what_does_not_finish() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated", "--grace", "500ms"]);
    place.write("long.yaml", simulated("long", 1, 600_000, 1));
    let submit = place.command(&["submit", "-f", "long.yaml", "--to", "unix:engine.sock"]).spawn().unwrap();
    eventually("the job is proving", || daemon.get("/status").1.contains("Proving"));
    assert_eq!(daemon.stop("TERM"), Some(0));
    crate::common::ran(submit.wait_with_output().unwrap()).expect(5).says("Draining");
}

#[test]
fn kill_9_loses_nothing_but_the_work_under_way() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    place.write("slow.yaml", simulated("slow", 1, 1500, 1));
    let submit = place.command(&["submit", "-f", "slow.yaml", "--to", "unix:engine.sock"]).spawn().unwrap();
    eventually("the job is proving", || daemon.get("/status").1.contains("Proving"));
    assert_eq!(daemon.stop("KILL"), None);
    // The client goes on asking; a daemon on the same socket, stale file and all, gets the job again.
    std::thread::sleep(Duration::from_millis(300));
    let _second = Daemon::start(&place, &["--device", "simulated"]);
    crate::common::ran(submit.wait_with_output().unwrap()).expect(0).says("slow-0: proved and verified");
}

#[test]
fn wrong_addresses_are_usage_errors() {
    let place = Place::new();
    place.run(&["serve", "--listen", "nowhere"]).expect(2).says("unix:");
    place.run(&["serve", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"]).expect(2).says("--insecure");
    place.run(&["serve", "--http", "nowhere"]).expect(2).says("--http");
    place.run(&["status", "--to", "nowhere"]).expect(2);
    let mut command = place.command(&["serve", "--listen", "unix:missing/engine.sock", "--http", "127.0.0.1:0"]);
    command.env("RUST_LOG", "error");
    finish(command).expect(5).says("missing/engine.sock");
}
