//! What a scalar means: the rules of kubectl's YAML library (YAML 1.1), so that a manifest means the same here and there.

use serde_json::{Number, Value};

/// Largest integer that a float holds exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The value of a scalar. `plain` tells one without quotes; `tag` is the core schema's tag that stands before it.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&str>) -> Result<Value, String> {
    let fits = |value: Value, fits: bool, tag: &str| {
        if fits { Ok(value) } else { Err(format!("does not fit its tag !!{tag}")) }
    };
    let value = if plain || tag.is_some_and(|tag| tag != "str") { meaning(text) } else { Value::from(text) };
    match tag {
        None => Ok(value),
        Some("str") => Ok(Value::from(text)),
        Some(tag @ "null") => fits(value.clone(), value.is_null(), tag),
        Some(tag @ "bool") => fits(value.clone(), value.is_boolean(), tag),
        Some(tag @ "int") => fits(value.clone(), value.is_i64() || value.is_u64(), tag),
        Some(tag @ "float") => fits(value.clone(), value.is_number(), tag),
        Some(tag) => {
            Err(format!("the tag !!{} is not supported: write the value without it", crate::validate::shown(tag)))
        }
    }
}

/// A plain scalar's meaning.
fn meaning(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

/// An integer in base 10, 16 (`0x`), 8 (`0o`, or `0` as YAML 1.1 has it) or 2 (`0b`), or a finite float; `_` may stand
/// between digits.
fn number(text: &str) -> Option<Number> {
    if text.len() > 64 || !text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        return None;
    }
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (negative, magnitude) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let based = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)]
        .iter()
        .find_map(|(prefix, base)| Some((magnitude.strip_prefix(prefix)?, *base)));
    let octal = magnitude.strip_prefix('0').filter(|rest| !rest.is_empty()).map(|rest| (rest, 8));
    let (body, base) = based.or(octal).unwrap_or((magnitude, 10));
    if !body.is_empty()
        && body.chars().all(|c| c.is_digit(base))
        && let Ok(value) = u64::from_str_radix(body, base)
    {
        return match (negative, i64::try_from(value)) {
            (false, _) => Some(Number::from(value)),
            (true, Ok(value)) => Some(Number::from(-value)),
            (true, Err(_)) => None,
        };
    }
    // Rust also reads "inf", "nan" and "1e5" without digits before the point; YAML's floats have a digit.
    let float = digits.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && magnitude.chars().any(|c| c.is_ascii_digit())
        && magnitude.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    let value = digits.parse::<f64>().ok().filter(|value| float && value.is_finite())?;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        Some(Number::from(value as i64))
    } else {
        Number::from_f64(value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_mean_what_kubectl_takes_them_for() {
        let cases = [
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("nULL", json!("nULL")),
            ("yes", json!(true)),
            ("off", json!(false)),
            ("True", json!(true)),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("+12", json!(12)),
            ("1_000", json!(1000)),
            ("010", json!(8)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("-0x10", json!(-16)),
            ("08", json!(8)),
            ("1e3", json!(1000)),
            ("3.0", json!(3)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616_f64)),
            (".inf", json!(".inf")),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            ("1.2.3", json!("1.2.3")),
            ("-", json!("-")),
            (".", json!(".")),
            ("1e", json!("1e")),
            ("12ab", json!("12ab")),
            ("2026-01-31T12:00:00Z", json!("2026-01-31T12:00:00Z")),
            ("chain", json!("chain")),
        ];
        for (text, expected) in cases {
            assert_eq!(meaning(text), expected, "{text}");
        }
    }

    #[test]
    fn tags_and_quotes_decide() {
        assert_eq!(resolve("12", false, None), Ok(json!("12")));
        assert_eq!(resolve("12", true, Some("str")), Ok(json!("12")));
        assert_eq!(resolve("12", false, Some("int")), Ok(json!(12)));
        assert!(resolve("x", true, Some("int")).is_err());
        assert!(resolve("x", true, Some("binary")).is_err());
    }
}
