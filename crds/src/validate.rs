//! What an API server does with an object: nulls dropped, defaults applied, the structural schema walked, unknown fields
//! refused (as kubectl asks it to), then the CEL rules run.
//!
//! kube's `validate_cel` alone ignores the schema, and typed decoding alone ignores bounds, patterns and rules: so this
//! module walks the generated schema itself and evaluates the rules with kube's CEL (crate kube-cel). As at the server,
//! rules run only over objects whose structure is right.

mod metadata;
mod text;
mod walk;

use std::{collections::BTreeMap, sync::OnceLock};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::cel;
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{API_VERSION, Circuit, ProofJob, ProverPool, schema};
pub(crate) use text::{did_you_mean, printable, quoted, shown};

/// An object of the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A circuit.
    Circuit(Box<Circuit>),
    /// A proof job.
    ProofJob(Box<ProofJob>),
    /// A prover pool.
    ProverPool(Box<ProverPool>),
}

/// Something that an API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", self.path, if self.path.is_empty() { "" } else { ": " })]
pub struct Violation {
    /// The field, such as `spec.input.url` or `status.conditions[0].type`; empty for the object itself.
    pub path: String,
    /// What is wrong and what to do. Holds no value of an input.
    pub message: String,
}

/// Most violations that are told of one object's structure; who sends a million unknown fields has his answer by then.
const MAX_VIOLATIONS: usize = 100;

/// A kind's schema, ready for use.
struct Kind {
    name: &'static str,
    schema: Value,
    patterns: BTreeMap<String, Regex>,
    rules: cel::CompiledSchema,
}

/// Validates an object that is to be created: what kubectl's `create` or `apply` of a new object would answer.
///
/// Returns the object with defaults applied. A `status` is checked for unknown fields and dropped, as the API server
/// does.
///
/// # Errors
/// All violations, or only those of the structure when there are such.
pub fn validate(value: &Value) -> Result<Object, Vec<Violation>> {
    run(value, None)
}

/// Validates an object, status included, that is to replace `old`: also the rules about what may change.
///
/// # Errors
/// All violations, or only those of the structure when there are such.
pub fn validate_update(value: &Value, old: &Value) -> Result<Object, Vec<Violation>> {
    run(value, Some(old))
}

fn run(value: &Value, old: Option<&Value>) -> Result<Object, Vec<Violation>> {
    let kind = kind_of(value)?;
    let object = value.as_object().ok_or_else(|| vec![Violation::new("", "must be a mapping")])?;
    let mut violations = Vec::new();
    metadata::check(object.get("metadata"), &mut violations);
    let mut object = object.clone();
    if old.is_none()
        && let Some(status) = object.remove("status")
    {
        dropped(kind, status, &mut violations);
    }
    let normal = structure(kind, &object, &mut violations);
    if !violations.is_empty() {
        return Err(violations);
    }
    let normal = Value::Object(normal);
    let old = match old {
        Some(old) if kind_of(old)?.name != kind.name => return Err(vec![Violation::new("kind", "is immutable")]),
        // The stored object was valid once; only its defaults matter here.
        Some(Value::Object(old)) => Some(Value::Object(structure(kind, old, &mut Vec::new()))),
        _ => None,
    };
    rules(kind, &normal, old.as_ref())?;
    typed(kind, normal)
}

/// The kind that a document names.
fn kind_of(value: &Value) -> Result<&'static Kind, Vec<Violation>> {
    let refuse = |path: &str, message: String| Err(vec![Violation::new(path, message)]);
    let object = value.as_object().ok_or_else(|| {
        vec![Violation::new(
            "",
            format!("must be a mapping with apiVersion, kind, metadata and spec, not {}", text::a(value)),
        )]
    })?;
    let field = |name: &str, example: &str| match object.get(name) {
        Some(Value::String(text)) => Ok(text.as_str()),
        None | Some(Value::Null) => Err(vec![Violation::new(name, format!("is required, such as {example}"))]),
        Some(other) => Err(vec![Violation::new(name, format!("must be a string, not {}", text::a(other)))]),
    };
    let (version, kind) = (field("apiVersion", API_VERSION)?, field("kind", "ProofJob")?);
    let names: Vec<&str> = kinds().iter().map(|k| k.name).collect();
    let of_group = version.split('/').next() == Some(crate::GROUP);
    if version != API_VERSION && !of_group && !names.contains(&kind) {
        let close = did_you_mean(version, [API_VERSION]);
        let message = format!(
            "{}/{} is not an object of Proofmill{close}: its documents have apiVersion {API_VERSION} and kind {}",
            shown(version),
            shown(kind),
            names.join(" or ")
        );
        return refuse("apiVersion", message);
    }
    if version != API_VERSION {
        return refuse("apiVersion", format!("{} is not known: use {API_VERSION}", quoted(version)));
    }
    match kinds().iter().find(|k| k.name == kind) {
        Some(kind) => Ok(kind),
        None => {
            let close = did_you_mean(kind, names.iter().copied());
            refuse("kind", format!("{} is not one of {}{close}", quoted(kind), names.join(", ")))
        }
    }
}

