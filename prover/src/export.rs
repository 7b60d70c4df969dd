//! `prover export`: parts of a key in the forms that other tools read.

use crate::cli::ExportVkArgs;
use crate::error::CliError;
use crate::keyfile;
use crate::output::write_atomically;

/// The verifying key as snarkjs's verification_key.json.
pub fn verifying_key(args: ExportVkArgs) -> Result<(), CliError> {
    let json = keyfile::verifying_key(&args.key)?.to_json();
    match args.out {
        Some(path) => write_atomically(&path, json.as_bytes()),
        None => {
            println!("{json}");
            Ok(())
        }
    }
}
