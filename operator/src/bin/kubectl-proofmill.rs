//! `kubectl proofmill`. Arguments here, everything else in the library.

use std::process::ExitCode;

use clap::Parser as _;
use proofmill_operator::plugin::{self, Cli};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("kubectl proofmill: {error}");
            return ExitCode::from(plugin::TROUBLE);
        }
    };
    match runtime.block_on(plugin::run(cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("kubectl proofmill: {error}");
            ExitCode::from(error.code())
        }
    }
}
