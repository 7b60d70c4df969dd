//! public.json: the values of the public signals as an array of decimal strings.

use super::container::below;
use super::decimal::Decimal;
use crate::curve::Curve;

/// What is wrong with a public.json.
#[derive(Debug, thiserror::Error)]
pub enum PublicError {
    /// Not an array of decimal strings.
    #[error("public signals must be a JSON array of strings of decimal digits, as snarkjs writes it: {0}")]
    Json(String),
    /// A value that is not reduced.
    #[error("public signal {index} is not below the scalar field's prime of {curve}")]
    NotReduced {
        /// Its place, from 0.
        index: usize,
        /// The curve.
        curve: Curve,
    },
    /// Another number of signals than the key has.
    #[error("{found} public signals are given, the key has {expected}; they belong to different circuits")]
    Count {
        /// Signals given.
        found: usize,
        /// Signals of the key.
        expected: usize,
    },
}

/// Reads a public.json: plain values below the modulus, exactly `expected` of them.
pub fn parse(json: &[u8], curve: Curve, expected: usize) -> Result<Vec<[u64; 4]>, PublicError> {
    let signals: Vec<Decimal> = serde_json::from_slice(json).map_err(|error| PublicError::Json(place_of(&error)))?;
    if signals.len() != expected {
        return Err(PublicError::Count { found: signals.len(), expected });
    }
    let modulus = curve.scalar_modulus();
    let value = |(index, signal): (usize, &Decimal)| {
        signal.to_limbs().filter(|limbs| below(limbs, &modulus)).ok_or(PublicError::NotReduced { index, curve })
    };
    signals.iter().enumerate().map(value).collect()
}

/// Writes a public.json of plain values, laid out as snarkjs does.
pub fn to_json(signals: &[[u64; 4]]) -> String {
    let lines: Vec<String> =
        signals.iter().map(|signal| format!(" \"{}\"", Decimal::from_limbs(signal).as_str())).collect();
    format!("[\n{}\n]", lines.join(",\n"))
}

/// Decimal strings of plain values.
pub fn to_strings(signals: &[[u64; 4]]) -> Vec<String> {
    signals.iter().map(|signal| Decimal::from_limbs(signal).as_str().to_owned()).collect()
}

/// Where and of what kind a JSON fault is, without the text itself (it may hold values).
pub(crate) fn place_of(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Io => "it cannot be read",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Eof => "it ends early",
        serde_json::error::Category::Data => "a value has the wrong form",
    };
    format!("{what}, line {}, column {}", error.line(), error.column())
}
