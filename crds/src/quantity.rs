//! Quantities as Kubernetes writes them: `2`, `500m`, `16Gi`. A plain integer may stand without quotes.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::rules;

/// An amount of a resource, as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// `1`
    Integer(i64),
    /// `16Gi`
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// The schema of any quantity that is not negative.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    int_or_string(rules::QUANTITY)
}

/// The schema of a number of bytes: what Kubernetes and the prover's flags both understand.
pub(crate) fn size(_: &mut SchemaGenerator) -> Schema {
    int_or_string(rules::SIZE)
}

/// The schema of quantities by the resource's name.
pub(crate) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": quantity(generator),
        "maxProperties": rules::RESOURCES_MAX,
    })
}

fn int_or_string(pattern: &str) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "minimum": 0,
        "maxLength": rules::QUANTITY_MAX,
        "pattern": pattern,
    })
}
