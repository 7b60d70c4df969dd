//! Keys as files that a user names: a zkey, an imported key, or a verification_key.json, told apart by content.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use proofmill_groth16::format::source::{self, FileSource};
use proofmill_groth16::format::zkey::points;
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::key::layout::MAGIC;
use proofmill_groth16::verifying_key::VerifyingKey;

use crate::content;
use crate::error::CliError;

/// Bytes of a verification_key.json, at most.
const JSON_LIMIT: u64 = 64 << 20;

/// The verifying key in any of the three.
pub fn verifying_key(path: &Path) -> Result<VerifyingKey, CliError> {
    let broken = |e: String| CliError::Input(format!("{}: {e}", path.display()));
    let start = first_bytes(path)?;
    if start.starts_with(&MAGIC) {
        return Ok(ProvingKey::open(path).map_err(|e| broken(e.to_string()))?.verifying_key());
    }
    if start.starts_with(b"zkey") {
        let file = FileSource::open(path).map_err(|e| broken(e.to_string()))?;
        return points::verifying_key(&file).map_err(|e| broken(e.to_string()));
    }
    if content::is_json_object(&start) {
        let json = source::read_small(path, JSON_LIMIT).map_err(|e| broken(e.to_string()))?;
        return VerifyingKey::from_json(&json).map_err(|e| broken(e.to_string()));
    }
    Err(broken("this is neither a zkey, nor an imported key, nor a verification_key.json".to_owned()))
}

fn first_bytes(path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut bytes));
    read.map_err(|e| CliError::Input(format!("cannot read {}: {e}", path.display())))?;
    Ok(bytes)
}
