//! Random inputs and random modules, from fixed seeds: equal witnesses for equal inputs in any form, and never a panic,
//! a hang or a witness from damaged bytes that is not well-formed.

use std::time::Duration;

use crate::features::{BN254, NEVER, circuit, features, outcome};
use crate::integer;
use num_bigint::BigUint;
use proofmill_circom::{Limits, WitnessGenerator};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A value and one of its notations.
fn number(rng: &mut ChaCha8Rng, r: &BigUint) -> (BigUint, String) {
    let mut words = [0u32; 8];
    let length = rng.random_range(0..=words.len());
    rng.fill(&mut words[..length]);
    let value = BigUint::from_slice(&words) % r;
    let mut text = match rng.random_range(0..3) {
        0 => format!("0x{}", value.to_str_radix(16)),
        1 if value != BigUint::ZERO => format!("-{}", r - &value),
        _ => value.to_string(),
    };
    if text.starts_with("0x") || rng.random() {
        text = format!("\"{text}\"");
    }
    (value, text)
}

fn array(texts: &[String]) -> String {
    format!("[{}]", texts.join(","))
}

/// A `Point` in one of its forms, as members of the enclosing object if it is not to be nested.
fn point(rng: &mut ChaCha8Rng, values: &[String]) -> String {
    let y = array(&values[1..3]);
    if rng.random() {
        format!("{{\"x\":{},\"y\":{y}}}", values[0])
    } else {
        format!("{{ \"y\" : {y} , \"x\" : [[{}]] }}", values[0])
    }
}

#[test]
fn any_form_of_an_input_gives_the_same_sums() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let generator = features();
    let r: BigUint = BN254.parse().unwrap();
    for round in 0..300 {
        let (values, texts): (Vec<BigUint>, Vec<String>) = (0..32).map(|_| number(&mut rng, &r)).unzip();
        if values[0] == BigUint::ZERO {
            continue;
        }
        let (m, p, q, s) = (&texts[1..7], &texts[7..10], &texts[10..22], &texts[22..32]);
        let mut members = vec![
            format!("\"a\":{}", texts[0]),
            "\"flag\":1".to_owned(),
            if rng.random() {
                format!("\"m\":{}", array(m))
            } else {
                format!("\"m\":[{},{}]", array(&m[..3]), array(&m[3..]))
            },
        ];
        members.push(match rng.random_range(0..3) {
            0 => format!("\"p\":{}", array(p)),
            1 => format!("\"p\":{}", point(&mut rng, p)),
            _ => format!("\"p.y\":{},\"p.x\":{}", array(&p[1..]), p[0]),
        });
        members.push(match rng.random_range(0..3) {
            0 => format!("\"q\":{}", array(q)),
            1 => {
                let points: Vec<String> = q.chunks(3).map(|values| point(&mut rng, values)).collect();
                format!("\"q\":[{},{}]", array(&points[..2]), array(&points[2..]))
            }
            _ => {
                let points: Vec<String> = q.chunks(3).map(|values| point(&mut rng, values)).collect();
                format!("\"q[1]\":{},\"q[0][0]\":{},\"q[0][1]\":{}", array(&points[2..]), points[0], points[1])
            }
        });
        members.push(if rng.random() {
            format!("\"s\":{}", array(s))
        } else {
            let (from, to) = (point(&mut rng, &s[1..4]), [point(&mut rng, &s[4..7]), point(&mut rng, &s[7..10])]);
            format!("\"s\":{{\"to\":{},\"tag\":{},\"from\":{from}}}", array(&to), s[0])
        });
        for index in (1..members.len()).rev() {
            members.swap(index, rng.random_range(0..=index));
        }
        let input = format!("{{{}}}", members.join(", "));
        let witness = outcome(&generator, &input).unwrap_or_else(|error| panic!("round {round}: {error}: {input}"));
        let sum = values.iter().sum::<BigUint>() % &r;
        let weighted = (1u32..).zip(&values).map(|(weight, value)| value * weight).sum::<BigUint>() % &r;
        assert_eq!(integer(witness[1]), sum, "round {round}: {input}");
        assert_eq!(integer(witness[2]), weighted, "round {round}: {input}");
    }
}

#[test]
fn damaged_inputs_never_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let generator = features();
    let good = circuit("features.json");
    let pieces: [&[u8]; 16] = [
        b"\"", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"-", b".", b"e", b"\xff", b"\\ud83d", b"null", b"1e999",
        b"\"a\":",
    ];
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..4) {
                0 => bytes[at] = rng.random(),
                1 => bytes.truncate(at.max(1)),
                2 => drop(bytes.splice(at..at, pieces.choose(&mut rng).unwrap().iter().copied())),
                _ => {
                    let end = (at + rng.random_range(1..40)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    drop(bytes.splice(at..at, part));
                }
            }
        }
        match generator.generate(&bytes, NEVER) {
            Ok(witness) => {
                assert_eq!(witness.values[0], [1, 0, 0, 0]);
                accepted += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 1000 && accepted > 10, "{refused} refused, {accepted} accepted");
}

#[test]
fn damaged_modules_never_panic_or_hang() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let good = circuit("features.wasm");
    let input = circuit("features.json");
    let limits = Limits {
        time: Duration::from_millis(200),
        memory_bytes: 64 << 20,
        witness_values: 1 << 16,
        ..Limits::default()
    };
    let (mut refused, mut wrong) = (0, 0);
    for round in 0..60 {
        let mut bytes = good.clone();
        // Sections and code at the front, sizes and data anywhere.
        let range = if round % 2 == 0 { 2000 } else { bytes.len() };
        for _ in 0..rng.random_range(1..6) {
            let at = rng.random_range(0..range);
            bytes[at] = rng.random();
        }
        match WitnessGenerator::compile(&bytes, limits.clone()) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(generator) => {
                assert!(
                    generator.generate(&input, NEVER).is_ok_and(|witness| witness.values[0] == [1, 0, 0, 0]) || {
                        wrong += 1;
                        true
                    }
                );
            }
        }
    }
    assert!(refused > 10, "{refused} refused, {wrong} failed later");
}
