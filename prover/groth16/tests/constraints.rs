//! An r1cs must be that of its key, row by row: what snarkjs made of one compilation passes, any other constraint is named.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod proving;

use common::{Parts, chain_r1cs};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::r1cs::{R1cs, R1csError};
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::key::constraints::{ConstraintsError, Factor};

const CONSTRAINTS: usize = 3000;
/// Where the constraints are.
const SECTION: u32 = 2;
/// A term: its wire, its coefficient.
const TERM: usize = 36;

fn check(key: &ProvingKey, r1cs: &Parts) -> Result<(), ConstraintsError> {
    key.check_constraints(&R1cs::read(&r1cs.bytes()[..]).unwrap(), &|| false)
}

/// The first difference, which there must be.
fn differs(key: &ProvingKey, r1cs: &Parts) -> (u32, Factor) {
    match check(key, r1cs).unwrap_err() {
        ConstraintsError::Constraint { constraint, factor } => (constraint, factor),
        other => panic!("{other}"),
    }
}

/// The bytes of each factor of each constraint: a, b, c.
fn factors(r1cs: &mut Parts) -> Vec<[std::ops::Range<usize>; 3]> {
    let section = r1cs.section(SECTION);
    let mut at = 0;
    let mut factor = || {
        let begin = at;
        at += 4 + TERM * u32::from_le_bytes(section[at..at + 4].try_into().unwrap()) as usize;
        begin..at
    };
    (0..CONSTRAINTS).map(|_| [factor(), factor(), factor()]).collect()
}

/// Makes the first coefficient of a factor 7, which no circuit here has.
fn alter(r1cs: &mut Parts, factor: &std::ops::Range<usize>) {
    assert!(factor.len() > 4, "a factor without terms");
    r1cs.put(SECTION, factor.start + 8, &[0; 32]);
    r1cs.put(SECTION, factor.start + 8, &[7]);
}

#[test]
fn what_was_compiled_together_passes() {
    for curve in Curve::ALL {
        let (key, original) = (proving::chain(curve).key, Parts::of(&chain_r1cs(curve)));
        check(&key, &original).unwrap();

        // The order of terms is free, and terms of one wire add up.
        let mut other = original.clone();
        let several = factors(&mut other).into_iter().flatten().find(|factor| factor.len() > 4 + 2 * TERM).unwrap();
        other.section(SECTION)[several.start + 4..several.end].rotate_left(TERM);
        check(&key, &other).unwrap();
        let (zero, one) = ([0; TERM], factors(&mut other)[0][0].clone());
        let count = (one.len() - 4) / TERM;
        other.section(SECTION).splice(one.end..one.end, zero);
        other.put_u32(SECTION, one.start, count as u32 + 1);
        check(&key, &other).unwrap();
    }
}

#[test]
fn another_constraint_is_named() {
    for curve in Curve::ALL {
        let (key, mut original) = (proving::chain(curve).key, Parts::of(&chain_r1cs(curve)));
        let places = factors(&mut original);
        for number in [0, 1, 1234, 2047, 2048, CONSTRAINTS - 1] {
            for (at, factor) in [(0, Factor::A), (1, Factor::B)] {
                let place = places[number][at].clone();
                let wire = place.start + 4;

                let mut other = original.clone();
                alter(&mut other, &place);
                assert_eq!(differs(&key, &other), (number as u32, factor));

                let mut other = original.clone();
                let was = other.get_u32(SECTION, wire);
                other.put_u32(SECTION, wire, if was == 2900 { 2901 } else { 2900 });
                assert_eq!(differs(&key, &other), (number as u32, factor));

                let mut other = original.clone();
                let count = other.get_u32(SECTION, place.start);
                other.put_u32(SECTION, place.start, count - 1);
                other.section(SECTION).drain(place.end - TERM..place.end);
                assert_eq!(differs(&key, &other), (number as u32, factor));
            }
        }
        // The first of several.
        let mut other = original.clone();
        for number in [700, 30, 2999] {
            alter(&mut other, &places[number][0]);
        }
        assert_eq!(differs(&key, &other), (30, Factor::A));
    }
}

#[test]
fn another_order_is_named_and_says_what_to_do() {
    let (key, mut other) = (proving::chain(Curve::Bn254).key, Parts::of(&chain_r1cs(Curve::Bn254)));
    let places = factors(&mut other);
    let (one, two) = (places[40][0].start..places[40][2].end, places[41][0].start..places[41][2].end);
    let section = other.section(SECTION);
    let swapped = [&section[two.clone()], &section[one.clone()]].concat();
    section[one.start..two.end].copy_from_slice(&swapped);
    let error = check(&key, &other).unwrap_err();
    assert!(matches!(error, ConstraintsError::Constraint { constraint: 40, .. }), "{error}");
    assert!(error.to_string().contains("constraint 40 ") && error.to_string().contains("same compilation"), "{error}");
}

#[test]
fn a_key_holds_no_products_so_that_others_pass() {
    let (key, mut other) = (proving::chain(Curve::Bn254).key, Parts::of(&chain_r1cs(Curve::Bn254)));
    let place = factors(&mut other)[100][2].clone();
    alter(&mut other, &place);
    check(&key, &other).unwrap();
}

#[test]
fn other_sizes_are_refused_before_any_constraint_is_read() {
    let key = proving::chain(Curve::Bn254).key;
    let error = check(&key, &Parts::of(&chain_r1cs(Curve::Bls12381))).unwrap_err();
    assert!(matches!(error, ConstraintsError::Sizes { .. }));
    let text = error.to_string();
    assert!(text.contains("3000 constraints") && text.contains("BLS12-381") && text.contains("BN254"), "{text}");

    let mut fewer = Parts::of(&chain_r1cs(Curve::Bn254));
    fewer.put_u32(1, 60, CONSTRAINTS as u32 - 1);
    assert!(matches!(check(&key, &fewer), Err(ConstraintsError::Sizes { .. })));
}

#[test]
fn it_can_be_cancelled() {
    let (key, bytes) = (proving::chain(Curve::Bn254).key, chain_r1cs(Curve::Bn254));
    let r1cs = R1cs::read(&bytes[..]).unwrap();
    let error = key.check_constraints(&r1cs, &|| true).unwrap_err();
    assert!(matches!(error, ConstraintsError::R1cs(R1csError::Cancelled)));
    let witness = proving::chain(Curve::Bn254).witness;
    assert!(matches!(r1cs.unsatisfied(&witness, &|| true), Err(R1csError::Cancelled)));
}
