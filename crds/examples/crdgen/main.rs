//! Writes the CustomResourceDefinitions to `crds/yaml` and to the chart `charts/proofmill-crds`:
//! `cargo run --release -p proofmill-crds --example crdgen`.

use std::path::Path;

mod render;

fn main() -> std::io::Result<()> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| std::io::Error::other("run it with cargo"))?;
    let root = Path::new(&package).join("..");
    for folder in [render::YAML, render::CHART] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    for (path, text) in render::files(&root)? {
        std::fs::write(&path, text)?;
        println!("{}", path.display());
    }
    Ok(())
}
