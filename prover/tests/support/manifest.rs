//! Manifests as text.

use std::path::Path;

/// A source in YAML's flow form.
pub fn file(path: impl AsRef<Path>) -> String {
    format!("{{url: \"file://{}\"}}", path.as_ref().display())
}

/// A Circuit; `groth16` are the fields of its spec in YAML's flow form.
pub fn circuit(name: &str, groth16: &str) -> String {
    format!(
        "---\napiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: {name}}}\nspec: {{groth16: \
         {{{groth16}}}}}\n"
    )
}

/// A ProofJob; `input` is a source.
pub fn job(name: &str, circuit: &str, input: &str) -> String {
    format!(
        "---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: {name}}}\nspec: {{circuitRef: \
         {{name: {circuit}}}, input: {input}}}\n"
    )
}
