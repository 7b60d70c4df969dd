//! What `prover serve` decides before it binds.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The only client that an engine with mutual TLS accepts.
pub const OPERATOR_NAME: &str = "operator.proofmill.dev";

/// Everything that `serve` needs besides an engine.
#[derive(Clone)]
pub struct ServeConfig {
    /// Where gRPC listens.
    pub grpc: Listen,
    /// Where HTTP listens: plaintext, read-only, no inputs or proofs. `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Certificates for gRPC over TCP.
    pub tls: Option<TlsFiles>,
    /// Lets gRPC listen off loopback without TLS: whoever reaches the port may submit, cancel and drain.
    pub insecure: bool,
    /// Time that work gets to finish after the first signal and after a `Drain` that names none.
    pub drain_grace: Duration,
    /// Time after that in which clients may fetch and acknowledge results.
    pub linger: Duration,
    /// How much clients may take.
    pub limits: Limits,
    /// The binary's version, for `build_info` and status.
    pub version: String,
    /// Settings to show as labels of `proofmill_config_info`; names of [a-z0-9_], no secrets.
    pub settings: Vec<(&'static str, String)>,
    /// Where `VerifyingKey` looks.
    pub verifying_keys: Option<Arc<dyn VerifyingKeys>>,
}

impl ServeConfig {
    /// Listens at `grpc` and `http` with defaults for everything else.
    pub fn new(grpc: Listen, http: Option<SocketAddr>) -> Self {
        Self {
            grpc,
            http,
            tls: None,
            insecure: false,
            drain_grace: Duration::from_secs(25), // a pod has 30 s from SIGTERM to SIGKILL
            linger: Duration::from_secs(3),
            limits: Limits::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: Vec::new(),
            verifying_keys: None,
        }
    }

    /// Whether these settings may be served at all.
    pub fn check(&self) -> Result<(), ConfigError> {
        match (&self.grpc, &self.tls) {
            (Listen::Unix(_), Some(_)) => return Err(ConfigError::TlsOnUnixSocket),
            (Listen::Tcp(address), None) if !address.ip().is_loopback() && !self.insecure => {
                return Err(ConfigError::PlaintextOffLoopback { address: *address });
            }
            _ => {}
        }
        for (name, _) in &self.settings {
            let fine = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if !fine || name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
                return Err(ConfigError::SettingName { name });
            }
        }
        Ok(())
    }
}

/// A place for gRPC to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A socket file, mode 0600.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.strip_prefix("unix:") {
            Some("") => Err(ConfigError::Address { text: text.to_owned() }),
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None => text.parse().map(Self::Tcp).map_err(|_| ConfigError::Address { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// PEM files for mutual TLS. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities of client certificates; several while they rotate.
    pub client_ca: PathBuf,
}

/// How much clients may take. Beyond these they are refused or cut off, never the engine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// gRPC connections.
    pub grpc_connections: usize,
    /// gRPC connections that have not yet shown what they are.
    pub grpc_handshakes: usize,
    /// Requests and watches at once on one gRPC connection.
    pub streams: u32,
    /// Requests being read or answered at once, over all gRPC connections; watches do not count.
    pub requests: usize,
    /// Open watches, over all gRPC connections.
    pub watches: usize,
    /// Time for a TLS handshake and the first bytes.
    pub handshake: Duration,
    /// Time for one request.
    pub request: Duration,
    /// Time that a watch may take nothing although there is something.
    pub watch_stall: Duration,
    /// HTTP connections; one more closes the oldest, so that a probe always gets in.
    pub http_connections: usize,
    /// Time for a request's head, also from the end of the one before it on the same connection.
    pub http_head: Duration,
    /// Age of an HTTP connection.
    pub http_age: Duration,
    /// Time for the engine's answer to an HTTP request.
    pub http_answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            grpc_connections: 128,
            grpc_handshakes: 64,
            streams: 64,
            requests: 64,
            watches: 512,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(30),
            watch_stall: Duration::from_secs(60),
            http_connections: 64,
            http_head: Duration::from_secs(75), // beyond the 60 s after which Prometheus scrapes again at the latest, by habit
            http_age: Duration::from_secs(600),
            http_answer: Duration::from_secs(10),
        }
    }
}

/// Finds verifying keys: the cache of imported keys knows them.
pub trait VerifyingKeys: Send + Sync {
    /// snarkjs's verification_key.json with this SHA-256. Called on a thread that may block.
    fn verifying_key(&self, digest: &[u8; 32]) -> Option<Vec<u8>>;
}

/// Settings that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No address.
    #[error("`{text}` is no place to listen at; give IP:PORT (127.0.0.1:7117, [::1]:7117) or unix:/PATH")]
    Address {
        /// What was given.
        text: String,
    },
    /// Anyone on the network could steer the engine.
    #[error(
        "gRPC at {address} would be open to the network without TLS; give --tls-cert, --tls-key and --tls-client-ca, listen \
         at 127.0.0.1, or accept the risk with --insecure"
    )]
    PlaintextOffLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// TLS has no use there.
    #[error("TLS is for TCP; a unix socket is guarded by its mode 0600, so leave out the --tls options")]
    TlsOnUnixSocket,
    /// Not a label's name.
    #[error("setting `{name}` cannot be a metric label; use [a-z_][a-z0-9_]*")]
    SettingName {
        /// The name.
        name: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("127.0.0.1:7".parse(), Ok(Listen::Tcp(([127, 0, 0, 1], 7).into())));
        assert_eq!("unix:/run/p.sock".parse(), Ok(Listen::Unix("/run/p.sock".into())));
        for bad in ["", "unix:", "7117", "localhost:1", "127.0.0.1", "127.0.0.1:65536", "/run/p.sock"] {
            let error = bad.parse::<Listen>().unwrap_err();
            assert!(error.to_string().contains("unix:/PATH"), "{bad}: {error}");
        }
        assert_eq!(Listen::Unix("/a".into()).to_string(), "unix:/a");
    }

    #[test]
    fn plaintext_stays_on_loopback_unless_told() {
        let open = |address: &str| ServeConfig::new(address.parse().unwrap(), None);
        for fine in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "unix:/x"] {
            assert_eq!(open(fine).check(), Ok(()), "{fine}");
        }
        for bad in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(matches!(open(bad).check(), Err(ConfigError::PlaintextOffLoopback { .. })), "{bad}");
            assert_eq!(ServeConfig { insecure: true, ..open(bad) }.check(), Ok(()), "{bad}");
        }
    }

    #[test]
    fn settings_are_label_names() {
        for (name, fine) in
            [("memory_budget", true), ("a1", true), ("1a", false), ("", false), ("a-b", false), ("A", false)]
        {
            let mut config = ServeConfig::new(Listen::Unix("/x".into()), None);
            config.settings = vec![(name, String::new())];
            assert_eq!(config.check().is_ok(), fine, "{name}");
        }
    }
}
