//! `prover dev`: tools for development.

use std::io::{BufWriter, Write as _};

use proofmill_groth16::format::r1cs::R1cs;
use proofmill_groth16::format::source::FileSource;
use proofmill_groth16::setup::dev_setup;
use sha2::{Digest as _, Sha256};

use crate::cli::DevSetupArgs;
use crate::error::CliError;
use crate::output;

/// r1cs -> zkey with a known trapdoor. Says loudly what that means.
pub fn setup(args: DevSetupArgs) -> Result<(), CliError> {
    let bad = |e: String| CliError::Input(format!("{}: {e}", args.r1cs.display()));
    let source = FileSource::open(&args.r1cs).map_err(|e| bad(e.to_string()))?;
    let r1cs = R1cs::read(source).map_err(|e| bad(e.to_string()))?;
    let seed = args.seed.map(|number| Sha256::digest(number.to_le_bytes()).into());
    let cannot = |e: std::io::Error| CliError::Engine(format!("cannot write {}: {e}", args.out.display()));
    output::replace(&args.out, |file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        dev_setup(&r1cs, seed, &mut file).map_err(|e| bad(e.to_string()))?;
        file.flush().map_err(cannot)
    })?;
    eprintln!(
        "WARNING: {} is INSECURE. This process knew the trapdoor: whoever has it proves anything. For tests and \
         benchmarks only.",
        args.out.display()
    );
    Ok(())
}
