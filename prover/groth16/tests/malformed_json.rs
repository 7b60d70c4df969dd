//! snarkjs's JSON files, genuine and malformed, and the canonical bytes of proofs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use ark_ff::{BigInteger, PrimeField};
use proofmill_groth16::curve::{Bls12381, Bn254, Curve};
use proofmill_groth16::format::public::{self, PublicError};
use proofmill_groth16::point::PointError as P;
use proofmill_groth16::proof::{Proof, ProofError, ProofPoints};
use proofmill_groth16::verifying_key::{VerifyingKey, VerifyingKeyError};
use serde_json::{Value, json};

fn value(curve: Curve, name: &str) -> Value {
    serde_json::from_slice(&common::fixture(curve, name)).unwrap()
}

/// The base field's prime in decimal.
fn q(curve: Curve) -> String {
    match curve {
        Curve::Bn254 => ark_bn254::Fq::MODULUS.to_string(),
        Curve::Bls12381 => ark_bls12_381::Fq::MODULUS.to_string(),
    }
}

/// The scalar field's prime in decimal.
fn r(curve: Curve) -> String {
    match curve {
        Curve::Bn254 => ark_bn254::Fr::MODULUS.to_string(),
        Curve::Bls12381 => ark_bls12_381::Fr::MODULUS.to_string(),
    }
}

/// A point off the subgroup in snarkjs's form.
fn stray_g2(curve: Curve) -> Value {
    let bytes = common::stray_g2(curve);
    let plain: Vec<String> = bytes
        .chunks_exact(curve.base_field_bytes())
        .map(|limbs| {
            let words: Vec<u64> = limbs.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
            match curve {
                Curve::Bn254 => {
                    ark_bn254::Fq::new_unchecked(ark_ff::BigInt(words.try_into().unwrap())).into_bigint().to_string()
                }
                Curve::Bls12381 => ark_bls12_381::Fq::new_unchecked(ark_ff::BigInt(words.try_into().unwrap()))
                    .into_bigint()
                    .to_string(),
            }
        })
        .collect();
    json!([[plain[0], plain[1]], [plain[2], plain[3]], ["1", "0"]])
}

#[test]
fn genuine_proofs_survive_json_bytes_and_points() {
    for curve in Curve::ALL {
        let proof = Proof::from_json(&common::fixture(curve, "proof.json")).unwrap();
        let ours: Value = serde_json::from_str(&proof.to_json().unwrap()).unwrap();
        assert_eq!(ours, value(curve, "proof.json"));
        let Proof::Groth16 { curve: found, bytes } = &proof else { panic!() };
        assert_eq!(*found, curve);
        assert_eq!(bytes.len(), if curve == Curve::Bn254 { 256 } else { 192 });
        assert_eq!(Proof::from_bytes(curve, bytes).unwrap(), proof);
    }
}

/// EIP-197: A.x, A.y, B.x imaginary, B.x real, B.y imaginary, B.y real, C.x, C.y, each 32 bytes big-endian.
#[test]
fn bn254_bytes_are_in_the_order_of_eip_197() {
    let Proof::Groth16 { bytes, .. } = Proof::from_json(&common::fixture(Curve::Bn254, "proof.json")).unwrap() else {
        panic!()
    };
    let json = value(Curve::Bn254, "proof.json");
    let expected: Vec<u8> = [
        &json["pi_a"][0],
        &json["pi_a"][1],
        &json["pi_b"][0][1],
        &json["pi_b"][0][0],
        &json["pi_b"][1][1],
        &json["pi_b"][1][0],
        &json["pi_c"][0],
        &json["pi_c"][1],
    ]
    .into_iter()
    .flat_map(|text| text.as_str().unwrap().parse::<ark_bn254::Fq>().unwrap().into_bigint().to_bytes_be())
    .collect();
    assert_eq!(bytes, expected);
}

/// zcash's form: big-endian x (c1 before c0), flags in the top three bits: compressed, infinity, larger y.
#[test]
fn bls12381_bytes_are_compressed_as_zcash_does() {
    let Proof::Groth16 { bytes, .. } = Proof::from_json(&common::fixture(Curve::Bls12381, "proof.json")).unwrap()
    else {
        panic!()
    };
    let json = value(Curve::Bls12381, "proof.json");
    let x = |text: &Value| text.as_str().unwrap().parse::<ark_bls12_381::Fq>().unwrap().into_bigint().to_bytes_be();
    let expected = [x(&json["pi_a"][0]), x(&json["pi_b"][0][1]), x(&json["pi_b"][0][0]), x(&json["pi_c"][0])].concat();
    let mut plain = bytes.clone();
    for at in [0, 48, 144] {
        assert_eq!(bytes[at] & 0xc0, 0x80, "compressed, not at infinity");
        plain[at] &= 0x1f;
    }
    assert_eq!(plain, expected);
    let y = json["pi_a"][1].as_str().unwrap().parse::<ark_bls12_381::Fq>().unwrap();
    assert_eq!(bytes[0] & 0x20 != 0, y.into_bigint() > (-y).into_bigint());
}

