//! Writes the CustomResourceDefinitions to `crds/yaml`:
//! `cargo run --release -p proofmill-crds --example crdgen`.

use std::path::Path;

mod render;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("yaml");
    std::fs::create_dir_all(&folder)?;
    for definition in proofmill_crds::schema::definitions() {
        let path = folder.join(definition.file);
        std::fs::write(&path, render::yaml(&definition.crd)?)?;
        println!("{}", path.display());
    }
    Ok(())
}
