//! `prover inspect`: what is in a file.

use proofmill_groth16::format::inspect::{self, Summary};
use serde_json::json;

use crate::cli::InspectArgs;
use crate::error::CliError;

/// Prints a table, or a line of JSON, for each file. The first bad file does not keep the others from being shown.
pub fn inspect(args: InspectArgs) -> Result<(), CliError> {
    let mut worst = Ok(());
    for (index, path) in args.files.iter().enumerate() {
        match inspect::inspect(path) {
            Ok(summary) if args.json => println!("{}", json!({"file": path, "summary": summary})),
            Ok(summary) => {
                if index > 0 {
                    println!();
                }
                print!("{}", table(&path.display().to_string(), &summary));
            }
            Err(error) => {
                let error = CliError::Input(format!("{}: {error}", path.display()));
                if worst.is_err() {
                    eprintln!("prover: {error}");
                } else {
                    worst = Err(error);
                }
            }
        }
    }
    worst
}

fn table(file: &str, summary: &Summary) -> String {
    let rows = [("file", file.to_owned())].into_iter().chain(summary.rows());
    rows.map(|(name, value)| format!("{name:<15} {value}\n")).collect()
}
