//! Values of flags: sizes, durations, faults, digests from their text.

use std::time::Duration;

/// The faults that a simulated device can be told to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `prepare` fails.
    Prepare,
    /// A step fails.
    Step,
    /// A step takes a second longer.
    Stall,
    /// `prove_finish` fails.
    Finish,
    /// The proof does not verify.
    InvalidProof,
}

/// Bytes from `4096`, `512MiB`, `16GiB`, `1.5GB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "k" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        "Ti" | "TiB" => 1 << 40,
        _ => return Err(format!("unknown unit {unit:?}; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")),
    };
    let overflow = || "is too large".to_owned();
    match number.split_once('.') {
        None => number.parse::<u64>().map_err(|e| e.to_string())?.checked_mul(factor).ok_or_else(overflow),
        Some((whole, fraction)) => {
            if fraction.is_empty() || fraction.len() > 9 {
                return Err("needs 1 to 9 digits after the point".into());
            }
            let whole = whole.parse::<u64>().map_err(|e| e.to_string())?.checked_mul(factor).ok_or_else(overflow)?;
            let scale = 10u128.pow(fraction.len() as u32);
            let part = u128::from(fraction.parse::<u64>().map_err(|e| e.to_string())?) * u128::from(factor) / scale;
            whole.checked_add(part as u64).ok_or_else(overflow)
        }
    }
}

/// A fault and the partition that meets it, from `step@3`.
pub fn parse_fault(text: &str) -> Result<(u64, FaultKind), String> {
    let wrong = || "needs KIND@N, such as step@3; KIND is prepare, step, stall, finish or invalid-proof".to_owned();
    let (kind, place) = text.split_once('@').ok_or_else(wrong)?;
    let kind = match kind {
        "prepare" => FaultKind::Prepare,
        "step" => FaultKind::Step,
        "stall" => FaultKind::Stall,
        "finish" => FaultKind::Finish,
        "invalid-proof" => FaultKind::InvalidProof,
        _ => return Err(wrong()),
    };
    Ok((place.parse().map_err(|_| wrong())?, kind))
}

/// A duration from `500ms`, `30s`, `10m`, `2h`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| "needs a whole number and a unit, e.g. 500ms, 30s, 10m, 2h")?;
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("needs a unit: ms, s, m or h".into()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(|| "is too long".into())
}

/// A SHA-256 from 64 hexadecimal digits.
pub fn parse_sha256(text: &str) -> Result<[u8; 32], String> {
    proofmill_crds::hex::decode_sha256(text).ok_or_else(|| "needs 64 hexadecimal digits".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_size("2 GB"), Ok(2_000_000_000));
        for bad in ["", "GiB", "1.GiB", "-1", "1e9", "99999999999TiB", "1.0000000001GiB", "7 parsecs", "1..2"] {
            assert!(parse_size(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn faults() {
        assert_eq!(parse_fault("step@3"), Ok((3, FaultKind::Step)));
        assert_eq!(parse_fault("invalid-proof@0"), Ok((0, FaultKind::InvalidProof)));
        for bad in ["", "step", "step@", "step@-1", "melt@1", "@1"] {
            assert!(parse_fault(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        for bad in ["", "10", "m", "1.5s", "-1s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(parse_duration(bad).is_err(), "{bad:?} was taken");
        }
    }
}