#[test]
fn malformed_proof_bytes_are_refused() {
    let [bn, bls] = Curve::ALL.map(|curve| match Proof::from_json(&common::fixture(curve, "proof.json")).unwrap() {
        Proof::Groth16 { bytes, .. } => bytes,
        Proof::Simulated(_) => panic!(),
    });
    for length in [0, 1, 191, 255, 257] {
        let error = ProofPoints::<Bn254>::from_bytes(&vec![0; length]).unwrap_err();
        assert!(matches!(error, ProofError::Length { .. }));
    }
    assert!(matches!(ProofPoints::<Bn254>::from_bytes(&[0; 256]), Err(ProofError::Point { error: P::Infinity, .. })));
    assert!(matches!(
        ProofPoints::<Bn254>::from_bytes(&[0xff; 256]),
        Err(ProofError::Point { point: "A", error: P::Coordinate })
    ));
    let mut off = bn.clone();
    off[255] ^= 1;
    assert!(matches!(
        ProofPoints::<Bn254>::from_bytes(&off),
        Err(ProofError::Point { point: "C", error: P::OffCurve })
    ));
    // Uncompressed flag, infinity, wrong flags, coordinates beyond q, a point outside the subgroup.
    for (at, byte) in [(0, bls[0] & 0x7f), (0, 0xc0), (0, 0xe0), (144, bls[144] & 0x7f), (48, 0x9f)] {
        let mut bad = bls.clone();
        bad[at] = byte;
        assert!(ProofPoints::<Bls12381>::from_bytes(&bad).is_err(), "byte {at} = {byte:#x}");
    }
    let mut infinity = bls.clone();
    infinity[..48].fill(0);
    infinity[0] = 0xc0;
    assert!(matches!(
        ProofPoints::<Bls12381>::from_bytes(&infinity),
        Err(ProofError::Point { point: "A", error: P::Infinity })
    ));
    let proof = Proof::from_bytes(Curve::Bn254, &bn).unwrap();
    assert!(matches!(proof.points::<Bls12381>(), Err(ProofError::OtherCurve { .. })));
    assert!(matches!(Proof::Simulated(1).to_json(), Err(ProofError::Simulated)));
}

#[test]
fn every_malformed_proof_json_ends_in_its_own_error() {
    for curve in Curve::ALL {
        let genuine = value(curve, "proof.json");
        let fails = |name: &str, path: &str, new: Value, expected: &dyn Fn(&ProofError) -> bool| {
            let mut json = genuine.clone();
            *json.pointer_mut(path).unwrap() = new;
            match Proof::from_json(json.to_string().as_bytes()) {
                Err(error) => assert!(expected(&error), "{name}: {error}"),
                Ok(_) => panic!("{name}: accepted"),
            }
        };
        let json = |e: &ProofError| matches!(e, ProofError::Json(_));
        fails("number, not string", "/pi_a/0", json!(5), &json);
        fails("negative", "/pi_a/0", json!("-5"), &json);
        fails("hexadecimal", "/pi_a/0", json!("0x05"), &json);
        fails("empty", "/pi_a/0", json!(""), &json);
        fails("leading zero", "/pi_a/0", json!("05"), &json);
        fails("too many digits", "/pi_a/0", json!("9".repeat(1000)), &json);
        fails("two coordinates", "/pi_a", json!(["1", "2"]), &json);
        fails("four coordinates", "/pi_a", json!(["1", "2", "1", "1"]), &json);
        fails("null", "/pi_b", Value::Null, &json);
        fails("curve a number", "/curve", json!(7), &json);
        fails("plonk", "/protocol", json!("plonk"), &|e| matches!(e, ProofError::OtherProtocol { .. }));
        fails("bn254x", "/curve", json!("bn254x"), &|e| matches!(e, ProofError::UnknownCurve { .. }));
        let c = |e: &ProofError| matches!(e, ProofError::Point { point: "A", error: P::Coordinate });
        fails("x = q", "/pi_a/0", json!(q(curve)), &c);
        fails("x = 2^384 - 1", "/pi_a/0", json!((num_pow2(384))), &c);
        fails("off the curve", "/pi_a/0", json!("5"), &|e| {
            matches!(e, ProofError::Point { point: "A", error: P::OffCurve })
        });
        fails("(0, 0)", "/pi_c", json!(["0", "0", "1"]), &|e| {
            matches!(e, ProofError::Point { point: "C", error: P::OffCurve })
        });
        fails("infinity", "/pi_c", json!(["0", "1", "0"]), &|e| {
            matches!(e, ProofError::Point { point: "C", error: P::Infinity })
        });
        fails("z = 2", "/pi_c/2", json!("2"), &|e| matches!(e, ProofError::Point { point: "C", error: P::NotAffine }));
        fails("outside the subgroup", "/pi_b", stray_g2(curve), &|e| {
            matches!(e, ProofError::Point { point: "B", error: P::OutsideSubgroup })
        });
    }
    for text in ["", "{", "[]", "null", "{}", "\u{feff}{}", &"[".repeat(100_000)] {
        assert!(matches!(Proof::from_json(text.as_bytes()), Err(ProofError::Json(_))));
    }
}

