//! Manifests as files: several documents, JSON, lists, hostile YAML, random mutations.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;

use proofmill_crds::documents::{ManifestError, check_duplicates, jobs, parse, parse_bytes};
use rand::{Rng as _, SeedableRng as _};

const HEAD: &str = "apiVersion: proofmill.dev/v1alpha1\n";

fn circuit(name: &str) -> String {
    format!("{HEAD}kind: Circuit\nmetadata:\n  name: {name}\nspec:\n  simulated: {{}}\n")
}

fn job(name: &str, circuit: &str) -> String {
    format!(
        "{HEAD}kind: ProofJob\nmetadata:\n  name: {name}\nspec:\n  circuitRef:\n    name: {circuit}\n  input:\n    inline: AAAA\n"
    )
}

fn refusal(text: &str) -> ManifestError {
    match parse(text, "m.yaml") {
        Ok(documents) => panic!("accepted {} documents", documents.len()),
        Err(error) => error,
    }
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = refusal(text).to_string();
    assert!(error.contains(expected), "{error}\nexpected: {expected}");
}

#[test]
fn several_documents_with_numbers_and_lines() {
    let text = format!("# a comment\n---\n---\n{}---\n{}...\n---\n{}", circuit("a"), job("b", "a"), job("c", "a"));
    let documents = parse(&text, "m.yaml").unwrap();
    let found: Vec<_> = documents.iter().map(|d| (d.object.kind(), d.object.name(), d.number, d.line)).collect();
    assert_eq!(found, [("Circuit", "a", 1, 4), ("ProofJob", "b", 2, 11), ("ProofJob", "c", 3, 22)]);
    assert_eq!(jobs(&documents).unwrap().len(), 2);
}

#[test]
fn json_and_streams_of_json() {
    let value = |name: &str| {
        format!(
            "{{\n\t\"apiVersion\": \"proofmill.dev/v1alpha1\", \"kind\": \"Circuit\",\n\t\"metadata\": {{\"name\": \"{name}\", \"annotations\": {{\"a\": \"\\u00e4\\/\\ud834\\udd1e\"}}}},\n\t\"spec\": {{\"simulated\": {{}}}}\n}}"
        )
    };
    let documents = parse(&format!("{}\n{}", value("a"), value("b")), "m.json").unwrap();
    assert_eq!(documents.iter().map(|d| (d.number, d.line)).collect::<Vec<_>>(), [(1, 1), (2, 6)]);
    let error = refusal(&format!("{}{}", value("a"), value("b").replace("simulated", "simulatd")));
    assert!(error.to_string().starts_with("m.yaml:8: Circuit/b: spec.simulatd: unknown field"), "{error}");
    let duplicate = refusal("{\"kind\": \"Circuit\",\n \"kind\": \"ProofJob\"}");
    assert!(
        duplicate.to_string().contains("m.yaml:2: document 1: the key \"kind\" stands twice, first at line 1"),
        "{duplicate}"
    );
}

#[test]
fn a_list_as_kubectl_prints_it() {
    let item = |text: String| text.lines().map(|line| format!("  {line}\n")).collect::<String>().replacen(' ', "-", 1);
    let text = format!(
        "apiVersion: v1\nkind: List\nmetadata: {{resourceVersion: ''}}\nitems:\n{}{}",
        item(circuit("a")),
        item(job("b", "a"))
    );
    let documents = parse(&text, "m.yaml").unwrap();
    assert_eq!(documents.iter().map(|d| d.line).collect::<Vec<_>>(), [5, 11]);
    refused("apiVersion: v1\nkind: List\nitems: []\n", "has no documents");
    refused("apiVersion: v1\nkind: List\nitems: 3\n", "v1/List is not an object of Proofmill");
}

#[test]
fn duplicates_within_and_across_files() {
    let text = format!("{}---\n{}---\n{}", circuit("a"), job("a", "a"), circuit("a"));
    refused(&text, "m.yaml:21: Circuit/a: metadata.name: the same Circuit stands at m.yaml:1 already");
    let mut documents = parse(&circuit("a"), "one.yaml").unwrap();
    documents.extend(parse(&circuit("a"), "two.yaml").unwrap());
    let error = check_duplicates(&documents).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two.yaml:4: Circuit/a: metadata.name: the same Circuit stands at one.yaml:1 already"
    );
    let other = circuit("a").replace("name: a", "name: a\n  namespace: other");
    assert!(parse(&format!("{}---\n{other}", circuit("a")), "m.yaml").is_ok());
    // A namespace that is written out is the same as none.
    let default = circuit("a").replace("name: a", "name: a\n  namespace: default");
    assert!(parse(&format!("{}---\n{default}", circuit("a")), "m.yaml").is_err());
}

