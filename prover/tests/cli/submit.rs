//! `prover submit` against daemons that refuse, are full, end, or give no answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Place, Ran, chain, kill, ran, simulated};
use crate::daemon::{Daemon, eventually};

/// Documents as text.
struct Manifest(String);

impl Manifest {
    /// With the circuit `sim`, whose partitions take this long.
    fn simulated(partitions: u32, milliseconds: u32) -> Self {
        Self(simulated("sim", partitions, milliseconds, 0))
    }

    /// A circuit with a key that the daemon opens.
    fn circuit(mut self, name: &str, zkey: &str) -> Self {
        self.0 += &format!(
            "---\napiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: {name}}}\n\
             spec: {{groth16: {{zkey: {{url: \"{zkey}\"}}}}}}\n"
        );
        self
    }

    /// A job; `input` is a source in YAML's flow form.
    fn job(mut self, name: &str, circuit: &str, input: &str) -> Self {
        self.0 += &format!(
            "---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: {name}}}\n\
             spec: {{circuitRef: {{name: {circuit}}}, input: {input}}}\n"
        );
        self
    }

    fn submit(&self, place: &Place, more: &[&str]) -> Ran {
        place.write("jobs.yaml", &self.0);
        place.run(&[&["submit", "-f", "jobs.yaml", "--to", "unix:engine.sock"], more].concat())
    }

    fn spawn(&self, place: &Place, to: &str) -> Child {
        place.write("jobs.yaml", &self.0);
        place.command(&["submit", "-f", "jobs.yaml", "--to", to]).spawn().unwrap()
    }
}

const SMALL: &str = "{inline: AAAA}";

/// The states of all partitions that the daemon knows, by job.
fn states(daemon: &Daemon) -> Vec<(String, String)> {
    let status: Value = serde_json::from_str(&daemon.get("/status").1).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let partitions = status["partitions"].as_array().cloned().unwrap_or_default();
    partitions.iter().map(|partition| (text(&partition["id"]["job"]), text(&partition["state"]))).collect()
}

fn state_of(daemon: &Daemon, job: &str) -> Option<String> {
    states(daemon).into_iter().find(|(name, _)| name.starts_with(&format!("{job}:"))).map(|(_, state)| state)
}

/// Ctrl-C, and how the client then ends; it must not take long.
fn interrupt(mut client: Child) -> Ran {
    assert!(client.try_wait().unwrap().is_none(), "it has ended before it was interrupted");
    let begun = Instant::now();
    kill(client.id(), "INT");
    let ran = ran(client.wait_with_output().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    ran
}

#[test]
fn each_refusal_has_the_code_that_run_would_have() {
    let place = Place::new();
    place.write("empty.wtns", "");
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    let sim = || Manifest::simulated(1, 1);
    // The manifest: no file has such a URL.
    let spaces = sim().circuit("spaces", "file:a key.zkey").job("j", "spaces", SMALL);
    spaces.submit(&place, &[]).expect(2).says("j: InvalidArgument").says("circuit.groth16.zkey.url");
    // The input: refused by the daemon, missing on both sides, of another digest, too large to be sent.
    let input = |input: &str| sim().job("j", "sim", input).submit(&place, &[]);
    input("{url: \"file:empty.wtns\"}").expect(3).says("j: InvalidArgument").says("input.inline");
    input("{url: \"file:nowhere.wtns\"}").expect(3).says("j: Unavailable");
    let other = format!("{{url: \"file:jobs.yaml\", sha256: {}}}", "a".repeat(64));
    input(&other).expect(3).says("j: BadInput").says("SHA-256");
    place.write("large.wtns", vec![0; (1 << 20) + 1]);
    input("{url: \"file:large.wtns\"}").expect(3).says("j: BadInput").says("--file-root");
    // A circuit of another kind of device.
    sim().circuit("real", "file:a.zkey").job("j", "real", SMALL).submit(&place, &[]).expect(3).says("j: BadKey");
    assert_eq!(daemon.stop("TERM"), Some(0));
    sim().job("j", "sim", SMALL).submit(&place, &[]).expect(5).says("prover serve");
}

#[test]
fn unsatisfied_witnesses_and_faults_have_their_codes_too() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &[]);
    std::fs::copy(chain("bn128").join("chain.zkey"), place.path().join("data/chain.zkey")).unwrap();
    let mut witness = std::fs::read(chain("bn128").join("chain.wtns")).unwrap();
    let middle = witness.len() - 32 * 1000;
    witness[middle] ^= 1;
    place.write("broken.wtns", witness);
    let broken = Manifest(String::new()).circuit("c", "file:chain.zkey").job("j", "c", "{url: \"file:broken.wtns\"}");
    broken.submit(&place, &[]).expect(4).says("j: UnsatisfiedWitness");
    assert_eq!(daemon.stop("TERM"), Some(0));
    let faults = ["step@0", "step@1", "step@2"].map(|fault| ["--simulated-fault", fault]).concat();
    let _daemon = Daemon::start(&place, &[&["--device", "simulated"], &faults[..]].concat());
    Manifest::simulated(1, 1).job("j", "sim", SMALL).submit(&place, &[]).expect(5).says("j: DeviceFault");
}

