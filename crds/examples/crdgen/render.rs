//! Definitions as files: sorted keys, so that a change of the types is a small change of the file.

use std::path::{Path, PathBuf};

use proofmill_crds::schema::{Definition, definitions};
use serde_json::{Map, Value, json};

/// Where the definitions stand for `kubectl apply`.
pub const YAML: &str = "crds/yaml";

/// Where they stand as templates of a chart.
pub const CHART: &str = "charts/proofmill-crds/templates";

/// All files, by their path within `root`, the project's folder.
///
/// # Errors
/// A text that Helm would take for a template's action.
pub fn files(root: &Path) -> std::io::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for Definition { file, crd, .. } in definitions() {
        files.push((root.join(YAML).join(file), yaml(&crd)?));
        files.push((root.join(CHART).join(file), template(&crd)?));
    }
    Ok(files)
}

/// Helm uninstalls what it has installed, and Argo CD prunes what has gone from git: with a definition goes every object of
/// its kind, so both are told to keep them.
fn template(crd: &Value) -> std::io::Result<String> {
    let mut crd = crd.clone();
    crd["metadata"]["annotations"] = json!({
        "argocd.argoproj.io/sync-options": "Prune=false",
        "helm.sh/resource-policy": "keep",
    });
    let text = yaml(&crd)?;
    if text.contains("{{") {
        return Err(std::io::Error::other("a definition holds {{, which Helm would evaluate"));
    }
    Ok(text)
}

fn yaml(crd: &Value) -> std::io::Result<String> {
    let body = serde_saphyr::to_string(&sorted(crd)).map_err(std::io::Error::other)?;
    Ok(format!("# Made from the types in crds/src by: cargo run --release -p proofmill-crds --example crdgen\n{body}"))
}

/// Some crates of a workspace may switch serde_json to insertion order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}
