//! Writes the CustomResourceDefinitions to `crds/yaml`:
//! `cargo run --release -p proofmill-crds --example crdgen`.

use std::path::Path;

mod render;

fn main() -> std::io::Result<()> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| std::io::Error::other("run it with cargo"))?;
    let folder = Path::new(&package).join("yaml");
    std::fs::create_dir_all(&folder)?;
    for definition in proofmill_crds::schema::definitions() {
        let path = folder.join(definition.file);
        std::fs::write(&path, render::yaml(&definition.crd)?)?;
        println!("{}", path.display());
    }
    Ok(())
}