#[test]
fn a_job_that_is_refused_does_not_stop_the_others() {
    let place = Place::new();
    place.write("empty.wtns", "");
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    let manifest = Manifest::simulated(2, 200)
        .circuit("spaces", "file:a key.zkey")
        .job("first", "sim", SMALL)
        .job("missing", "sim", "{url: \"file:nowhere.wtns\"}")
        .job("empty", "sim", "{url: \"file:empty.wtns\"}")
        .job("spaces", "spaces", SMALL)
        .job("last", "sim", SMALL);
    // The highest of 3, 3 and 2.
    let ran = manifest.submit(&place, &[]).expect(3).says("3 of 5 jobs failed");
    for said in
        ["first: proved", "missing: Unavailable", "empty: InvalidArgument", "spaces: InvalidArgument", "last: proved"]
    {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    for proved in ["first", "last"] {
        assert!(place.path().join("proofs").join(proved).join("proof.bin").exists());
    }
    // The same to machines.
    let ran = manifest.submit(&place, &["--json"]).expect(3);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert_eq!(line["event"], "result");
        if line["succeeded"] == true {
            assert!(line["proof"].is_string() && line["verified"] == true && line["timings"].is_array(), "{line}");
        } else {
            assert!(line["reason"].is_string() && line["message"].is_string(), "{line}");
        }
    }
    // What is kept here is forgotten there.
    assert!(states(&daemon).iter().all(|(_, state)| state == "Failed"), "{:?}", states(&daemon));
}

#[test]
fn a_daemon_that_closes_its_intake_refuses_with_5() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated", "--grace", "60s"]);
    let running = Manifest::simulated(1, 3000).job("running", "sim", SMALL).spawn(&place, "unix:engine.sock");
    eventually("the job is proving", || state_of(&daemon, "running").as_deref() == Some("Proving"));
    kill(daemon.pid(), "TERM");
    eventually("the daemon is not ready any more", || daemon.get("/readyz").0 != 200);
    Manifest::simulated(1, 1).job("late", "sim", SMALL).submit(&place, &[]).expect(5).says("late: Draining");
    ran(running.wait_with_output().unwrap()).expect(0).says("running: proved");
    assert_eq!(daemon.wait(), Some(0));
}

