//! Proofmill's operator. Arguments here, everything else in the library.

use std::process::ExitCode;

use clap::Parser as _;
use proofmill_operator::config::{Cli, Command};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(proofmill_operator::run::run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
