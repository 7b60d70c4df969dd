//! A proof's files: `proof.json` and `public.json` in snarkjs's form, `proof.bin` in the API's canonical bytes.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use proofmill_engine::job::PartitionProof;
use proofmill_groth16::format::public;
use proofmill_groth16::proof::Proof;

use crate::error::CliError;

/// Writes a job's proofs, one per partition in their order, into `folder`: `proof.bin` holds them one after the other;
/// a single Groth16 proof also becomes `proof.json` and `public.json`. Returns the path of the proof to show.
pub fn write_proofs(folder: &Path, proofs: &[&PartitionProof]) -> Result<PathBuf, CliError> {
    std::fs::create_dir_all(folder).map_err(|e| cannot("create", folder, &e))?;
    let binary = folder.join("proof.bin");
    let bytes: Vec<u8> = proofs.iter().flat_map(|proved| proved.proof.to_bytes()).collect();
    write_atomically(&binary, &bytes)?;
    let [PartitionProof { proof: proof @ Proof::Groth16 { .. }, public_signals, .. }] = proofs else {
        return Ok(binary);
    };
    write_atomically(&folder.join("public.json"), public::to_json(public_signals).as_bytes())?;
    let path = folder.join("proof.json");
    write_atomically(&path, proof.to_json().map_err(|e| CliError::Engine(e.to_string()))?.as_bytes())?;
    Ok(path)
}

/// Puts `bytes` at `path`, whole or not at all.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    replace(path, |file| file.write_all(bytes).map_err(|e| cannot("write", path, &e)))
}

/// Lets `fill` write the new content of `path`: a reader sees the old file or the whole new one, whatever happens.
pub fn replace<T>(path: &Path, fill: impl FnOnce(&mut File) -> Result<T, CliError>) -> Result<T, CliError> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("output");
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(&temporary).map_err(|e| cannot("write", path, &e))?;
    let filled = fill(&mut file).and_then(|value| {
        file.sync_all().and_then(|()| std::fs::rename(&temporary, path)).map_err(|e| cannot("write", path, &e))?;
        Ok(value)
    });
    if filled.is_err() {
        // Nothing half-written stays behind; that this fails too changes nothing.
        let _ = std::fs::remove_file(&temporary);
    }
    filled
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::Engine(format!("cannot {what} {}: {error}; choose another place with --out or make room", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_file_and_leaves_no_litter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("proof.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn says_which_file_could_not_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let error = write_atomically(&dir.path().join("missing/proof.json"), b"x").unwrap_err();
        assert!(error.to_string().contains("missing/proof.json"), "{error}");
        assert_eq!(error.code(), 5);
    }
}
