//! Why an engine gives no answer, and whether asking again would help.

use std::time::Duration;

use tonic::{Code, Status};

use super::connect::{Address, ClientConfig};
use crate::grpc::REASON;
use crate::tls::TlsError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not an address.
    #[error("`{0}` is no engine's address; give HOST:PORT, https://HOST:PORT or unix:/PATH")]
    Address(String),
    /// `https` needs certificates, the others have no use for them.
    #[error("{0}")]
    TlsSettings(&'static str),
    /// Certificates that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The engine refused; trying again will not help.
    #[error("the engine refused: {message}")]
    Refused {
        /// The gRPC code.
        code: Code,
        /// One CamelCase word, such as `Conflict` or `Draining`; may be empty.
        reason: String,
        /// The engine's words.
        message: String,
    },
    /// No engine answers.
    #[error("no engine answers at {address} for {seconds} s now: {message}; is `prover serve` running there?")]
    Unreachable {
        /// Where.
        address: Address,
        /// How long.
        seconds: u64,
        /// The last error.
        message: String,
    },
    /// The engine broke the protocol.
    #[error("the engine's answer makes no sense: {0}; are client and engine of the same version?")]
    Nonsense(String),
}

/// The engine's reasons for having no room.
const FULL: [&str; 2] = ["QueueFull", "InputMemory"];

/// Who can mend an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Whoever chose the settings or wrote the request: it can never be right.
    Request,
    /// Whoever chose the input.
    Input,
    /// The engine, or the way to it: the same request may succeed later or elsewhere.
    Engine,
}

impl ClientError {
    /// Who can mend it.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Address(_) | Self::TlsSettings(_) | Self::Tls(_) => Blame::Request,
            Self::Refused { code, message, .. } => match code {
                // The protocol has the field's path first.
                Code::InvalidArgument if message.starts_with("input") => Blame::Input,
                Code::InvalidArgument | Code::AlreadyExists => Blame::Request,
                // A message over the limit: nothing in it but the input grows that far.
                Code::OutOfRange => Blame::Input,
                _ => Blame::Engine,
            },
            Self::Unreachable { .. } | Self::Nonsense(_) => Blame::Engine,
        }
    }

    /// One CamelCase word for it: the engine's reason, where it gave one.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused { reason, .. } if !reason.is_empty() => reason,
            Self::Refused { .. } => "Refused",
            Self::Unreachable { .. } => "Unreachable",
            Self::Nonsense(_) => "Nonsense",
            Self::Address(_) | Self::TlsSettings(_) | Self::Tls(_) => "Settings",
        }
    }

    /// Whether the engine has no room now: some of its work must end first.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if FULL.contains(&reason.as_str()))
    }
}

/// After the last try, `waited` after the engine's last sign: an engine that answers but refuses is not unreachable.
pub(super) fn give_up(config: &ClientConfig, status: &Status, waited: Duration) -> ClientError {
    if is_transient(status) && reason(status).is_empty() {
        let address = config.address.clone();
        ClientError::Unreachable { address, seconds: waited.as_secs(), message: words(status) }
    } else {
        refused(status)
    }
}

/// Whether the same request may succeed a little later, at the same engine.
pub(super) fn is_transient(status: &Status) -> bool {
    match reason(status) {
        "Draining" => false,
        "UnknownPartition" => true, // its result went between submission and watch: submit again
        "TooManyWatches" | "WatchLagged" | "Stopping" => true,
        reason if FULL.contains(&reason) => true,
        // `Unknown` is what a connection that breaks in the middle of a stream becomes.
        _ => match status.code() {
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => true,
            // With a cause it comes from this side: the connection broke, or the other side speaks no HTTP/2.
            Code::Internal => std::error::Error::source(status).is_some(),
            _ => false,
        },
    }
}

fn reason(status: &Status) -> &str {
    status.metadata().get(REASON).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

pub(super) fn refused(status: &Status) -> ClientError {
    ClientError::Refused { code: status.code(), reason: reason(status).to_owned(), message: words(status) }
}

/// The status's message with its causes: "transport error" alone helps nobody.
fn words(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_blames_someone() {
        let refusal = |code, reason: &str, message: &str| ClientError::Refused {
            code,
            reason: reason.into(),
            message: message.into(),
        };
        for (code, reason, message, blame, full) in [
            (Code::InvalidArgument, "InvalidArgument", "input.inline: has 0 bytes", Blame::Input, false),
            (Code::InvalidArgument, "InvalidArgument", "circuit.name: is input", Blame::Request, false),
            (Code::AlreadyExists, "Conflict", "", Blame::Request, false),
            (Code::OutOfRange, "", "message length too large", Blame::Input, false),
            (Code::FailedPrecondition, "StaleEpoch", "", Blame::Engine, false),
            (Code::Unavailable, "Draining", "", Blame::Engine, false),
            (Code::ResourceExhausted, "QueueFull", "", Blame::Engine, true),
            (Code::ResourceExhausted, "InputMemory", "", Blame::Engine, true),
            (Code::ResourceExhausted, "TooManyWatches", "", Blame::Engine, false),
            (Code::Unimplemented, "", "", Blame::Engine, false),
        ] {
            let error = refusal(code, reason, message);
            assert_eq!((error.blame(), error.is_full()), (blame, full), "{error:?}");
            assert_eq!(error.reason(), if reason.is_empty() { "Refused" } else { reason });
        }
        assert_eq!(ClientError::TlsSettings("no").blame(), Blame::Request);
        assert_eq!(ClientError::Nonsense(String::new()).blame(), Blame::Engine);
    }
}
