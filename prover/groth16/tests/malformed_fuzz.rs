//! Short random tests of every parser on stable Rust: genuine files, mutated. A failure prints its seed. `fuzz/` runs the
//! same entries under cargo-fuzz.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod parsers;

use std::time::{Duration, Instant};

use common::Parts;
use proofmill_groth16::curve::Curve;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Each parser gets this long, and at least this many inputs.
const TIME: Duration = Duration::from_secs(3);
const LEAST: u64 = 20;
/// No single input may take longer (it takes milliseconds; the machine may be busy).
const LIMIT: Duration = Duration::from_secs(20);

fn fuzz(name: &str, bases: &[Vec<u8>], parse: fn(&[u8])) {
    let first: u64 = rand::random();
    let start = Instant::now();
    let mut count = 0;
    while count < LEAST || start.elapsed() < TIME {
        let seed = first.wrapping_add(count);
        let input = mutated(seed, bases);
        let begin = Instant::now();
        let result = std::panic::catch_unwind(|| parse(&input));
        assert!(result.is_ok(), "{name}: seed {seed} panics");
        assert!(begin.elapsed() < LIMIT, "{name}: seed {seed} takes {:?}", begin.elapsed());
        count += 1;
    }
    println!("{name}: {count} inputs from seed {first}");
    common::assert_no_wild_allocation();
}

/// One of the bases with a few random changes.
fn mutated(seed: u64, bases: &[Vec<u8>]) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut data = bases.choose(&mut rng).unwrap().clone();
    for _ in 0..rng.random_range(1..6) {
        if data.is_empty() {
            break;
        }
        // Half of the changes near the begin, where headers are.
        let span = if rng.random() { data.len().min(800) } else { data.len() };
        let at = rng.random_range(0..span);
        match rng.random_range(0..7) {
            0 => data[at] ^= 1 << rng.random_range(0..8),
            1 => data[at] = rng.random(),
            2 => {
                let word = *[0u32, 1, 2, 3, 0x7fff_ffff, 0x8000_0000, u32::MAX].choose(&mut rng).unwrap();
                let end = (at + 4).min(data.len());
                data[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            3 => {
                let end = (at + 8).min(data.len());
                data[at..end].copy_from_slice(&rng.random::<u64>().to_le_bytes()[..end - at]);
            }
            4 => data.truncate(at),
            5 => {
                let end = (at + rng.random_range(1..64)).min(data.len());
                let piece = data[at..end].to_vec();
                data.splice(at..at, piece);
            }
            _ => {
                let end = (at + rng.random_range(1..64)).min(data.len());
                data.drain(at..end);
            }
        }
    }
    data
}

/// Random changes of a digest-protected header are all the same; these repair the digest.
fn forged_headers() -> Vec<Vec<u8>> {
    let (header, bytes) = common::import(&common::fixture(Curve::Bn254, "chain.zkey")).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut all = vec![bytes.clone()];
    for _ in 0..40 {
        let mut copy = header.clone();
        let entry = rng.random_range(0..copy.entries.len());
        match rng.random_range(0..6) {
            0 => copy.variables = rng.random_range(0..4000),
            1 => copy.public = rng.random_range(0..4000),
            2 => copy.domain_log = rng.random_range(0..40),
            3 => copy.entries[entry].offset = 4096 * rng.random_range(0..500),
            4 => copy.entries[entry].length = rng.random_range(0..1 << 20),
            _ => copy.curve = Curve::Bls12381,
        }
        all.push([&copy.encode()[..], &bytes[4096..]].concat());
    }
    all
}

#[test]
fn zkey() {
    let mut bases: Vec<Vec<u8>> = Curve::ALL.iter().map(|curve| common::fixture(*curve, "chain.zkey")).collect();
    // Small ones, so that many are tried: the sections' payloads are gone, the structure is there.
    for base in bases.clone() {
        let mut parts = Parts::of(&base);
        parts.sections.iter_mut().for_each(|section| section.1.truncate(1000));
        bases.extend(vec![parts.bytes(); 6]);
    }
    fuzz("zkey", &bases, parsers::zkey);
}

#[test]
fn wtns() {
    let bases: Vec<Vec<u8>> = Curve::ALL.iter().map(|curve| common::fixture(*curve, "chain.wtns")).collect();
    fuzz("wtns", &bases, parsers::wtns);
}

#[test]
fn r1cs() {
    let bases: Vec<Vec<u8>> = Curve::ALL.iter().map(|curve| common::chain_r1cs(*curve)).collect();
    fuzz("r1cs", &bases, parsers::r1cs);
}

#[test]
fn sym() {
    let text = (1..200).map(|i| format!("{i},{},0,main.signal[{i}]\n", i % 7)).collect::<String>();
    fuzz("sym", &[text.into_bytes()], parsers::sym);
}

#[test]
fn imported_key() {
    fuzz("imported key", &forged_headers(), parsers::imported_key);
}

#[test]
fn vk_json() {
    let bases: Vec<Vec<u8>> = Curve::ALL.iter().map(|curve| common::fixture(*curve, "vk.json")).collect();
    fuzz("vk.json", &bases, parsers::vk_json);
}

#[test]
fn proof_json() {
    let bases: Vec<Vec<u8>> = Curve::ALL.iter().map(|curve| common::fixture(*curve, "proof.json")).collect();
    fuzz("proof.json", &bases, parsers::proof_json);
}

#[test]
fn public_json() {
    fuzz("public.json", &[common::fixture(Curve::Bn254, "public.json")], parsers::public_json);
}
