//! What the binary `prover` does, a module per command:
//!
//! - [`run`]: manifests in, verified proofs out, on this machine.
//! - [`serve`], [`submit`], [`status`]: the daemon and its clients (feature `serve`).
//! - [`import`], [`inspect`], [`verify`], [`export`]: keys and proofs as files.
//! - [`mod@bench`], [`dev`]: measurements and development tools.
//!
//! and what they share: [`cli`] (flags), [`manifest`] (documents to submissions), [`circuits`] (how the engine gets its
//! keys and assignments), [`inputs`] (how it gets its inputs), [`content`] (files told apart by their first bytes),
//! [`wiring`] (an engine from flags), [`runtime`] (threads for sockets), [`progress`], [`results`] and [`output`] (what a user
//! sees and keeps).

pub mod bench;
pub mod circuits;
pub mod cli;
pub mod content;
#[cfg(feature = "serve")]
pub mod daemon;
pub mod dev;
pub mod environment;
pub mod error;
pub mod export;
pub mod import;
pub mod inputs;
pub mod inspect;
pub mod interrupt;
pub mod keyfile;
pub mod logging;
pub mod manifest;
pub mod output;
pub mod progress;
pub mod results;
pub mod room;
pub mod run;
#[cfg(feature = "serve")]
pub mod runtime;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub mod status;
#[cfg(feature = "serve")]
pub mod submit;
pub mod verify;
pub mod wiring;

use cli::{Cli, Command, DevCommand, ExportCommand};
use environment::Environment;
use error::CliError;

/// Runs the command that was typed.
pub fn dispatch(cli: Cli, environment: &Environment) -> Result<(), CliError> {
    if !cli.command.is_daemon() {
        interrupt::end_on_broken_pipe()?;
    }
    logging::init(cli.log.as_deref().or(environment.rust_log.as_deref()), cli.log_format)?;
    match cli.command {
        Command::Run(args) => run::run(args, environment),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(args, environment),
        #[cfg(feature = "serve")]
        Command::Submit(args) => submit::submit(args),
        #[cfg(feature = "serve")]
        Command::Status(args) => status::status(args),
        Command::Import(args) => import::import(args, environment),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Verify(args) => verify::verify(args),
        Command::Export(ExportCommand::Vk(args)) => export::verifying_key(args),
        Command::Bench(args) => bench::bench(args),
        Command::Dev(DevCommand::Setup(args)) => dev::setup(args),
    }
}
