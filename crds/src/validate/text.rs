//! Words of messages: values in quotes, kinds of values, suggestions.

use serde_json::Value;

/// How a message about an unknown field starts.
pub(super) const UNKNOWN_FIELD: &str = "unknown field";

/// A value's kind with its article.
pub(crate) fn a(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// Text from outside, printable and short.
pub(crate) fn shown(text: &str) -> String {
    printable(text, 64)
}

/// At most `max` characters of a text, without any that would move a terminal's cursor or hide others.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut printable = String::new();
    for c in text.chars().take(max) {
        match c {
            '"' | '\'' | '\\' => printable.push(c),
            _ => printable.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(max).is_some() {
        printable.push('…');
    }
    printable
}

/// As [`shown`], in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text))
}

/// `; did you mean "X"?` with the candidate that is nearest, if one is near; otherwise nothing.
pub(crate) fn did_you_mean<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    if text.len() > 64 {
        return String::new();
    }
    let lower = text.to_lowercase();
    let distance = |candidate: &&str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    match candidates.into_iter().map(|c| (distance(&c), c)).min() {
        Some((distance, candidate)) if distance <= candidate.len().max(3) / 3 => {
            format!("; did you mean \"{candidate}\"?")
        }
        _ => String::new(),
    }
}
