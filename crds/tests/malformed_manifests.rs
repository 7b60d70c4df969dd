//! Manifests that are wrong: for each the field and words of the message; and what is right at the edge of wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proofmill_crds::{
    Object,
    documents::{ManifestError, parse},
};

mod cases;

use cases::manifests::{accepted, circuit, job_on, job_with, refused};

fn refusal(manifest: &str) -> ManifestError {
    match parse(manifest, "job.yaml") {
        Ok(_) => panic!("accepted:\n{manifest}"),
        Err(error) => error,
    }
}

#[test]
fn each_mistake_is_told_by_field_and_words() {
    let cases = refused();
    assert!(cases.len() >= 180);
    for (manifest, path, words) in &cases {
        let error = refusal(manifest);
        // A misspelt `spec` is two problems.
        let expected = if *path == "sepc" { 2 } else { 1 };
        assert_eq!(error.problems.len(), expected, "{manifest}\n{error}");
        let problem = &error.problems[expected - 1];
        assert_eq!(problem.path, *path, "{manifest}\n{error}");
        assert!(problem.message.contains(words), "{manifest}\n{error}\nexpected: {words}");
        assert!(problem.line.is_some() && problem.column.is_some(), "{manifest}\n{error}");
        assert!(problem.to_string().lines().count() == 1 && problem.to_string().len() < 400, "{error}");
    }
    println!("{} manifests", cases.len());
}

#[test]
fn several_mistakes_come_in_the_order_of_the_file() {
    let manifest = "apiVersion: proofmill.dev/v1alpha1
kind: Circuit
metadata:
  name: chain
spec:
  groth16:
    zkey:
      url: file:k
      sha256: xyz
    r1sc:
      url: file:r
---
apiVersion: proofmill.dev/v1alpha1
kind: ProofJob
metadata:
  name: first
spec:
  input:
    inline:
      x: 3
  priority: urgent
";
    let error = refusal(manifest);
    assert_eq!(
        error.to_string(),
        "job.yaml:9: Circuit/chain: spec.groth16.zkey.sha256: must be 64 hexadecimal digits, as sha256sum prints them
job.yaml:10: Circuit/chain: spec.groth16.r1sc: unknown field; did you mean \"r1cs\"?
job.yaml:17: ProofJob/first: spec.circuitRef: is required
job.yaml:19: ProofJob/first: spec.input.inline: must be a string, not a mapping
job.yaml:21: ProofJob/first: spec.priority: \"urgent\" is not one of Low, Normal, High, Critical"
    );
    let columns: Vec<_> = error.problems.iter().map(|p| (p.document, p.column.unwrap())).collect();
    assert_eq!(columns, [(1, 15), (1, 5), (2, 1), (2, 5), (2, 13)]);
}

#[test]
fn what_is_right_is_accepted() {
    for manifest in accepted() {
        parse(&manifest, "job.yaml").unwrap_or_else(|error| panic!("{manifest}\n{error}"));
    }
}

#[test]
fn defaults_are_applied() {
    let documents = parse(&job_with("poolRef: {}\npriority: null"), "job.yaml").unwrap();
    let Object::ProofJob(job) = &documents[0].object else { panic!("not a job") };
    assert_eq!(
        serde_json::to_value(&job.spec).unwrap(),
        serde_json::json!({
            "circuitRef": {"name": "chain"}, "input": {"url": "file:in"}, "poolRef": {"name": "default"},
            "priority": "Normal", "backoffLimit": 3, "suspend": false,
        })
    );
    let documents = parse(&circuit("simulated: {milliseconds: {ntt: 7}}"), "job.yaml").unwrap();
    let Object::Circuit(circuit) = &documents[0].object else { panic!("not a circuit") };
    let simulated = circuit.spec.simulated.as_ref().unwrap();
    assert_eq!((simulated.partitions, simulated.milliseconds.ntt, simulated.bytes.key), (1, 7, 0));
}

/// An input is private: no message and no debug output holds anything of it.
#[test]
fn nothing_of_an_input_shows() {
    let secret = "c2VjcmV0";
    for manifest in [
        job_on(&format!("{{inline: '{secret}!'}}")),
        job_on(&format!("{{inline: '{secret}', url: 'file:in'}}")),
        job_on(&format!("{{inline: [{secret}]}}")),
        job_on(&format!("{{inline: {{x: {secret}}}}}")),
        job_on(&format!("{{inline: {secret}{}}}", "a".repeat(70_000))),
    ] {
        let error = refusal(&manifest);
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    let documents = parse(&job_on(&format!("{{inline: {secret}}}")), "job.yaml").unwrap();
    let Object::ProofJob(job) = &documents[0].object else { panic!("not a job") };
    assert_eq!(job.spec.input.inline_bytes().unwrap(), b"secret");
    assert!(!format!("{:?}", job.spec).contains(secret));
}