#[test]
fn jobs_without_a_circuit() {
    let documents = parse(&format!("{}---\n{}", circuit("chain"), job("b", "chian")), "m.yaml").unwrap();
    assert_eq!(
        jobs(&documents).unwrap_err().to_string(),
        "m.yaml:14: ProofJob/b: spec.circuitRef.name: no Circuit \"chian\" in namespace default is among the given documents; did you mean \"chain\"?"
    );
    let documents = parse(&circuit("chain"), "m.yaml").unwrap();
    assert_eq!(jobs(&documents).unwrap_err().to_string(), "m.yaml: has no ProofJob: nothing to prove");
}

#[test]
fn files_without_documents() {
    for text in ["", "\n", "# only a comment\n", "---\n", "---\n---\n...\n", "null\n", "~"] {
        refused(text, "m.yaml: has no documents");
    }
}

#[test]
fn bytes_that_are_no_text() {
    let error = |bytes: &[u8]| parse_bytes(bytes, "m.yaml").unwrap_err().to_string();
    assert_eq!(error(b"a: b\nc: \xff\n"), "m.yaml:2: is not UTF-8 text: a manifest is YAML or JSON");
    assert_eq!(error(b"\xff\xfea\0"), "m.yaml:1: is UTF-16: save it as UTF-8");
    assert!(parse_bytes(circuit("a").as_bytes(), "m.yaml").is_ok());
}

#[test]
fn byte_order_mark_and_windows_lines() {
    let text = format!("\u{feff}{}---\n{}", circuit("a"), job("b", "a")).replace('\n', "\r\n");
    let documents = parse(&text, "m.yaml").unwrap();
    assert_eq!(documents.iter().map(|d| d.line).collect::<Vec<_>>(), [1, 8]);
    let broken = text.replace("inline: AAAA", "inline: 3");
    assert_eq!(refusal(&broken).problems[0].line, Some(16));
}

#[test]
fn syntax_errors_have_a_line() {
    let cases = [
        (format!("{HEAD}kind: [Circuit\n"), 2),
        (format!("{HEAD}\tkind: Circuit\n"), 2),
        (format!("{HEAD}kind: \"Circuit\nmetadata: 3\n"), 2),
        (format!("{HEAD}kind: a\0b\n"), 2),
        ("a: b\n  c: d\n".to_owned(), 2),
        ("a: *nothing\n".to_owned(), 1),
        ("a: }\n".to_owned(), 1),
        ("%YAML 9.9\nx\n".to_owned(), 1),
    ];
    for (text, line) in cases {
        let error = refusal(&text);
        let problem = error.problems.last().unwrap();
        assert!(problem.message.starts_with("not valid YAML: "), "{text}\n{error}");
        assert!(!problem.message.contains("\\'") && !problem.message.ends_with('…'), "{error}");
        assert!(problem.line.unwrap().abs_diff(line) <= 1, "{text}\n{error}");
    }
}

#[test]
fn keys() {
    refused("a: 1\nb: 2\na: 3\n", "m.yaml:3: document 1: the key \"a\" stands twice, first at line 1");
    refused("{a: 1, a: 2}\n", "stands twice");
    refused("[a]: 1\n", "a key must be a string, not a list or mapping");
    refused("? {a: b}\n: 1\n", "a key must be a string");
    refused("a: &x b\n*x : 1\n", "a key must be a string, not an alias");
}

#[test]
fn tags() {
    refused("a: !secret b\n", "the tag \"!secret\" is not supported");
    refused("a: !!binary AAAA\n", "the tag \"!!binary\" is not supported");
    refused("a: !!int b\n", "does not fit its tag !!int");
    refused("a: !x [b]\n", "the tag \"!x\" is not supported");
    let text = job("b", "!!str chain").replace("spec:", "spec: !!map");
    assert!(parse(&text, "m.yaml").is_ok());
}

#[test]
fn anchors_and_merges_as_in_yaml() {
    let text = format!(
        "{HEAD}kind: Circuit
metadata: {{name: a}}
spec:
  groth16:
    zkey: &key {{url: 'file:k', sha256: {hex}}}
    r1cs: *key
    symbols: {{<<: *key, url: 'file:s'}}
",
        hex = "ab".repeat(32)
    );
    let documents = parse(&text, "m.yaml").unwrap();
    let proofmill_crds::Object::Circuit(circuit) = &documents[0].object else { panic!("not a circuit") };
    let groth16 = circuit.spec.groth16.as_ref().unwrap();
    assert_eq!(groth16.r1cs.as_ref(), Some(&groth16.zkey));
    assert_eq!(groth16.symbols.as_ref().unwrap().url, "file:s");
    assert_eq!(groth16.symbols.as_ref().unwrap().sha256, groth16.zkey.sha256);
    refused("a: {<<: 3}\n", "<< must merge a mapping");
    refused("a: &a [*a]\n", "an alias must not refer to a list or mapping that it is part of");
    // An anchor ends with its document.
    refused("a: &a b\n---\nc: *a\n", "not valid YAML");
}