/// Inputs may take an eighth of the memory: here that of two jobs, and of none by the last one alone.
#[test]
fn jobs_wait_for_room_as_long_as_others_of_theirs_make_some() {
    let place = Place::new();
    let _daemon = Daemon::start(&place, &["--device", "simulated", "--memory", "1MiB"]);
    let mut manifest = Manifest::simulated(1, 5);
    for job in 0..8 {
        place.write(&format!("{job}.wtns"), [job; 45_000]);
        manifest = manifest.job(&format!("job-{job}"), "sim", &format!("{{url: \"file:{job}.wtns\"}}"));
    }
    let ran = manifest.submit(&place, &[]).expect(0);
    assert_eq!(ran.stdout.matches("proved and verified").count(), 8);
    place.write("large.wtns", vec![1; 140_000]);
    let large = manifest.job("large", "sim", "{url: \"file:large.wtns\"}");
    large.submit(&place, &[]).expect(5).says("large: InputMemory").says("1 of 9 jobs failed");
}

#[test]
fn ctrl_c_is_seen_while_nobody_answers() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let client = Manifest::simulated(1, 1).job("j", "sim", SMALL).spawn(&place, &address);
    let (_silent, _) = listener.accept().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    interrupt(client).expect(130).says("interrupted");
}

#[test]
fn ctrl_c_while_submitting_cancels_what_was_accepted() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    let gate = Gate::start(place.path().join("engine.sock"), b"the second input");
    place.write("second.wtns", "the second input");
    let client = Manifest::simulated(1, 600_000)
        .job("first", "sim", SMALL)
        .job("second", "sim", "{url: \"file:second.wtns\"}")
        .job("third", "sim", SMALL)
        .spawn(&place, &gate.address);
    // The daemon has both, but the client never hears that the second one is accepted.
    eventually("the second job is accepted", || state_of(&daemon, "second").is_some());
    assert!(state_of(&daemon, "third").is_none());
    let opened = Arc::clone(&gate.closed);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        opened.store(false, Ordering::Relaxed);
    });
    interrupt(client).expect(130).says("cancelling").never_says("did not answer");
    eventually("both are cancelled", || {
        ["first", "second"].iter().all(|job| state_of(&daemon, job).as_deref() == Some("Cancelled"))
    });
    assert!(state_of(&daemon, "third").is_none());
}

#[test]
fn ctrl_c_while_waiting_cancels_every_job() {
    let place = Place::new();
    let daemon = Daemon::start(&place, &["--device", "simulated"]);
    let client = Manifest::simulated(2, 600_000)
        .job("a", "sim", SMALL)
        .job("b", "sim", "{inline: AAAB}")
        .spawn(&place, "unix:engine.sock");
    eventually("all partitions are known", || states(&daemon).len() == 4);
    interrupt(client).expect(130).never_says("did not answer");
    eventually("all are cancelled", || states(&daemon).iter().all(|(_, state)| state == "Cancelled"));
}

/// Stands between a client and a daemon, and holds answers back from the moment when the client has sent `signal`.
struct Gate {
    address: String,
    closed: Arc<AtomicBool>,
}

impl Gate {
    fn start(daemon: PathBuf, signal: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let closed = Arc::new(AtomicBool::new(false));
        let gate = Self { address, closed: Arc::clone(&closed) };
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, daemon) = (client.unwrap(), UnixStream::connect(&daemon).unwrap());
                let (to_client, from_daemon) = (client.try_clone().unwrap(), daemon.try_clone().unwrap());
                let (close, look) = (Arc::clone(&closed), Arc::clone(&closed));
                std::thread::spawn(move || requests(client, daemon, signal, &close));
                std::thread::spawn(move || answers(from_daemon, to_client, &look));
            }
        });
        gate
    }
}

fn requests(mut client: TcpStream, mut daemon: UnixStream, signal: &[u8], closed: &AtomicBool) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        if buffer[..count].windows(signal.len()).any(|window| window == signal) {
            closed.store(true, Ordering::Relaxed);
        }
        if daemon.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = daemon.shutdown(Shutdown::Both);
}

fn answers(mut daemon: UnixStream, mut client: TcpStream, closed: &AtomicBool) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = daemon.read(&mut buffer) {
        while closed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
}
