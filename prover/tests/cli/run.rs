//! `prover run` as a user sees it.

use crate::common::{Place, chain, finish, kill, ran, root, simulated};
use serde_json::Value;

fn wtns(curve: &str) -> String {
    format!("file://{}", chain(curve).join("chain.wtns").display())
}

fn job(curve: &str) -> String {
    format!("{{circuitRef: {{name: chain}}, input: {{url: \"{}\"}}}}", wtns(curve))
}

#[test]
fn the_quickstart_proves_and_verifies() {
    let place = Place::new();
    let manifest = root().join("examples/quickstart.yaml");
    place
        .run(&["run", "-f", manifest.to_str().unwrap()])
        .expect(0)
        .says("first: proved and verified in")
        .says("proofs/first/proof.json")
        .says("Bottleneck:");
    place
        .run(&[
            "verify",
            "--key",
            chain("bn128").join("vk.json").to_str().unwrap(),
            "--proof",
            "proofs/first/proof.json",
            "--public",
            "proofs/first/public.json",
        ])
        .expect(0)
        .says("valid");
    let public: Vec<String> =
        serde_json::from_slice(&std::fs::read(place.path().join("proofs/first/public.json")).unwrap()).unwrap();
    let expected: Vec<String> =
        serde_json::from_slice(&std::fs::read(chain("bn128").join("public.json")).unwrap()).unwrap();
    assert_eq!(public, expected);
    assert_eq!(std::fs::read(place.path().join("proofs/first/proof.bin")).unwrap().len(), 256);
}

#[cfg(feature = "wasm")]
#[test]
fn both_curves_from_witness_and_from_json() {
    let place = Place::new();
    for curve in ["bn128", "bls12381"] {
        let generator =
            format!("    witnessGenerator: {{url: \"file://{}\"}}\n", chain(curve).join("chain.wasm").display());
        let input = format!("file://{}", chain(curve).join("../input.json").display());
        let from_json = format!("{{circuitRef: {{name: chain}}, input: {{url: \"{input}\"}}}}");
        let manifest =
            place.chain_manifest(curve, &generator, &[("from-witness", &job(curve)), ("from-json", &from_json)]);
        place.run(&["run", "-f", &manifest, "--out", curve]).expect(0);
        for name in ["from-witness", "from-json"] {
            let folder = format!("{curve}/{name}");
            place
                .run(&[
                    "verify",
                    "--key",
                    chain(curve).join("chain.zkey").to_str().unwrap(),
                    "--proof",
                    &format!("{folder}/proof.bin"),
                    "--public",
                    &format!("{folder}/public.json"),
                ])
                .expect(0);
        }
    }
}

#[test]
fn json_lines_for_machines() {
    let place = Place::new();
    let manifest = place.chain_manifest("bn128", "", &[("a", &job("bn128")), ("b", &job("bn128"))]);
    let ran = place.run(&["run", "--json", "-f", &manifest, "--trace", "trace.json"]).expect(0);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let results: Vec<&Value> = lines.iter().filter(|line| line["event"] == "result").collect();
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!(result["succeeded"], true, "{result}");
        assert_eq!(result["insecureKey"], false, "{result}");
        assert!(place.path().join(result["proof"].as_str().unwrap()).is_file());
    }
    let report = lines.last().unwrap();
    assert_eq!(report["event"], "report", "{report}");
    let trace: Value = serde_json::from_slice(&std::fs::read(place.path().join("trace.json")).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap_or_else(|| trace.as_array().unwrap());
    assert!(events.iter().any(|event| event["ph"] == "X"), "no span in the trace");
    assert!(events.iter().any(|event| event["ph"] == "s"), "no flow arrow in the trace");
}

#[test]
fn a_manifest_from_stdin_with_relative_files() {
    use std::io::Write as _;
    let place = Place::new();
    std::fs::copy(chain("bn128").join("chain.zkey"), place.path().join("my key.zkey")).unwrap();
    std::fs::copy(chain("bn128").join("chain.wtns"), place.path().join("in.wtns")).unwrap();
    let mut command = place.command(&["run", "-f", "-"]);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text = "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: c, namespace: team}\n\
                spec: {groth16: {zkey: {url: \"file:my%20key.zkey\"}}}\n---\n\
                apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: j, namespace: team}\n\
                spec: {circuitRef: {name: c}, input: {url: \"file:in.wtns\"}}\n";
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap()).expect(0).says("team/j: proved and verified");
    assert!(place.path().join("proofs/team/j/proof.json").is_file());
}

