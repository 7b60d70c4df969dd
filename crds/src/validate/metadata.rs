//! The part of `metadata` that users write, checked as an API server checks it for every kind.

use serde_json::{Map, Value};

use super::{MAX_VIOLATIONS, Violation, text};
use crate::rules;

/// All annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The fields of ObjectMeta.
const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Reports what is wrong with `metadata`.
pub(super) fn check(metadata: Option<&Value>, violations: &mut Vec<Violation>) {
    let mut report = |path: &str, message: String| {
        if violations.len() < MAX_VIOLATIONS {
            violations.push(Violation::new(path, message));
        }
    };
    let map = match metadata {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => return report("metadata.name", "is required".to_owned()),
        Some(other) => return report("metadata", format!("must be a mapping, not {}", text::a(other))),
    };
    for key in map.keys().filter(|key| !FIELDS.contains(&key.as_str())).take(MAX_VIOLATIONS) {
        let close = text::did_you_mean(key, FIELDS);
        report(&format!("metadata.{}", text::shown(key)), format!("{}{close}", text::UNKNOWN_FIELD));
    }
    let name = string(map, "name", &mut report);
    let generate = string(map, "generateName", &mut report);
    match (name, generate) {
        (Some(Some(name)), _) => check_name("metadata.name", name, rules::NAME_MAX as usize, true, &mut report),
        (Some(None), Some(None)) => report("metadata.name", "is required".to_owned()),
        _ => {}
    }
    if let Some(Some(namespace)) = string(map, "namespace", &mut report) {
        check_name("metadata.namespace", namespace, 63, false, &mut report);
    }
    for (key, value) in strings(map, "labels", &mut report) {
        check_key("metadata.labels", key, &mut report);
        if value.len() > 63 || !(value.is_empty() || is_qualified(value)) {
            let message = format!(
                "the value {} must have at most 63 letters, digits, '-', '_' and '.', and start and end with a letter or digit",
                text::quoted(value)
            );
            report("metadata.labels", message);
        }
    }
    let mut size = 0;
    for (key, value) in strings(map, "annotations", &mut report) {
        size += key.len() + value.len();
        check_key("metadata.annotations", &key.to_lowercase(), &mut report);
    }
    if size > ANNOTATIONS_MAX {
        report("metadata.annotations", format!("must have at most {ANNOTATIONS_MAX} bytes together, not {size}"));
    }
}

/// `None` after a report; `Some(None)` when absent or empty.
fn string<'a>(
    map: &'a Map<String, Value>,
    name: &str,
    report: &mut impl FnMut(&str, String),
) -> Option<Option<&'a str>> {
    match map.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(other) => {
            let hint = if other.is_number() || other.is_boolean() { " (write it in quotes)" } else { "" };
            report(&format!("metadata.{name}"), format!("must be a string, not {}{hint}", text::a(other)));
            None
        }
    }
}

fn strings<'a>(
    map: &'a Map<String, Value>,
    name: &str,
    report: &mut impl FnMut(&str, String),
) -> Vec<(&'a str, &'a str)> {
    let path = format!("metadata.{name}");
    let entries = match map.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Object(entries)) => entries,
        Some(other) => {
            report(&path, format!("must be a mapping, not {}", text::a(other)));
            return Vec::new();
        }
    };
    let mut result = Vec::new();
    for (key, value) in entries {
        match value {
            Value::String(value) => result.push((key.as_str(), value.as_str())),
            Value::Null => {}
            other => {
                let hint = if other.is_number() || other.is_boolean() { " (write it in quotes)" } else { "" };
                report(
                    &path,
                    format!("the value of {} must be a string, not {}{hint}", text::quoted(key), text::a(other)),
                );
            }
        }
    }
    result
}

fn check_name(path: &str, name: &str, max: usize, dots: bool, report: &mut impl FnMut(&str, String)) {
    if name.len() > max {
        report(path, format!("must have at most {max} characters, not {}", name.len()));
    } else if !is_name(name) || (!dots && name.contains('.')) {
        let allowed =
            if dots { "lower-case letters, digits, '-' and '.'" } else { "lower-case letters, digits and '-'" };
        let message =
            format!("{} must consist of {allowed}, and start and end with a letter or digit", text::quoted(name));
        report(path, message);
    }
}

fn check_key(path: &str, key: &str, report: &mut impl FnMut(&str, String)) {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|p| p.len() <= 253 && is_name(p));
    if !prefix_fits || name.len() > 63 || !is_qualified(name) {
        report(path, format!("the key {} must be NAME or DOMAIN/NAME, such as example.com/team", text::quoted(key)));
    }
}

/// A DNS-1123 subdomain.
fn is_name(text: &str) -> bool {
    let edge = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.split('.').map(str::as_bytes).all(|label| {
        label.first().is_some_and(edge) && label.last().is_some_and(edge) && label.iter().all(|c| edge(c) || *c == b'-')
    })
}

/// The name part of a label's key, or a label's value that is not empty.
fn is_qualified(text: &str) -> bool {
    let edge = u8::is_ascii_alphanumeric;
    let text = text.as_bytes();
    text.first().is_some_and(edge)
        && text.last().is_some_and(edge)
        && text.iter().all(|c| edge(c) || b"-_.".contains(c))
}
