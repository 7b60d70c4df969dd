//! What npm installed: circuits, circom and snarkjs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages.
pub struct Npm {
    modules: PathBuf,
    snarkjs: PathBuf,
}

impl Npm {
    /// Finds them, or says that the test of that name is skipped.
    pub fn find(test: &str) -> Option<Self> {
        let variable = |name: &str| {
            let value = std::env::var_os(name).map(PathBuf::from);
            if value.is_none() {
                println!("SKIPPED {test}: {name} is not set");
            }
            value
        };
        Some(Self { modules: variable("PROOFMILL_TEST_NPM")?, snarkjs: variable("PROOFMILL_TEST_SNARKJS")? })
    }

    /// A file of a package.
    pub fn file(&self, path: &str) -> PathBuf {
        self.modules.join(path)
    }

    /// Runs snarkjs in a folder; what it printed, as an error unless it exits with 0.
    pub fn snarkjs(&self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        node(&self.snarkjs, folder, arguments)
    }

    /// Whether `snarkjs groth16 verify` accepts a proof; both are asked of it: to say yes and to exit with 0.
    pub fn accepts(&self, folder: &Path, key: &Path, proofs: &str) -> bool {
        let public = format!("{proofs}/public.json");
        let proof = format!("{proofs}/proof.json");
        let said = self.snarkjs(folder, &["groth16", "verify", key.to_str().unwrap(), &public, &proof]);
        said.is_ok_and(|text| text.contains("OK!"))
    }

    /// Compiles a circuit in a folder (circom's WebAssembly sees nothing outside): NAME.r1cs, NAME.sym, NAME_js/NAME.wasm.
    pub fn circom(&self, folder: &Path, name: &str, prime: &str) {
        let source = format!("{name}.circom");
        let arguments = [source.as_str(), "--r1cs", "--wasm", "--sym", "--prime", prime];
        node(&self.file("circom2/cli.js"), folder, &arguments).unwrap();
    }
}

fn node(program: &Path, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("node").arg(program).args(arguments).current_dir(folder).output().expect("node");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}