/// A status that is not taken over: only unknown fields count.
fn dropped(kind: &Kind, status: Value, violations: &mut Vec<Violation>) {
    let mut found = Vec::new();
    let mut walker = walk::Walker { patterns: &kind.patterns, violations: &mut found };
    walker.walk(&kind.schema["properties"]["status"], status, "status");
    violations.extend(found.into_iter().filter(|violation| violation.message.starts_with(text::UNKNOWN_FIELD)));
}

/// Nulls dropped, defaults applied, structure checked; the result lacks what is unknown.
fn structure(kind: &Kind, object: &Map<String, Value>, violations: &mut Vec<Violation>) -> Map<String, Value> {
    let mut fields = object.clone();
    let envelope: Vec<(String, Value)> =
        ["apiVersion", "kind", "metadata"].iter().filter_map(|key| fields.remove_entry(*key)).collect();
    let mut walker = walk::Walker { patterns: &kind.patterns, violations };
    let mut normal = match walker.walk(&kind.schema, Value::Object(fields), "") {
        Value::Object(normal) => normal,
        _ => Map::new(),
    };
    normal.extend(envelope);
    normal
}

/// The CEL rules of all levels.
fn rules(kind: &Kind, object: &Value, old: Option<&Value>) -> Result<(), Vec<Violation>> {
    let violation = |error: &cel::ValidationError| match error.kind {
        cel::ErrorKind::ValidationFailure => Violation::new(&error.field_path, error.message.clone()),
        // A rule that can't be evaluated refuses the object, as at the server.
        _ => Violation::new(&error.field_path, "a validation rule could not be evaluated on this value"),
    };
    cel::validate_compiled(&kind.rules, object, old).map_err(|errors| errors.iter().map(violation).collect())
}

fn typed(kind: &Kind, value: Value) -> Result<Object, Vec<Violation>> {
    match kind.name {
        "Circuit" => decode(value).map(Object::Circuit),
        "ProverPool" => decode(value).map(Object::ProverPool),
        _ => decode(value).map(Object::ProofJob),
    }
}

/// Into the Rust type. What the schema allows, the type takes (a test holds them together), but for ill-typed fields of
/// `metadata` that no schema describes.
fn decode<T: DeserializeOwned>(value: Value) -> Result<Box<T>, Vec<Violation>> {
    serde_json::from_value(value).map(Box::new).map_err(|error| vec![Violation::new("metadata", error.to_string())])
}

/// The kinds with their schemas; made once, never changed.
fn kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let kind = |definition: schema::Definition| {
            let schema = definition.schema().clone();
            let mut patterns = BTreeMap::new();
            collect_patterns(&schema, &mut patterns);
            Kind { name: definition.kind, patterns, rules: cel::compile_schema(&schema), schema }
        };
        schema::definitions().into_iter().map(kind).collect()
    })
}

fn collect_patterns(schema: &Value, patterns: &mut BTreeMap<String, Regex>) {
    match schema {
        Value::Object(map) => {
            if let Some(pattern) = map.get("pattern").and_then(Value::as_str)
                && let Ok(regex) = Regex::new(pattern)
            {
                patterns.insert(pattern.to_owned(), regex);
            }
            map.values().for_each(|value| collect_patterns(value, patterns));
        }
        Value::Array(items) => items.iter().for_each(|value| collect_patterns(value, patterns)),
        _ => {}
    }
}

impl Violation {
    /// `message` about the field at `path`.
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl Object {
    /// The kind's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Circuit(_) => "Circuit",
            Self::ProofJob(_) => "ProofJob",
            Self::ProverPool(_) => "ProverPool",
        }
    }

    /// The object's name; empty when the server is to generate one.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// The object's namespace, `default` when it names none.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or("default")
    }

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Circuit(circuit) => &circuit.metadata,
            Self::ProofJob(job) => &job.metadata,
            Self::ProverPool(pool) => &pool.metadata,
        }
    }
}