#[test]
fn exit_codes_and_words_for_what_is_wrong() {
    let place = Place::new();
    let good = job("bn128");
    let case = |extra: &str, spec: &str| place.chain_manifest("bn128", extra, &[("bad", spec), ("good", &good)]);

    let with_input = |input: &str| format!("{{circuitRef: {{name: chain}}, input: {{{input}}}}}");
    let spec = |priority: &str| {
        format!("{{circuitRef: {{name: chain}}, priority: {priority}, input: {{url: \"{}\"}}}}", wtns("bn128"))
    };
    // Manifests: 2, before anything is proved.
    for (extra, spec, words) in [
        ("", spec("urgent"), "spec.priority"),
        ("", with_input(""), "spec.input"),
        ("", with_input("inline: \"!\""), "spec.input.inline"),
        ("", with_input("secretKeyRef: {name: a, key: b}"), "only a cluster has ConfigMaps and Secrets"),
        ("", "{circuitRef: {name: chian}, input: {url: \"file:x\"}}".to_owned(), "chian"),
        ("    zkye: {url: \"file:x\"}\n", good.clone(), "zkye"),
    ] {
        let manifest = case(extra, &spec);
        place.run(&["run", "-f", &manifest]).expect(2).says(words).never_says("proved and verified");
    }
    place.run(&["run", "-f", "missing.yaml"]).expect(2).says("missing.yaml");
    place.run(&["run"]).expect(2);
    place.run(&["frobnicate"]).expect(2);

    // Inputs and keys: 3, and the other job is proved all the same.
    let empty = place.write("empty.wtns", b"");
    let text = place.write("text.json", b"{\"x\": 1}");
    let other = chain("bls12381").join("chain.wtns");
    for (input, words) in [
        (empty.display().to_string(), "neither a .wtns file nor JSON"),
        (text.display().to_string(), "witnessGenerator"),
        (other.display().to_string(), "BLS12-381"),
        (place.path().join("gone.wtns").display().to_string(), "gone.wtns"),
        ("/dev/zero".to_owned(), "/dev/zero"),
    ] {
        let manifest = case("", &with_input(&format!("url: \"file://{input}\"")));
        place
            .run(&["run", "-f", &manifest])
            .expect(3)
            .says(words)
            .says("good: proved and verified")
            .says("1 of 2 jobs failed");
    }
    let digest = "0".repeat(64);
    let manifest = case("", &with_input(&format!("url: \"{}\", sha256: \"{digest}\"", wtns("bn128"))));
    place.run(&["run", "-f", &manifest]).expect(3).says(&digest);
}

#[test]
fn an_unsatisfied_witness_is_named() {
    let place = Place::new();
    // Wire 2000 of the chain: some value in the middle.
    let mut bytes = std::fs::read(chain("bn128").join("chain.wtns")).unwrap();
    let place_of_value = bytes.len() - 32 * 1000;
    bytes[place_of_value] ^= 1;
    let broken = place.write("broken.wtns", bytes);
    let spec = format!("{{circuitRef: {{name: chain}}, input: {{url: \"file://{}\"}}}}", broken.display());
    let manifest = place.chain_manifest("bn128", "", &[("broken", &spec)]);
    place.run(&["run", "-f", &manifest]).expect(4).says("UnsatisfiedWitness");
    assert!(!place.path().join("proofs/broken/proof.json").exists());
}

#[test]
fn suspended_jobs_are_left_out() {
    let place = Place::new();
    let spec = format!("{{circuitRef: {{name: chain}}, suspend: true, input: {{url: \"{}\"}}}}", wtns("bn128"));
    let manifest = place.chain_manifest("bn128", "", &[("later", &spec), ("now", &job("bn128"))]);
    place.run(&["run", "-f", &manifest]).expect(0).says("later is suspended").says("now: proved");
}

/// A cluster's files work here too.
#[test]
fn pools_are_left_out() {
    let place = Place::new();
    let manifest = root().join("examples/pool.yaml");
    place
        .run(&["run", "-f", manifest.to_str().unwrap()])
        .expect(0)
        .says("default is a ProverPool, which only a cluster has: left out")
        .says("gpu is a ProverPool")
        .says("pooled: proved");
}

#[test]
fn an_output_folder_that_cannot_be_written() {
    let place = Place::new();
    place.write("proofs", b"a file, not a folder");
    let manifest = place.chain_manifest("bn128", "", &[("a", &job("bn128"))]);
    place.run(&["run", "-f", &manifest]).expect(5).says("proofs").says("--out");
}

#[test]
fn ctrl_c_cancels_cleanly() {
    let place = Place::new();
    let simulated = "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: slow}\nspec:\n  simulated:\n    \
                     partitions: 4\n    bytes: {key: 1000, workingSet: 1000}\n    milliseconds: {synthesis: 60000}\n---\n\
                     apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: long}\n\
                     spec: {circuitRef: {name: slow}, input: {inline: AAAA}}\n";
    let manifest = place.write("slow.yaml", simulated);
    let child = place.command(&["run", "--device", "simulated", "-f", manifest.to_str().unwrap()]).spawn().unwrap();
    let pid = child.id();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let begun = std::time::Instant::now();
    kill(pid, "INT");
    ran(child.wait_with_output().unwrap()).expect(130).says("interrupted");
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "cancelling took {:?}", begun.elapsed());
}

