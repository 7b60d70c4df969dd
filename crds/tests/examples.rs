//! Each file in `examples/` parses, validates and names files that exist.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use proofmill_crds::{
    Object,
    documents::{Document, jobs, parse_bytes},
};

fn folder() -> PathBuf {
    PathBuf::from("../examples")
}

fn read(name: &str) -> Vec<Document> {
    let bytes = std::fs::read(folder().join(name)).unwrap();
    parse_bytes(&bytes, name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_example_is_a_complete_manifest() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let documents = read(&name);
        assert!(!jobs(&documents).unwrap_or_else(|error| panic!("{error}")).is_empty(), "{name}: no job");
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "bls12381.yaml",
            "inline.yaml",
            "input-json.yaml",
            "object-store.yaml",
            "pool.yaml",
            "quickstart.yaml",
            "simulated.yaml"
        ]
    );
}

#[test]
fn files_of_examples_exist() {
    let mut files = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let Some((_, file)) = line.split_once("url: file:") {
                assert!(folder().join(file).is_file(), "{}: {file} does not exist", path.display());
                files += 1;
            }
        }
    }
    assert!(files >= 10, "{files}");
}

#[test]
fn the_quickstart_is_a_circuit_and_a_job() {
    let documents = read("quickstart.yaml");
    let [circuit, job] = documents.as_slice() else { panic!("{} documents", documents.len()) };
    assert_eq!((circuit.object.kind(), circuit.object.name()), ("Circuit", "chain"));
    assert_eq!((job.object.kind(), job.object.name()), ("ProofJob", "first"));
    let jobs = jobs(&documents).unwrap();
    assert_eq!(jobs.len(), 1);
    let key = &jobs[0].circuit.spec.groth16.as_ref().unwrap().zkey;
    assert_eq!(key.url, "file:../tests/fixtures/circom/chain/bn128/chain.zkey");
    assert_eq!(jobs[0].job.spec.input.url.as_deref(), Some("file:../tests/fixtures/circom/chain/bn128/chain.wtns"));
}

#[test]
fn the_inline_input_is_the_input_file() {
    let documents = read("inline.yaml");
    let Object::ProofJob(job) = &documents[1].object else { panic!("not a job") };
    let file = std::fs::read(folder().join("../tests/fixtures/circom/chain/input.json")).unwrap();
    assert_eq!(job.spec.input.inline_bytes(), Some(file));
}
