//! Manifests that are wrong: for each the field and words of the message; and what is right at the edge of wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proofmill_crds::{
    Object,
    documents::{ManifestError, parse},
};

/// A job whose `spec` is `spec`, one field a line.
fn job(spec: &str) -> String {
    let body: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: first}}\nspec:\n{body}")
}

/// A job on circuit `chain` with a valid input and `more` fields.
fn job_with(more: &str) -> String {
    job(&format!("circuitRef: {{name: chain}}\ninput: {{url: \"file:in\"}}\n{more}"))
}

fn job_on(input: &str) -> String {
    job(&format!("circuitRef: {{name: chain}}\ninput: {input}"))
}

fn circuit(spec: &str) -> String {
    let body: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: chain}}\nspec:\n{body}")
}

fn metadata(metadata: &str) -> String {
    job_with("").replace("{name: first}", metadata)
}

fn refusal(manifest: &str) -> ManifestError {
    match parse(manifest, "job.yaml") {
        Ok(_) => panic!("accepted:\n{manifest}"),
        Err(error) => error,
    }
}

fn hex() -> String {
    "0123456789abcdef".repeat(4)
}

#[test]
fn each_mistake_is_told_by_field_and_words() {
    let long = |n: usize| "a".repeat(n);
    #[rustfmt::skip]
    let cases: Vec<(String, &str, &str)> = vec![
        // What kind of thing it is.
        ("- a\n- b\n".into(), "", "must be a mapping with apiVersion, kind, metadata and spec, not a list"),
        ("hello\n".into(), "", "not a string"),
        ("kind: ProofJob\n".into(), "apiVersion", "is required, such as proofmill.dev/v1alpha1"),
        ("apiVersion: proofmill.dev/v1alpha1\n".into(), "kind", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: 3\n".into(), "kind", "must be a string, not a number"),
        ("apiVersion: {a: b}\nkind: ProofJob\n".into(), "apiVersion", "must be a string, not a mapping"),
        ("apiVersion: proofmill.dev/v1\nkind: ProofJob\n".into(), "apiVersion", "use proofmill.dev/v1alpha1"),
        ("apiVersion: proofmil.dev/v1alpha1\nkind: ProofJob\n".into(), "apiVersion", "use proofmill.dev/v1alpha1"),
        ("apiVersion: proofmil.dev/v1alpha1\nkind: Prof\n".into(), "apiVersion", "did you mean \"proofmill.dev/v1alpha1\"?"),
        ("apiVersion: v1\nkind: ConfigMap\n".into(), "apiVersion", "v1/ConfigMap is not an object of Proofmill"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJobs\n".into(), "kind", "did you mean \"ProofJob\"?"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: circuit\n".into(), "kind", "did you mean \"Circuit\"?"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProverPool\n".into(), "kind", "is not one of Circuit, ProofJob"),
        // Metadata.
        (metadata("{}"), "metadata.name", "is required"),
        (metadata(""), "metadata.name", "is required"),
        (metadata("first"), "metadata", "must be a mapping, not a string"),
        (metadata("{name: ''}"), "metadata.name", "is required"),
        (metadata("{name: 7}"), "metadata.name", "write it in quotes"),
        (metadata("{name: on}"), "metadata.name", "must be a string, not a boolean (write it in quotes)"),
        (metadata("{name: First}"), "metadata.name", "lower-case"),
        (metadata("{name: -first}"), "metadata.name", "start and end with a letter or digit"),
        (metadata("{name: a..b}"), "metadata.name", "lower-case"),
        (metadata(&format!("{{name: {}}}", long(254))), "metadata.name", "at most 253"),
        (metadata("{generateName: first-}"), "metadata.name", "generateName serves only kubectl create"),
        (metadata("{name: first, namespace: a.b}"), "metadata.namespace", "lower-case letters, digits and '-'"),
        (metadata(&format!("{{name: first, namespace: {}}}", long(64))), "metadata.namespace", "at most 63"),
        (metadata("{name: first, labels: [a]}"), "metadata.labels", "must be a mapping, not a list"),
        (metadata("{name: first, labels: {a: 1}}"), "metadata.labels", "the value of \"a\" must be a string"),
        (metadata("{name: first, labels: {a: b c}}"), "metadata.labels", "the value \"b c\""),
        (metadata("{name: first, labels: {-a: b}}"), "metadata.labels", "the key \"-a\""),
        (metadata("{name: first, labels: {a/b/c: d}}"), "metadata.labels", "the key \"a/b/c\""),
        (metadata("{name: first, annotations: {'': d}}"), "metadata.annotations", "the key \"\""),
        (metadata("{name: first, annotations: {a: true}}"), "metadata.annotations", "write it in quotes"),
        (metadata("{name: first, lables: {a: b}}"), "metadata.lables", "unknown field; did you mean \"labels\"?"),
        (metadata("{name: first, finalizers: 3}"), "metadata", "invalid type"),
        // The envelope.
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\n".into(), "spec", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\nspec:\n".into(), "spec", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\nspec: x\n".into(), "spec", "must be a mapping, not a string"),
        (job_with("").replace("spec:", "sepc:"), "sepc", "unknown field; did you mean \"spec\"?"),
        // The job's references.
        (job("input: {url: \"file:in\"}"), "spec.circuitRef", "is required"),
        (job("circuitRef: {}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "is required"),
        (job("circuitRef: {name: null}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "is required"),
        (job("circuitRef: chain\ninput: {url: \"file:in\"}"), "spec.circuitRef", "must be a mapping, not a string"),
        (job("circuitRef: {name: Chain}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "lower-case"),
        (job("circuitRef: {name: ''}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "must not be empty"),
        (job("circuitRef: {name: chain, namespace: b}\ninput: {url: \"file:in\"}"), "spec.circuitRef.namespace", "unknown field; known here: name"),
        (job("circuitRef: [chain]\ninput: {url: \"file:in\"}"), "spec.circuitRef", "not a list"),
        (job_with("poolRef: {name: 5}"), "spec.poolRef.name", "write it in quotes"),
        // The input.
        (job("circuitRef: {name: chain}"), "spec.input", "is required"),
        (job_on("{}"), "spec.input", "exactly one of url, configMapKeyRef, secretKeyRef, inline"),
        (job_on("{url: null}"), "spec.input", "exactly one of"),
        (job_on("{url: \"file:in\", inline: AAAA}"), "spec.input", "exactly one of"),
        (job_on("{configMapKeyRef: {name: a, key: b}, secretKeyRef: {name: a, key: b}}"), "spec.input", "exactly one of"),
        (job_on("{sha256: \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}"), "spec.input", "exactly one of"),
        (job_on("in.json"), "spec.input", "must be a mapping, not a string"),
        (job_on("{url: in.json}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'file:'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: \"file:a\\0b\"}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'ftp://host/in'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'FILE:in'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'http://'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'https://user:word@host/in'}"), "spec.input.url", "user name or password"),
        (job_on("{url: 'https://host/a b'}"), "spec.input.url", "without spaces"),
        (job_on("{url: 's3://bucket'}"), "spec.input.url", "s3://BUCKET/KEY"),
        (job_on("{url: 'gs:///key'}"), "spec.input.url", "gs://BUCKET/KEY"),
        (job_on("{url: ''}"), "spec.input.url", "must not be empty"),
        (job_on(&format!("{{url: 'file:{}'}}", long(2048))), "spec.input.url", "at most 2048 characters, not 2053"),
        (job_on("{url: [a]}"), "spec.input.url", "must be a string, not a list"),
        (job_on("{uri: 'file:in'}"), "spec.input.uri", "did you mean \"url\"?"),
        (job_on("{url: 'file:in', sha256: abc}"), "spec.input.sha256", "64 hexadecimal digits"),
        (job_on(&format!("{{url: 'file:in', sha256: '{}g'}}", &hex()[1..])), "spec.input.sha256", "64 hexadecimal digits"),
        (job_on(&format!("{{url: 'file:in', sha256: '{}0'}}", hex())), "spec.input.sha256", "at most 64"),
        (job_on("{url: 'file:in', sha256: 12345678}"), "spec.input.sha256", "write it in quotes"),
        (job_on("{inline: {x: 3}}"), "spec.input.inline", "must be a string, not a mapping"),
        (job_on("{inline: ''}"), "spec.input.inline", "must not be empty"),
        (job_on("{inline: AAA}"), "spec.input.inline", "at least 4"),
        (job_on("{inline: AAAAA}"), "spec.input.inline", "base64 with padding"),
        (job_on("{inline: 'AA_-'}"), "spec.input.inline", "base64 with padding"),
        (job_on("{inline: 'AAAA AAA'}"), "spec.input.inline", "in one line"),
        (job_on(&format!("{{inline: {}}}", long(65_540))), "spec.input.inline", "at most 65536 characters, not 65540"),
        (job_on("{configMapKeyRef: {name: a}}"), "spec.input.configMapKeyRef.key", "is required"),
        (job_on("{configMapKeyRef: {name: a, key: a/b}}"), "spec.input.configMapKeyRef.key", "must be a key"),
        (job_on("{secretKeyRef: {key: a}}"), "spec.input.secretKeyRef.name", "is required"),
        (job_on("{secretKeyRef: {name: a, key: b, optional: true}}"), "spec.input.secretKeyRef.optional", "unknown field"),
        (job_on("{secretKeyref: {name: a, key: b}}"), "spec.input.secretKeyref", "did you mean \"secretKeyRef\"?"),
        // The job's other fields.
        (job_with("priority: urgent"), "spec.priority", "\"urgent\" is not one of Low, Normal, High, Critical"),
        (job_with("priority: high"), "spec.priority", "did you mean \"High\"?"),
        (job_with("priority: 3"), "spec.priority", "must be a string, not a number"),
        (job_with("activeDeadlineSeconds: 0"), "spec.activeDeadlineSeconds", "must be at least 1, not 0"),
        (job_with("activeDeadlineSeconds: 1.5"), "spec.activeDeadlineSeconds", "must be an integer"),
        (job_with("activeDeadlineSeconds: '60'"), "spec.activeDeadlineSeconds", "write it without quotes"),
        (job_with("activeDeadlineSeconds: 60s"), "spec.activeDeadlineSeconds", "must be an integer, not a string"),
        (job_with("activeDeadlineSeconds: 99999999999999999999"), "spec.activeDeadlineSeconds", "must be"),
        (job_with("activeDeadlineSeconds: 18446744073709551615"), "spec.activeDeadlineSeconds", "at most 64 bits"),
        (job_with("backoffLimit: -1"), "spec.backoffLimit", "must be at least 0, not -1"),
        (job_with("backoffLimit: 101"), "spec.backoffLimit", "must be at most 100, not 101"),
        (job_with("backoffLimit: 4294967299"), "spec.backoffLimit", "must be at most"),
        (job_with("backofLimit: 1"), "spec.backofLimit", "unknown field; did you mean \"backoffLimit\"?"),
        (job_with("suspend: 1"), "spec.suspend", "must be true or false, not a number"),
        (job_with("suspend: 'yes'"), "spec.suspend", "write it without quotes"),
        (job_with("ttlSecondsAfterFinished: -5"), "spec.ttlSecondsAfterFinished", "must be at least 0"),
        (job_with("output: {}"), "spec.output.configMapName", "is required"),
        (job_with("output: {configMapName: A}"), "spec.output.configMapName", "lower-case"),
        (job_with("output: proof"), "spec.output", "must be a mapping"),
        (job_with("partitions: 3"), "spec.partitions", "unknown field; known here: "),
        // Circuits.
        (circuit("{}"), "spec", "exactly one of groth16, filecoin, simulated must be set"),
        (circuit("groth16: null"), "spec", "exactly one of groth16"),
        (circuit("simulated: {}\ngroth16: {zkey: {url: \"file:k\"}}"), "spec", "exactly one of groth16"),
        (circuit("groth16: {}"), "spec.groth16.zkey", "is required"),
        (circuit("groth16: {zkey: {}}"), "spec.groth16.zkey.url", "is required"),
        (circuit("groth16: {zkey: \"file:k\"}"), "spec.groth16.zkey", "must be a mapping, not a string"),
        (circuit("groth16: {zkey: {url: k.zkey}}"), "spec.groth16.zkey.url", "must be file:PATH"),
        (circuit("groth16: {zkey: {url: \"file:k\", sha256: x}}"), "spec.groth16.zkey.sha256", "64 hexadecimal digits"),
        (circuit("groth16: {zkey: {url: \"file:k\"}, wasm: {url: \"file:w\"}}"), "spec.groth16.wasm", "unknown field"),
        (circuit("groth16: {zkey: {url: \"file:k\"}, r1cs: {url: \"x\"}}"), "spec.groth16.r1cs.url", "must be file:PATH"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {}"), "spec.selfTest.input", "is required"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {input: {}}"), "spec.selfTest.input", "exactly one of url"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nallowInsecureKeys: 'true'"), "spec.allowInsecureKeys", "without quotes"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 32GiB}"), "spec.filecoin.parameters", "is required"),
        (circuit("filecoin: {proof: Porep, sectorSize: 32GiB, parameters: {url: \"file:p\"}}"), "spec.filecoin.proof", "did you mean \"PoRep\"?"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 32, parameters: {url: \"file:p\"}}"), "spec.filecoin.sectorSize", "must be a string"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 16GiB, parameters: {url: \"file:p\"}}"), "spec.filecoin.sectorSize", "is not one of 2KiB"),
        (circuit("simulated: {partitions: 0}"), "spec.simulated.partitions", "must be at least 1"),
        (circuit("simulated: {partitions: 129}"), "spec.simulated.partitions", "must be at most 128"),
        (circuit("simulated: {milliseconds: {synthesis: -1}}"), "spec.simulated.milliseconds.synthesis", "at least 0"),
        (circuit("simulated: {milliseconds: {finish: 3600001}}"), "spec.simulated.milliseconds.finish", "at most 3600000"),
        (circuit("simulated: {milliseconds: {msmg1: 1}}"), "spec.simulated.milliseconds.msmg1", "did you mean \"msmG1\"?"),
        (circuit("simulated: {bytes: {key: 1e20}}"), "spec.simulated.bytes.key", "must be an integer"),
        (circuit("simulated: {bytes: 5}"), "spec.simulated.bytes", "must be a mapping, not a number"),
    ];
    assert!(cases.len() >= 60);
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
    let right = [
        job_with(""),
        job_with("backoffLimit: 0"),
        job_with("backoffLimit: 3.0"),
        job_with("suspend: yes"),
        job_with("output: null"),
        job_with("poolRef: {}"),
        job_with("activeDeadlineSeconds: 31536000"),
        job_on("{url: 'https://host'}"),
        job_on("{url: 'https://host/in?X-Amz-Signature=a@b'}"),
        job_on("{url: 'https://[::1]:8443/in'}"),
        job_on("{url: 's3://bucket/a/b'}"),
        job_on("{url: 'az://container/a'}"),
        job_on("{url: 'file:../a b/ü.json'}"),
        job_on("{url: 'file:///srv/in.json'}"),
        job_on(&format!("{{url: 'file:in', sha256: '{}'}}", hex().to_uppercase())),
        job_on(&format!("{{inline: {}}}", "a".repeat(65_536))),
        job_on("{inline: 'AAA='}"),
        job_on("{configMapKeyRef: {name: a.b-c, key: _in.json}}"),
        job_on("{secretKeyRef: {name: a, key: b}}"),
        metadata("{name: a.b-1, namespace: team-1, labels: {example.com/team: A_b.c, empty: ''}}"),
        metadata("{name: first, annotations: {Example.com/Note: 'any text at all'}}"),
        metadata(
            "{name: first, uid: u, resourceVersion: '5', creationTimestamp: '2026-01-31T12:00:00Z', generation: 2}",
        ),
        circuit("simulated: {}"),
        circuit("filecoin: {proof: WindowPoSt, sectorSize: 2KiB, parameters: {url: \"https://h/p\"}}"),
        circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {input: {inline: AAAA}}\nallowInsecureKeys: true"),
    ];
    for manifest in right {
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
