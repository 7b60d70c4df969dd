//! The walk over a structural schema: nulls, defaults, unknown fields, types, bounds, enums, patterns, formats.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use regex::Regex;
use serde_json::{Map, Value};

use super::{MAX_VIOLATIONS, Violation, text};
use crate::rules;

/// Walks one object.
pub(super) struct Walker<'a> {
    /// The schema's patterns, compiled.
    pub(super) patterns: &'a BTreeMap<String, Regex>,
    /// What was found.
    pub(super) violations: &'a mut Vec<Violation>,
}

impl Walker<'_> {
    /// Checks `value` against `schema` and returns it as the server would store it.
    pub(super) fn walk(&mut self, schema: &Value, value: Value, path: &str) -> Value {
        match (kind(schema), value) {
            (ANYTHING, Value::Object(map)) => Value::Object(map),
            (INT_OR_STRING, Value::String(string)) | ("string", Value::String(string)) => {
                self.string(schema, &string, path);
                Value::String(string)
            }
            (INT_OR_STRING, Value::Number(number)) | ("integer", Value::Number(number)) => {
                self.integer(schema, number, path)
            }
            ("object", Value::Object(map)) => Value::Object(self.object(schema, map, path)),
            ("array", Value::Array(items)) => Value::Array(self.array(schema, items, path)),
            ("boolean", Value::Bool(bool)) => Value::Bool(bool),
            (expected, value) => {
                self.wrong_type(expected, &value, path);
                value
            }
        }
    }

    fn object(&mut self, schema: &Value, mut map: Map<String, Value>, path: &str) -> Map<String, Value> {
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let mut result = Map::new();
        for (name, property) in properties {
            let path = join(path, name);
            // None of our fields is nullable: a null is as good as nothing.
            match map.remove(name).filter(|value| !value.is_null()).or_else(|| property.get("default").cloned()) {
                Some(value) => {
                    let value = self.walk(property, value, &path);
                    result.insert(name.clone(), value);
                }
                None if required(schema, name) => self.report(&path, "is required"),
                None => {}
            }
        }
        if schema["additionalProperties"].is_object() {
            result.extend(self.entries(schema, map, path));
            return result;
        }
        for name in map.keys() {
            if self.is_full() {
                break;
            }
            let close = text::did_you_mean(name, properties.keys().map(String::as_str));
            let known = if close.is_empty() && !properties.is_empty() {
                let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                format!("; known here: {}", names.join(", "))
            } else {
                close
            };
            self.report(&join(path, &text::shown(name)), format!("{}{known}", text::UNKNOWN_FIELD));
        }
        result
    }

    /// The entries of a mapping whose keys are the user's.
    fn entries(&mut self, schema: &Value, map: Map<String, Value>, path: &str) -> Map<String, Value> {
        if let Some(max) = schema["maxProperties"].as_u64()
            && map.len() as u64 > max
        {
            self.report(path, format!("must have at most {max} entries, not {}", map.len()));
            return Map::new();
        }
        let entries = map.into_iter().filter(|(_, value)| !value.is_null());
        entries
            .map(|(key, value)| {
                let value = self.walk(&schema["additionalProperties"], value, &join(path, &text::shown(&key)));
                (key, value)
            })
            .collect()
    }

    fn array(&mut self, schema: &Value, items: Vec<Value>, path: &str) -> Vec<Value> {
        if let Some(max) = schema["maxItems"].as_u64()
            && items.len() as u64 > max
        {
            self.report(path, format!("must have at most {max} items, not {}", items.len()));
            return Vec::new();
        }
        let items: Vec<Value> = items
            .into_iter()
            .enumerate()
            .map(|(index, item)| self.walk(&schema["items"], item, &format!("{path}[{index}]")))
            .collect();
        match (schema["x-kubernetes-list-type"].as_str(), schema["x-kubernetes-list-map-keys"].as_array()) {
            (Some("set"), _) => self.duplicates(&items, path, "is the same", Value::to_string),
            (_, Some(keys)) => {
                let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
                let identity = |item: &Value| keys.iter().map(|key| item[*key].to_string()).collect::<Vec<_>>();
                self.duplicates(&items, path, &format!("has the same {}", keys.join(", ")), identity);
            }
            _ => {}
        }
        items
    }

    fn duplicates<I: Ord>(&mut self, items: &[Value], path: &str, same: &str, identity: impl Fn(&Value) -> I) {
        let mut seen = std::collections::BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            if !seen.insert(identity(item)) {
                self.report(&format!("{path}[{index}]"), format!("another item {same}"));
            }
        }
    }

    fn string(&mut self, schema: &Value, string: &str, path: &str) {
        if let Some(allowed) = schema["enum"].as_array() {
            if !allowed.iter().any(|value| value == string) {
                let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
                let close = text::did_you_mean(string, names.iter().copied());
                self.report(path, format!("{} is not one of {}{close}", text::quoted(string), names.join(", ")));
            }
            return;
        }
        let length = string.chars().count() as u64;
        if let Some(max) = schema["maxLength"].as_u64().filter(|max| length > *max) {
            self.report(path, format!("must have at most {max} characters, not {length}"));
            return;
        }
        if let Some(min) = schema["minLength"].as_u64().filter(|min| length < *min) {
            self.report(
                path,
                if length == 0 {
                    "must not be empty".to_owned()
                } else {
                    format!("must have at least {min} characters")
                },
            );
            return;
        }
        if let Some(pattern) = schema["pattern"].as_str()
            // A pattern that does not compile refuses everything; a test compiles them all.
            && !self.patterns.get(pattern).is_some_and(|regex| regex.is_match(string))
        {
            self.report(path, expectation(pattern));
        }
        if schema["format"] == "date-time" && serde_json::from_value::<Time>(Value::from(string)).is_err() {
            self.report(path, "must be a time such as 2026-01-31T12:00:00Z");
        }
    }

    fn integer(&mut self, schema: &Value, number: serde_json::Number, path: &str) -> Value {
        // JSON knows one kind of number: 3.0 is the integer 3. Beyond 2^53 a float is not exact.
        let float = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() <= 2f64.powi(53));
        let Some(integer) = number.as_i64().or(float.map(|f| f as i64)) else {
            let what = match (kind(schema), number.is_f64()) {
                (INT_OR_STRING, true) => "must be an integer or a string (write it in quotes)",
                (_, true) => "must be an integer",
                _ => "must be an integer of at most 64 bits",
            };
            self.report(path, what);
            return Value::Number(number);
        };
        let bound = |name: &str| schema[name].as_i64();
        let (low, high) = match schema["format"].as_str() {
            Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        let (low, high) = (bound("minimum").unwrap_or(low).max(low), bound("maximum").unwrap_or(high).min(high));
        if integer < low {
            self.report(path, format!("must be at least {low}, not {integer}"));
        } else if integer > high {
            self.report(path, format!("must be at most {high}, not {integer}"));
        }
        Value::from(integer)
    }

    fn wrong_type(&mut self, expected: &str, value: &Value, path: &str) {
        let expected = match expected {
            "object" | ANYTHING => "a mapping",
            INT_OR_STRING => "an integer or a string",
            "array" => "a list",
            "string" => "a string",
            "integer" => "an integer",
            "boolean" => "true or false",
            other => other,
        };
        let hint = match value {
            Value::Bool(_) | Value::Number(_) if expected == "a string" => " (write it in quotes)",
            Value::String(_) if expected == "an integer" || expected == "true or false" => " (write it without quotes)",
            _ => "",
        };
        self.report(path, format!("must be {expected}, not {}{hint}", text::a(value)));
    }

    fn report(&mut self, path: &str, message: impl Into<String>) {
        if !self.is_full() {
            self.violations.push(Violation::new(path, message));
        }
    }

    fn is_full(&self) -> bool {
        self.violations.len() >= MAX_VIOLATIONS
    }
}

