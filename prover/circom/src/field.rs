//! Elements of the scalar fields as plain integers in four little-endian limbs: circom's primes, reading, negating.

use num_bigint::BigUint;
use proofmill_groth16::curve::Curve;

use crate::error::ValueProblem;

/// Little-endian limbs of a plain integer below 2^256.
pub(crate) type Limbs = [u64; 4];

/// Decimal digits of 2^256 - 1; no value below a prime has more.
const MAX_DECIMAL: usize = 78;

/// Hexadecimal digits of 2^256 - 1.
const MAX_HEX: usize = 64;

/// r of BN254.
const BN254: Limbs = [0x43e1_f593_f000_0001, 0x2833_e848_79b9_7091, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029];

/// r of BLS12-381.
const BLS12381: Limbs = [0xffff_ffff_0000_0001, 0x53bd_a402_fffe_5bfe, 0x3339_d808_09a1_d805, 0x73ed_a753_299d_7d48];

/// The other primes that circom's `--prime` takes, in hexadecimal, as its generators state them.
const REFUSED: [(&str, &str); 6] = [
    ("bls12377", "12ab655e9a2ca55660b44d1e5c37b00159aa76fed00000010a11800000000001"),
    ("goldilocks", "ffffffff00000001"),
    ("grumpkin", "30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47"),
    ("pallas", "40000000000000000000000000000000224698fc094cf91b992d30ed00000001"),
    ("vesta", "40000000000000000000000000000000224698fc0994a8dd8c46eb2100000001"),
    ("secq256r1", "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff"),
];

/// The scalar field's modulus.
pub(crate) const fn modulus(curve: Curve) -> Limbs {
    match curve {
        Curve::Bn254 => BN254,
        Curve::Bls12381 => BLS12381,
    }
}

/// The curve whose scalar field has this modulus, or the prime's name for a message. `words` are little-endian.
pub(crate) fn curve_of_prime(words: &[u32]) -> Result<Curve, String> {
    let prime = BigUint::from_slice(words);
    for curve in [Curve::Bn254, Curve::Bls12381] {
        if prime == to_integer(modulus(curve)) {
            return Ok(curve);
        }
    }
    let hex = prime.to_str_radix(16);
    Err(match REFUSED.iter().find(|(_, refused)| *refused == hex) {
        Some((name, _)) => (*name).to_owned(),
        None => format!("the unknown prime 0x{hex}"),
    })
}

/// Reads a decimal integer with an optional minus sign, or hexadecimal digits after `0x`.
pub(crate) fn parse(text: &str, modulus: &Limbs) -> Result<Limbs, ValueProblem> {
    if text.is_empty() {
        return Err(ValueProblem::Empty);
    }
    if let Some(digits) = strip_hex(text) {
        return parse_digits(digits, 16, modulus);
    }
    if text.starts_with('+') {
        return Err(ValueProblem::Plus);
    }
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if strip_hex(digits).is_some() {
        return Err(ValueProblem::NegativeHex);
    }
    let value = parse_digits(digits, 10, modulus)?;
    Ok(if negative { negate(value, modulus) } else { value })
}

/// Whether `a` is below `b`.
pub(crate) fn is_below(a: &Limbs, b: &Limbs) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

/// The decimal digits of a number in little-endian words.
pub(crate) fn decimal(words: &[u32]) -> String {
    BigUint::from_slice(words).to_str_radix(10)
}

fn strip_hex(text: &str) -> Option<&str> {
    text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
}

fn parse_digits(digits: &str, radix: u32, modulus: &Limbs) -> Result<Limbs, ValueProblem> {
    if digits.is_empty() || !digits.bytes().all(|byte| char::from(byte).is_digit(radix)) {
        return Err(not_an_integer(digits));
    }
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok([0; 4]);
    }
    // Bounded before it is converted: conversion takes quadratic time.
    if digits.len() > if radix == 16 { MAX_HEX } else { MAX_DECIMAL } {
        return Err(ValueProblem::TooLarge);
    }
    let integer = BigUint::parse_bytes(digits.as_bytes(), radix).ok_or(ValueProblem::NotInteger)?;
    let mut limbs = [0; 4];
    let mut words = integer.iter_u64_digits();
    for limb in &mut limbs {
        *limb = words.next().unwrap_or(0);
    }
    if words.next().is_some() || !is_below(&limbs, modulus) {
        return Err(ValueProblem::TooLarge);
    }
    Ok(limbs)
}