#[test]
fn every_malformed_verifying_key_ends_in_its_own_error() {
    for curve in Curve::ALL {
        let genuine = value(curve, "vk.json");
        let fails = |name: &str, path: &str, new: Value, expected: &dyn Fn(&VerifyingKeyError) -> bool| {
            let mut json = genuine.clone();
            *json.pointer_mut(path).unwrap() = new;
            match VerifyingKey::from_json(json.to_string().as_bytes()) {
                Err(error) => assert!(expected(&error), "{name}: {error}"),
                Ok(_) => panic!("{name}: accepted"),
            }
        };
        let json = |e: &VerifyingKeyError| matches!(e, VerifyingKeyError::Json(_));
        let point = |kind: P| move |e: &VerifyingKeyError| matches!(e, VerifyingKeyError::Point { error, .. } if *error == kind);
        fails("protocol", "/protocol", json!("fflonk"), &|e| matches!(e, VerifyingKeyError::OtherProtocol { .. }));
        fails("curve", "/curve", json!("secp256k1"), &|e| matches!(e, VerifyingKeyError::UnknownCurve { .. }));
        fails("nPublic 3", "/nPublic", json!(3), &|e| matches!(e, VerifyingKeyError::IcCount { public: 3, .. }));
        fails("nPublic 2^32 - 1", "/nPublic", json!(u32::MAX), &|e| matches!(e, VerifyingKeyError::IcCount { .. }));
        fails("nPublic -1", "/nPublic", json!(-1), &json);
        fails("nPublic 2.5", "/nPublic", json!(2.5), &json);
        fails("IC empty", "/IC", json!([]), &|e| matches!(e, VerifyingKeyError::IcCount { found: 0, .. }));
        fails("IC a number", "/IC/0/0", json!(1), &json);
        fails("alpha = q", "/vk_alpha_1/0", json!(q(curve)), &point(P::Coordinate));
        fails("alpha off the curve", "/vk_alpha_1/0", json!("7"), &point(P::OffCurve));
        fails("alpha at infinity", "/vk_alpha_1", json!(["0", "1", "0"]), &point(P::Infinity));
        fails("IC off the curve", "/IC/1/1", json!("7"), &point(P::OffCurve));
        let infinity = json!([["0", "0"], ["1", "0"], ["0", "0"]]);
        for name in ["/vk_beta_2", "/vk_gamma_2", "/vk_delta_2"] {
            fails(name, name, infinity.clone(), &point(P::Infinity));
            fails(name, name, stray_g2(curve), &point(P::OutsideSubgroup));
            fails(name, name, json!([["1", "0"], ["1", "0"], ["1", "1"]]), &point(P::NotAffine));
        }
        let mut without = genuine.clone();
        without.as_object_mut().unwrap().remove("vk_alphabeta_12");
        VerifyingKey::from_json(without.to_string().as_bytes()).unwrap();
    }
}

#[test]
fn public_signals_are_read_strictly_and_written_as_snarkjs_does() {
    for curve in Curve::ALL {
        let text = common::fixture(curve, "public.json");
        let signals = public::parse(&text, curve, 2).unwrap();
        assert_eq!(public::to_json(&signals).as_bytes(), text.trim_ascii_end());
        let parse = |text: &str| public::parse(text.as_bytes(), curve, 1);
        assert_eq!(parse(r#"["0"]"#).unwrap(), [[0; 4]]);
        for bad in
            ["", "[", "{}", "[1]", r#"["-1"]"#, r#"["0x1"]"#, r#"["1.0"]"#, r#"["1e3"]"#, r#"[" 1"]"#, r#"[null]"#]
        {
            assert!(matches!(parse(bad), Err(PublicError::Json(_))), "{bad}");
        }
        assert!(matches!(parse(&format!("[\"{}\"]", r(curve))), Err(PublicError::NotReduced { index: 0, .. })));
        assert!(matches!(parse("[]"), Err(PublicError::Count { found: 0, expected: 1 })));
        assert!(matches!(parse(r#"["1","2"]"#), Err(PublicError::Count { found: 2, expected: 1 })));
    }
}

/// 2^bits - 1 in decimal.
fn num_pow2(bits: usize) -> String {
    let mut digits = vec![1u8];
    for _ in 0..bits {
        let mut carry = 0;
        for digit in &mut digits {
            let doubled = 2 * *digit + carry;
            *digit = doubled % 10;
            carry = doubled / 10;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    // A power of two ends in 2, 4, 6 or 8.
    digits[0] -= 1;
    digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect()
}
