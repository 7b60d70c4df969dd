//! `prover run` with keys and inputs from servers: HTTP of our own, S3 of moto.
#![cfg(all(feature = "http", feature = "object-store"))]
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod http;
#[path = "../support/manifest.rs"]
mod manifest;
#[path = "../../sources/tests/moto/mod.rs"]
mod moto;
#[path = "../support/place.rs"]
mod place;
mod s3;

use std::path::Path;

use manifest::{circuit, file, job};
use place::{Place, chain};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a file in hexadecimal.
fn digest(path: &Path) -> String {
    Sha256::digest(std::fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A source with a digest.
fn pinned(url: &str, sha256: &str) -> String {
    format!("{{url: \"{url}\", sha256: \"{sha256}\"}}")
}

/// Writes `manifest.yaml`: the chain circuit's key and one input, job `j`.
fn write(place: &Place, zkey: &str, input: &str) {
    place.write("manifest.yaml", circuit("c", &format!("zkey: {zkey}")) + &job("j", "c", input));
}

/// The proof of job `j` is a proof, of the chain on BN254.
fn assert_proved(place: &Place) {
    let key = chain("bn128").join("vk.json");
    let key = key.to_str().unwrap();
    place
        .run(&["verify", "--key", key, "--proof", "proofs/j/proof.json", "--public", "proofs/j/public.json"])
        .expect(0)
        .says("valid");
    std::fs::remove_dir_all(place.path().join("proofs")).unwrap();
}