/// Why digits are none: says what a user most likely wrote.
fn not_an_integer(digits: &str) -> ValueProblem {
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.trim_start_matches(['+', '-']))),
        None => (digits, None),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (mantissa, None),
    };
    match (numeric(integer), fraction, exponent) {
        (true, Some(fraction), None) if fraction.is_empty() || numeric(fraction) => ValueProblem::Fraction,
        (true, _, Some(exponent)) if numeric(exponent) => ValueProblem::Exponent,
        _ => ValueProblem::NotInteger,
    }
}

/// The modulus less `value`, which is below it.
fn negate(value: Limbs, modulus: &Limbs) -> Limbs {
    if value == [0; 4] {
        return value;
    }
    let mut result = [0; 4];
    let mut borrow = false;
    for ((limb, left), right) in result.iter_mut().zip(modulus).zip(value) {
        let (difference, first) = left.overflowing_sub(right);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        *limb = difference;
        borrow = first || second;
    }
    result
}

fn to_integer(limbs: Limbs) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64) + *limb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_integers_around_the_modulus() {
        for curve in [Curve::Bn254, Curve::Bls12381] {
            let r = modulus(curve);
            let last = to_integer(r) - 1u32;
            let below = |text: &str| parse(text, &r).map(to_integer);
            assert_eq!(below(&last.to_str_radix(10)), Ok(last.clone()));
            assert_eq!(below(&format!("0x{}", last.to_str_radix(16))), Ok(last.clone()));
            assert_eq!(below(&format!("0x{}", last.to_str_radix(16).to_uppercase())), Ok(last.clone()));
            assert_eq!(below(&format!("{:0>400}", last.to_str_radix(10))), Ok(last.clone()));
            assert_eq!(below("-1"), Ok(last.clone()));
            assert_eq!(below(&format!("-{last}")), Ok(BigUint::from(1u32)));
            assert_eq!(below("-18446744073709551616"), Ok(to_integer(r) - (BigUint::from(1u32) << 64)));
            assert_eq!(below("-0"), Ok(BigUint::ZERO));
            for too_large in [
                (&last + 1u32).to_str_radix(10),
                format!("-{}", &last + 1u32),
                format!("0x{:x}", &last + 1u32),
                "9".repeat(78),
                "1".repeat(79),
                "1".repeat(100_000),
                format!("0x{}", "f".repeat(64)),
                format!("0x1{}", "0".repeat(64)),
            ] {
                assert_eq!(parse(&too_large, &r), Err(ValueProblem::TooLarge), "{too_large}");
            }
        }
    }

    #[test]
    fn names_what_is_wrong() {
        for (text, problem) in [
            ("", ValueProblem::Empty),
            ("+1", ValueProblem::Plus),
            ("1.5", ValueProblem::Fraction),
            ("1.", ValueProblem::Fraction),
            ("-1.0", ValueProblem::Fraction),
            ("1e3", ValueProblem::Exponent),
            ("1.5E-3", ValueProblem::Exponent),
            ("-0x1", ValueProblem::NegativeHex),
            ("0x", ValueProblem::NotInteger),
            ("0xg", ValueProblem::NotInteger),
            ("-", ValueProblem::NotInteger),
            ("--1", ValueProblem::NotInteger),
            (" 1", ValueProblem::NotInteger),
            ("1 ", ValueProblem::NotInteger),
            ("1n", ValueProblem::NotInteger),
            ("0b1", ValueProblem::NotInteger),
            ("ff", ValueProblem::NotInteger),
            ("١", ValueProblem::NotInteger),
            ("1_000", ValueProblem::NotInteger),
            ("Infinity", ValueProblem::NotInteger),
            ("e", ValueProblem::NotInteger),
        ] {
            assert_eq!(parse(text, &BN254), Err(problem), "{text}");
        }
    }

    #[test]
    fn names_circoms_other_primes() {
        let words = |hex: &str| BigUint::parse_bytes(hex.as_bytes(), 16).unwrap().to_u32_digits();
        for (name, hex) in REFUSED {
            assert_eq!(curve_of_prime(&words(hex)), Err(name.to_owned()));
        }
        assert_eq!(curve_of_prime(&[7]), Err("the unknown prime 0x7".to_owned()));
        assert_eq!(curve_of_prime(&[]), Err("the unknown prime 0x0".to_owned()));
        assert_eq!(curve_of_prime(&to_integer(BN254).to_u32_digits()), Ok(Curve::Bn254));
        assert_eq!(curve_of_prime(&to_integer(BLS12381).to_u32_digits()), Ok(Curve::Bls12381));
    }
}
