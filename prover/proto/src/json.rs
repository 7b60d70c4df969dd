//! How enum fields look in the JSON of `GET /status`: as words.

use serde::Serializer;

pub(crate) fn priority<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(crate::names::priority(*value))
}

pub(crate) fn state<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(crate::names::state(*value))
}