/// What [`kind`] says of a mapping of anything.
const ANYTHING: &str = "anything";

/// What [`kind`] says of a quantity.
const INT_OR_STRING: &str = "integer or string";

/// A schema's type, with names for what Kubernetes adds to JSON schema.
fn kind(schema: &Value) -> &str {
    let is = |name: &str| schema[name] == true;
    if is("x-kubernetes-preserve-unknown-fields") {
        ANYTHING
    } else if is("x-kubernetes-int-or-string") {
        INT_OR_STRING
    } else {
        schema["type"].as_str().unwrap_or_default()
    }
}

fn required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What a pattern wants, in words.
fn expectation(pattern: &str) -> String {
    match pattern {
        rules::SHA256 => "must be 64 hexadecimal digits, as sha256sum prints them".to_owned(),
        rules::BASE64 => "must be base64 with padding in one line, as base64 -w0 prints it".to_owned(),
        rules::NAME => {
            "must be a name of lower-case letters, digits, '-' and '.', starting and ending with a letter or digit"
                .to_owned()
        }
        rules::DATA_KEY => "must be a key of letters, digits, '-', '_' and '.'".to_owned(),
        rules::CAMEL_CASE => "must be one word in CamelCase".to_owned(),
        rules::QUANTITY => "must be a quantity such as 2, 500m or 16Gi".to_owned(),
        rules::SIZE => "must be a size such as 512Mi or 16Gi".to_owned(),
        rules::LABEL_VALUE => {
            "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit".to_owned()
        }
        rules::ENV_NAME => "must be a name of letters, digits and '_', not starting with a digit".to_owned(),
        rules::NO_SPACE => "must not hold spaces".to_owned(),
        rules::URL_PREFIX => {
            "must be http(s)://HOST/FOLDER/, s3://BUCKET/FOLDER/, gs:// or az:// alike, without spaces, query, user name or \
             password"
                .to_owned()
        }
        rules::DECIMAL => "must be a decimal number".to_owned(),
        other => format!("must match {other}"),
    }
}
