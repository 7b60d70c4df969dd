//! `prover verify`: a proof against a key and its public signals.

use proofmill_groth16::format::public;
use proofmill_groth16::format::source;
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify as groth16;

use crate::cli::VerifyArgs;
use crate::content;
use crate::error::CliError;
use crate::keyfile;

/// Bytes of a proof file, at most.
const PROOF_LIMIT: u64 = 1 << 20;
/// Bytes of a public.json, at most.
const PUBLIC_LIMIT: u64 = 256 << 20;

/// Exit code 0 and "valid" for a valid proof, 1 for an invalid one, 3 for files that hold no proof, key or signals.
pub fn verify(args: VerifyArgs) -> Result<(), CliError> {
    let bad = |path: &std::path::Path, e: String| CliError::Input(format!("{}: {e}", path.display()));
    let key = keyfile::verifying_key(&args.key)?;
    let bytes = source::read_small(&args.proof, PROOF_LIMIT).map_err(|e| bad(&args.proof, e.to_string()))?;
    let proof =
        if content::is_json_object(&bytes) { Proof::from_json(&bytes) } else { Proof::from_bytes(key.curve(), &bytes) };
    let proof = proof.map_err(|e| bad(&args.proof, e.to_string()))?;
    let signals = source::read_small(&args.public, PUBLIC_LIMIT).map_err(|e| bad(&args.public, e.to_string()))?;
    let signals = public::parse(&signals, key.curve(), key.public()).map_err(|e| bad(&args.public, e.to_string()))?;
    match groth16::verify(&key, &proof, &signals) {
        Ok(true) => {
            println!("valid");
            Ok(())
        }
        Ok(false) => Err(CliError::InvalidProof(format!(
            "INVALID: {} does not prove the signals of {} under {}",
            args.proof.display(),
            args.public.display(),
            args.key.display()
        ))),
        Err(error) => Err(bad(&args.proof, error.to_string())),
    }
}
