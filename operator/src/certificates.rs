//! Certificates of the link between operator and engines: from what a Secret holds and the time to what it should hold, and
//! when to look again. Nothing here reads a clock or a cluster.
//!
//! - [`authority()`]: the operator's own authority (CA), in a Secret of the operator's namespace, and its rotation.
//! - [`leaf()`]: an engine's server certificate, in a Secret of the pool's namespace, and the operator's client
//!   certificate, which each replica makes for itself and keeps in memory.
//!
//! Both answer with a [`Planned`]: write `data` if `write` says so (with the resourceVersion that was read: of two replicas
//! one wins, the other reads again), and call again at `look_again`.

mod authority;
mod leaf;
mod pair;

use std::collections::BTreeMap;
use std::fmt;

pub use authority::{Authority, authority};
pub use leaf::{Identity, OPERATOR_NAME, leaf};

/// A Secret's `data`, decoded.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// Key of a certificate, PEM, in a Secret: the name that Secrets of the type `kubernetes.io/tls` use.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of a private key, PEM (PKCS #8), in a Secret.
pub const PRIVATE_KEY: &str = "tls.key";
/// Key of the authorities, PEM, that the other side's certificate may be signed by.
pub const AUTHORITIES: &str = "ca.crt";

/// Certificates begin this much before they are made, seconds, for peers whose clocks are behind.
const BACKDATED: i64 = 300;

/// How long things hold, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of an authority.
    pub authority: i64,
    /// Of a certificate that it signs.
    pub leaf: i64,
    /// From the moment that an authority is trusted until it signs: the time in which every pod gets the new list. Kubelets
    /// refresh mounted Secrets within about two minutes; a node that was cut off takes longer.
    pub spread: i64,
}

impl Default for Lifetimes {
    fn default() -> Self {
        const DAY: i64 = 24 * 3600;
        Self { authority: 3650 * DAY, leaf: 30 * DAY, spread: DAY }
    }
}

/// What a Secret should hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// All of it.
    pub data: SecretData,
    /// Why it must be written; none if it holds that already.
    pub write: Option<Cause>,
    /// When something will be due, seconds since 1970.
    pub look_again: i64,
    /// When the certificate runs out, seconds since 1970.
    pub ends: i64,
}

/// Why a Secret is written. Holds nothing secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was none.
    Missing,
    /// It could not be read; what is wrong with it.
    Damaged(String),
    /// A third of the life was left, or less.
    Due,
    /// It was made for another name, or signed by another authority than the present one.
    Outdated,
    /// Another step of a rotation: which authorities are trusted has changed.
    Trust,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there was none"),
            Self::Damaged(problem) => write!(f, "it was damaged: {problem}"),
            Self::Due => f.write_str("it was due for renewal"),
            Self::Outdated => f.write_str("it was for another name or by another authority"),
            Self::Trust => f.write_str("the trusted authorities changed"),
        }
    }
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A name that cannot stand in a certificate.
    #[error("{name} is not a DNS name of at most 253 characters, labels at most 63: give the pool a shorter name")]
    Name {
        /// The name.
        name: String,
    },
    /// The cryptography failed.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}
