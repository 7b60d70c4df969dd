//! The binary `prover`: parses arguments, calls the library, maps the result to an exit code.

use std::process::ExitCode;

use clap::Parser;
use proofmill_prover::cli::Cli;
use proofmill_prover::environment::Environment;

fn main() -> ExitCode {
    quiet_panics();
    let cli = Cli::parse();
    let environment = Environment::read();
    match proofmill_prover::dispatch(cli, &environment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prover: {error}");
            error.into()
        }
    }
}

/// A panic's message could hold a value of an input, which is private: only its place is shown.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("prover: a fault in the program at {place}; please report it with what you ran");
    }));
}