#[test]
fn aliases_that_multiply() {
    let mut bomb = "a0: &a0 [xxxxxxxxxxxxxxxx,xxxxxxxxxxxxxxxx,xxxxxxxxxxxxxxxx]\n".to_owned();
    for i in 1..40 {
        let _ = writeln!(bomb, "a{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 9].join(","));
    }
    refused(&bomb, "too many once aliases are expanded");
    let mut tower = "a0: &a0 []\n".to_owned();
    for i in 1..5000 {
        let _ = writeln!(tower, "a{i}: &a{i} [*a{}]", i - 1);
    }
    refused(&tower, "nested deeper than 48 levels once aliases are expanded");
}

#[test]
fn deep_nesting() {
    for depth in [60, 1000, 200_000] {
        let flow = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let maps = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for text in [flow, maps, "- ".repeat(depth), "? ".repeat(depth), "[".repeat(depth), "{".repeat(depth)] {
            let error = refusal(&text).to_string();
            assert!(error.len() < 400, "{error}");
        }
    }
    let block: String = (0..2000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    refused(&block, "m.yaml:");
}

#[test]
fn size_and_number_are_bounded() {
    refused(&" ".repeat((16 << 20) + 1), "split it");
    refused(&format!("[{}]", "[],".repeat(2_000_000)), "too many values");
    refused(&format!("[{}]", "{a: 1},".repeat(1_000_000)), "too many values");
    let many: String = (0..10_001).map(|i| format!("{}---\n", circuit(&format!("c{i}")))).collect();
    refused(&many, "more than 10000");
    let wide = format!("{}  extra: [{}]\n", circuit("a"), "1,".repeat(100_000));
    refused(&wide, "spec.extra: unknown field");
    // Errors are bounded too.
    let wrong: String = (0..200).map(|i| format!("{}---\n", job(&format!("j{i}"), "UPPER"))).collect();
    let error = refusal(&wrong);
    assert_eq!(error.problems.len(), 200);
    assert!(error.to_string().ends_with("and 150 more problems"), "{error}");
    let unknown: String = (0..1000).map(|i| format!("  f{i}: 1\n")).collect();
    assert!(refusal(&format!("{}{unknown}", circuit("a"))).problems.len() <= 50);
    let labels: String = (0..100_000).map(|i| format!("-{i}: -,")).collect();
    let text = circuit("a").replace("name: a", &format!("name: a\n  labels: {{{labels}}}"));
    assert!(refusal(&text).problems.len() <= 50);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    for text in [
        format!("{}  \"\\e[31m\\nred\": 1\n", circuit("a")),
        format!("{HEAD}kind: \"\\e[31m\"\n"),
        job("b", "\"\\e[31m\""),
        circuit("\"\\e[31m\\n\""),
        "a: 1\n\"\\e\": 2\n\"\\e\": 3\n".to_owned(),
    ] {
        let error = refusal(&text).to_string();
        assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
        assert_eq!(error.lines().count(), refusal(&text).problems.len(), "{error:?}");
    }
}

/// Never a panic, a hang or an empty error, whatever is done to a manifest.
#[test]
fn random_mutations() {
    let seed = 0x70726f6f66;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let base = format!(
        "{}---\n{}---\n{}",
        circuit("chain"),
        job("first", "chain"),
        include_str!("../../examples/input-json.yaml")
    );
    let tokens: [&[u8]; 24] = [
        b"---\n",
        b": ",
        b"- ",
        b"[",
        b"]",
        b"{",
        b"}",
        b"&a ",
        b"*a",
        b"<<: ",
        b"\t",
        b"\0",
        b"\n",
        b"\r\n",
        b"\"",
        b"'",
        b"|\n",
        b">-\n",
        b"!!int ",
        b"? ",
        b"# ",
        b"\xef\xbb\xbf",
        b"null",
        b"1e999",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..3_000 {
        let mut bytes = base.clone().into_bytes();
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..5) {
                0 => bytes[at] = rng.random(),
                1 => drop(bytes.remove(at)),
                2 => {
                    let token = tokens[rng.random_range(0..tokens.len())];
                    bytes.splice(at..at, token.iter().copied());
                }
                3 => {
                    let end = (at + rng.random_range(1..40)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = rng.random_range(0..bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        match parse_bytes(&bytes, "m.yaml") {
            Ok(documents) => {
                accepted += 1;
                assert!(!documents.is_empty(), "seed {seed} round {round}");
                let _ = jobs(&documents);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.problems.is_empty() && !error.to_string().is_empty(), "seed {seed} round {round}");
                let lines = bytes.split(|c| *c == b'\n' || *c == b'\r').count() + 1;
                assert!(
                    error.problems.iter().all(|p| p.line.is_none_or(|l| l <= lines)),
                    "seed {seed} round {round}: {error}"
                );
            }
        }
    }
    assert!(accepted > 25 && refused > 500, "{accepted} accepted, {refused} refused");
}