#[test]
fn simulated_circuits_need_a_simulated_device() {
    let place = Place::new();
    let manifest = root().join("examples/simulated.yaml");
    let manifest = manifest.to_str().unwrap();
    place.run(&["run", "-f", manifest]).expect(3).says("--device simulated");
    place.run(&["run", "--device", "simulated", "-f", manifest]).expect(0).says("proved and verified");
}

#[test]
fn device_faults_are_survived_or_named() {
    let place = Place::new();
    let run = |partitions: u32, faults: &[&str]| {
        let manifest = place.write("simulated.yaml", simulated("s", partitions, 5, 1));
        let mut arguments = vec!["run", "--device", "simulated", "-f", manifest.to_str().unwrap()];
        arguments.extend(faults.iter().flat_map(|fault| ["--simulated-fault", fault]));
        place.run(&arguments)
    };
    // Each kind once, far enough apart that no partition meets two: another try succeeds.
    run(20, &["prepare@0", "step@5", "finish@10", "stall@15", "invalid-proof@20"]).expect(0).says("s-0: proved");
    // One partition that meets a fault at every try.
    run(1, &["step@0", "step@1", "step@2"]).expect(5).says("DeviceFault").says("simulated-0");
    run(1, &["melt@1"]).expect(2).says("KIND@N");
}

#[test]
fn a_deadline_that_passes_is_an_engine_failure() {
    let place = Place::new();
    let simulated = "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: slow}\nspec:\n  simulated:\n    \
                     partitions: 1\n    bytes: {key: 1000, workingSet: 1000}\n    milliseconds: {STAGE: 600000}\n---\n\
                     apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: late}\n\
                     spec: {circuitRef: {name: slow}, activeDeadlineSeconds: 1, input: {inline: AAAA}}\n";
    // In whatever stage it is: the load, the synthesis, a step of the device.
    for stage in ["keyLoad", "synthesis", "msmG1"] {
        let manifest = place.write("late.yaml", simulated.replace("STAGE", stage));
        let begun = std::time::Instant::now();
        place
            .run(&["run", "--device", "simulated", "-f", manifest.to_str().unwrap()])
            .expect(5)
            .says("late: DeadlineExceeded")
            .says("1 of 1 jobs failed");
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{stage}: {:?}", begun.elapsed());
        assert!(!place.path().join("proofs/late").exists());
    }
}

#[test]
fn inputs_that_do_not_fit_together_are_proved_one_after_the_other() {
    let place = Place::new();
    let mut text =
        "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {name: quick}\nspec:\n  simulated:\n    \
                    partitions: 1\n    bytes: {key: 1000, workingSet: 1000}\n    milliseconds: {msmG1: 5}\n"
            .to_owned();
    // 45 kB each; all inputs together may take an eighth of the memory.
    for job in 0..8 {
        text += &format!(
            "---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: job-{job}}}\n\
             spec: {{circuitRef: {{name: quick}}, input: {{inline: {}}}}}\n",
            "A".repeat(60_000)
        );
    }
    place.write("many.yaml", text);
    let ran = place.run(&["run", "--device", "simulated", "--memory", "1MiB", "-f", "many.yaml"]).expect(0);
    assert_eq!(ran.stdout.matches("proved and verified").count(), 8);
}

#[test]
fn the_highest_exit_code_of_several_jobs_counts() {
    let place = Place::new();
    let bad = "{circuitRef: {name: chain}, input: {inline: AAAA}}";
    let mut bytes = std::fs::read(chain("bn128").join("chain.wtns")).unwrap();
    let middle = bytes.len() - 32 * 1000;
    bytes[middle] ^= 1;
    let broken = place.write("broken.wtns", bytes);
    let unsatisfied = format!("{{circuitRef: {{name: chain}}, input: {{url: \"file://{}\"}}}}", broken.display());
    let manifest =
        place.chain_manifest("bn128", "", &[("bad", bad), ("unsatisfied", &unsatisfied), ("good", &job("bn128"))]);
    place
        .run(&["run", "-f", &manifest])
        .expect(4)
        .says("bad: BadInput")
        .says("unsatisfied: UnsatisfiedWitness")
        .says("good: proved and verified")
        .says("2 of 3 jobs failed");
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_word() {
    use std::os::unix::process::ExitStatusExt as _;
    let place = Place::new();
    let manifest = place.chain_manifest("bn128", "", &[("a", &job("bn128"))]);
    let mut child = place.command(&["run", "--json", "-f", &manifest]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(13), "SIGPIPE: {:?}", output.status);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("a fault in the program"));
}

#[test]
fn help_teaches() {
    let place = Place::new();
    let mut command = place.command(&["--help"]);
    command.env("COLUMNS", "100");
    finish(command).expect(0).says("Exit codes").says("prover run -f examples/quickstart.yaml");
    place.run(&["run", "--help"]).expect(0).says("Examples:");
}
