//! Integers as decimal digits, the way snarkjs's JSON has them. Exact: no floats anywhere.

use serde::de::{Deserialize, Deserializer, Error as _};

/// A non-negative integer in canonical decimal digits: no sign, no leading zero, no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal(String);

/// Digits of the largest number that is of use: 2^384 has 116.
const MAX_DIGITS: usize = 116;

impl Decimal {
    /// Checks the digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = !text.is_empty() && text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        (digits && (text == "0" || !text.starts_with('0'))).then(|| Self(text.to_owned()))
    }

    /// From little-endian limbs.
    pub fn from_limbs(limbs: &[u64]) -> Self {
        let mut rest = limbs.to_vec();
        let mut chunks = Vec::new();
        while rest.iter().any(|limb| *limb != 0) {
            chunks.push(divide(&mut rest, CHUNK));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0width$}", width = CHUNK_DIGITS));
        }
        Self(text)
    }

    /// As `N` little-endian limbs; `None` if it does not fit.
    pub fn to_limbs<const N: usize>(&self) -> Option<[u64; N]> {
        let mut limbs = [0; N];
        for digits in self.0.as_bytes().chunks(CHUNK_DIGITS) {
            let chunk = digits.iter().fold(0u64, |sum, digit| 10 * sum + u64::from(digit - b'0'));
            let factor = 10u64.pow(digits.len() as u32);
            let mut carry = u128::from(chunk);
            for limb in &mut limbs {
                carry += u128::from(*limb) * u128::from(factor);
                *limb = carry as u64;
                carry >>= 64;
            }
            if carry != 0 {
                return None;
            }
        }
        Some(limbs)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("not a string of decimal digits"))
    }
}

/// The largest power of ten in a u64.
const CHUNK_DIGITS: usize = 19;
const CHUNK: u64 = 10u64.pow(CHUNK_DIGITS as u32);

/// Divides in place; the remainder.
fn divide(limbs: &mut [u64], divisor: u64) -> u64 {
    let mut rest = 0u128;
    for limb in limbs.iter_mut().rev() {
        let value = (rest << 64) | u128::from(*limb);
        *limb = (value / u128::from(divisor)) as u64;
        rest = value % u128::from(divisor);
    }
    rest as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_both_ways() {
        for limbs in [[0, 0, 0, 0], [1, 0, 0, 0], [u64::MAX; 4], [0, 1, 0, 0], [CHUNK, 0, 0, 0], [CHUNK - 1, 7, 0, 1]] {
            let decimal = Decimal::from_limbs(&limbs);
            assert_eq!(decimal.to_limbs::<4>(), Some(limbs), "{}", decimal.as_str());
        }
        assert_eq!(Decimal::from_limbs(&[0, 1]).as_str(), "18446744073709551616");
        assert_eq!(Decimal::parse("18446744073709551616").unwrap().to_limbs::<1>(), None);
    }

    #[test]
    fn only_canonical_digits_are_numbers() {
        for bad in ["", "-1", "+1", "01", "0x1", "1e3", "1.0", " 1", "1 ", "١", &"9".repeat(117)] {
            assert_eq!(Decimal::parse(bad), None, "{bad}");
        }
    }
}
