//! How a command can end other than well: one message for people and one exit code for scripts.

use std::process::ExitCode;

use proofmill_engine::job::{Failure, FailureKind};

/// Why a command did not succeed. The text says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CliError {
    /// The proof is not valid (`verify`). Exit code 1.
    #[error("{0}")]
    InvalidProof(String),
    /// A flag or a manifest is wrong. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// An input, a key or another file is wrong or missing. Exit code 3.
    #[error("{0}")]
    Input(String),
    /// The witness does not satisfy the circuit. Exit code 4.
    #[error("{0}")]
    Unsatisfied(String),
    /// The engine, a device or the machine failed. Exit code 5.
    #[error("{0}")]
    Engine(String),
    /// Some jobs failed, each with a message of its own. The exit code is the highest of theirs.
    #[error("{failed} of {all} jobs failed")]
    Jobs {
        /// How many.
        failed: usize,
        /// Of how many.
        all: usize,
        /// The exit code.
        code: u8,
    },
    /// The user interrupted. Exit code 130, as shells have it.
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// The exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Self::InvalidProof(_) => 1,
            Self::Usage(_) => 2,
            Self::Input(_) => 3,
            Self::Unsatisfied(_) => 4,
            Self::Engine(_) => 5,
            Self::Jobs { code, .. } => *code,
            Self::Interrupted => 130,
        }
    }
}

impl From<CliError> for ExitCode {
    fn from(error: CliError) -> Self {
        Self::from(error.code())
    }
}

/// The exit code that a failed job asks for.
pub const fn failure_code(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::BadInput | FailureKind::BadKey | FailureKind::InsecureKey | FailureKind::Unavailable => 3,
        FailureKind::UnsatisfiedWitness => 4,
        FailureKind::DeviceFault
        | FailureKind::VerificationFailed
        | FailureKind::MemoryBudget
        | FailureKind::DeadlineExceeded
        | FailureKind::Draining
        | FailureKind::Internal => 5,
        FailureKind::Cancelled => 130,
    }
}

/// The one-word reason that users see.
pub const fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::BadInput => "BadInput",
        FailureKind::BadKey => "BadKey",
        FailureKind::InsecureKey => "InsecureKey",
        FailureKind::Unavailable => "Unavailable",
        FailureKind::UnsatisfiedWitness => "UnsatisfiedWitness",
        FailureKind::DeviceFault => "DeviceFault",
        FailureKind::VerificationFailed => "VerificationFailed",
        FailureKind::MemoryBudget => "MemoryBudget",
        FailureKind::DeadlineExceeded => "DeadlineExceeded",
        FailureKind::Cancelled => "Cancelled",
        FailureKind::Draining => "Draining",
        FailureKind::Internal => "Internal",
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        match failure_code(failure.kind) {
            3 => Self::Input(failure.message),
            4 => Self::Unsatisfied(failure.message),
            130 => Self::Interrupted,
            _ => Self::Engine(failure.message),
        }
    }
}
