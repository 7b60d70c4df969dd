//! Digests as text.

/// 32 bytes from 64 hexadecimal digits of either case.
pub fn decode_sha256(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

/// Lower-case hexadecimal digits.
pub fn encode(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_refusals() {
        let digest: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!(decode_sha256(&encode(&digest)), Some(digest));
        assert_eq!(decode_sha256(&encode(&digest).to_uppercase()), Some(digest));
        for bad in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(decode_sha256(bad), None);
        }
    }
}
