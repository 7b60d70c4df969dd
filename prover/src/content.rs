//! Files and inputs told apart by their first bytes.

/// Whether this is the text of a JSON object, or begins like one.
pub fn is_json_object(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

#[cfg(test)]
mod tests {
    use super::is_json_object;

    #[test]
    fn the_first_byte_that_is_no_space_counts() {
        for json in ["{}", " \r\n\t{\"a\": 1}", "{ broken"] {
            assert!(is_json_object(json.as_bytes()), "{json:?}");
        }
        for other in ["", "  ", "[{}]", "wtns{", "\"{\""] {
            assert!(!is_json_object(other.as_bytes()), "{other:?}");
        }
    }
}
