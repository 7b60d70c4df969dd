//! What can go wrong with a fetch. Each message says what, where and what to do; URLs in it are redacted.

use std::path::PathBuf;
use std::time::Duration;

/// Why there are no bytes. URLs are shown without user name, password, query and fragment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Not a URL that any build could fetch.
    #[error("{url}: {why}")]
    BadUrl {
        /// Redacted.
        url: String,
        /// What is wrong and what a right one looks like.
        why: String,
    },
    /// A scheme left out of this build.
    #[error("{url}: this prover was built without {scheme}: URLs; rebuild with `--features {feature}`")]
    NotBuilt {
        /// Redacted.
        url: String,
        /// The scheme.
        scheme: &'static str,
        /// The cargo feature.
        feature: &'static str,
    },
    /// Not in the allow-list.
    #[error("{url} is in none of the allowed prefixes ({allowed}); whoever runs this prover can add one")]
    NotAllowed {
        /// Redacted.
        url: String,
        /// The prefixes, for the message.
        allowed: String,
    },
    /// A host that is, or resolves to, an address that jobs must not reach.
    #[error("{url}: {host} is {address}, {why}; this prover does not send requests there for a job")]
    ForbiddenAddress {
        /// Redacted.
        url: String,
        /// The host as the URL names it.
        host: String,
        /// The address found.
        address: std::net::IpAddr,
        /// What that address is.
        why: &'static str,
    },
    /// A path that leads, or could lead, out of the file root.
    #[error("{url} is not a file beneath {root}: {why}")]
    OutsideRoot {
        /// The URL.
        url: String,
        /// The root.
        root: PathBuf,
        /// What leads out.
        why: &'static str,
    },
    /// Files are switched off.
    #[error("{url}: this prover takes no file: URLs; it was started without a file root")]
    FilesDenied {
        /// The URL.
        url: String,
    },
    /// No such file or object.
    #[error("{url}: not found{hint}")]
    NotFound {
        /// Redacted.
        url: String,
        /// Where it was looked for, or what to check.
        hint: String,
    },
    /// No right to read it.
    #[error("{url}: permission denied; {advice}")]
    PermissionDenied {
        /// Redacted.
        url: String,
        /// What to check.
        advice: String,
    },
    /// A directory, device, fifo, socket or kernel file.
    #[error("{url} is {kind}; only regular files can be read")]
    NotAFile {
        /// The URL.
        url: String,
        /// What it is.
        kind: &'static str,
    },
    /// The file changed under the reader.
    #[error("{url} changed while it was read; start again once nobody writes to it")]
    Changed {
        /// The URL.
        url: String,
    },
    /// More bytes than allowed.
    #[error("{url} has {}, more than the limit of {limit} bytes", known_or_more(*.size))]
    TooLarge {
        /// Redacted.
        url: String,
        /// Its size, where it is known.
        size: Option<u64>,
        /// The limit.
        limit: u64,
    },
    /// Other bytes than the digest says.
    #[error(
        "{url} has the SHA-256 {}, but {} is asked for; the content was replaced, or the digest belongs to another file",
        hex(.actual), hex(.expected)
    )]
    DigestMismatch {
        /// Redacted.
        url: String,
        /// As asked for.
        expected: [u8; 32],
        /// As found.
        actual: [u8; 32],
    },
    /// A final answer of a server that is not the content.
    #[error("{url}: the server answered {status}; {advice}")]
    Status {
        /// Redacted.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What to do.
        advice: &'static str,
    },
    /// A redirect that is not followed.
    #[error("{url}: {why}")]
    Redirect {
        /// Redacted: where the redirect came from.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The server's certificate is not trusted.
    #[error(
        "{url}: {why}; if the server has a certificate of a private authority, pass that authority's certificate with --ca-file"
    )]
    Tls {
        /// Redacted.
        url: String,
        /// What TLS says.
        why: String,
    },
    /// Gave up after retries.
    #[error("{url}: {cause} (tried {attempts} times); check that the server is up and reachable from here")]
    Unavailable {
        /// Redacted.
        url: String,
        /// The last cause.
        cause: String,
        /// Attempts made.
        attempts: u32,
    },
    /// The whole fetch took too long.
    #[error("{url}: not done after {} s, the limit for one fetch; the last trouble was: {cause}", .after.as_secs())]
    TimedOut {
        /// Redacted.
        url: String,
        /// The limit.
        after: Duration,
        /// The last trouble, or how far it came.
        cause: String,
    },
    /// The disk is full.
    #[error("{}: {need} bytes are needed for {url}, {have} are free; free some space or use another folder", .dir.display())]
    DiskFull {
        /// Redacted.
        url: String,
        /// The folder of the temporary file.
        dir: PathBuf,
        /// Bytes needed in all.
        need: u64,
        /// Bytes free.
        have: u64,
    },
    /// Memory could not be had.
    #[error("{url}: no memory for its {need} bytes")]
    OutOfMemory {
        /// Redacted.
        url: String,
        /// Bytes needed.
        need: u64,
    },
    /// Something else that the system said.
    #[error("{url}: {doing}: {source}")]
    Io {
        /// Redacted.
        url: String,
        /// What was being done.
        doing: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// Settings of this prover that can't work.
    #[error("{0}")]
    Settings(String),
    /// The caller's wish.
    #[error("{url}: cancelled")]
    Cancelled {
        /// Redacted.
        url: String,
    },
}

/// What kind of trouble, for exit codes and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The URL is wrong, or refused by this prover's policy: the same request fails again.
    Request,
    /// There, but not the right thing: wrong digest, too large, not a file.
    Content,
    /// Not to be had now: absent, forbidden by the server, down. Another try, later or elsewhere, may help.
    Unavailable,
    /// This machine: disk, memory, settings.
    Machine,
    /// Cancelled by the caller.
    Cancelled,
}

impl FetchError {
    /// What kind of trouble this is.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::BadUrl { .. }
            | Self::NotBuilt { .. }
            | Self::NotAllowed { .. }
            | Self::ForbiddenAddress { .. }
            | Self::OutsideRoot { .. }
            | Self::FilesDenied { .. }
            | Self::Redirect { .. } => ErrorClass::Request,
            Self::NotAFile { .. } | Self::TooLarge { .. } | Self::DigestMismatch { .. } => ErrorClass::Content,
            Self::NotFound { .. }
            | Self::PermissionDenied { .. }
            | Self::Changed { .. }
            | Self::Status { .. }
            | Self::Tls { .. }
            | Self::Unavailable { .. }
            | Self::TimedOut { .. } => ErrorClass::Unavailable,
            Self::DiskFull { .. } | Self::OutOfMemory { .. } | Self::Io { .. } | Self::Settings(_) => {
                ErrorClass::Machine
            }
            Self::Cancelled { .. } => ErrorClass::Cancelled,
        }
    }
}

fn known_or_more(size: Option<u64>) -> String {
    size.map_or_else(|| "no end in sight".to_owned(), |size| format!("{size} bytes"))
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
