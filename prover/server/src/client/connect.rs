//! Where an engine listens, and connections to it: TCP, mutual TLS, unix sockets.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::error::ClientError;
use crate::tls::{TlsError, authorities, certificates, private_key, provider};

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `HOST:PORT` or `http://HOST:PORT`.
    Tcp(String),
    /// `https://HOST:PORT`: mutual TLS.
    Tls(String),
    /// `unix:/PATH`.
    Unix(PathBuf),
}

/// Files and names for mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// The client's certificate chain, PEM; engines accept the name `operator.proofmill.dev` only.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The authorities of the engine's certificate, PEM.
    pub ca: PathBuf,
    /// The name in the engine's certificate; `None`: the host of the address.
    pub server_name: Option<String>,
}

/// How to reach an engine.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where it listens.
    pub address: Address,
    /// For `https`.
    pub tls: Option<ClientTls>,
    /// Time without any sign of the engine after which a call gives up.
    pub patience: Duration,
}

/// What a connection runs over.
pub(super) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    address: Address,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

impl FromStr for Address {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        let (tls, authority) = match text.split_once("://") {
            Some(("http", authority)) => (false, authority),
            Some(("https", authority)) => (true, authority),
            Some(_) => return Err(wrong()),
            None => (false, text),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let parsed: tonic::codegen::http::uri::Authority = authority.parse().map_err(|_| wrong())?;
        if parsed.port_u16().is_none() || parsed.host().is_empty() || authority.contains('@') {
            return Err(wrong());
        }
        Ok(if tls { Self::Tls(authority.to_owned()) } else { Self::Tcp(authority.to_owned()) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => f.write_str(authority),
            Self::Tls(authority) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ClientConfig {
    /// Reaches `address` without TLS, with a minute's patience.
    pub fn new(address: Address) -> Self {
        Self { address, tls: None, patience: Duration::from_secs(60) }
    }
}

impl Connector {
    pub(super) fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        let tls = match (&config.address, &config.tls) {
            (Address::Tls(authority), Some(tls)) => Some(client_tls(authority, tls)?),
            (Address::Tls(_), None) => {
                return Err(ClientError::TlsSettings("an https address needs --tls-cert, --tls-key and --tls-ca"));
            }
            (_, Some(_)) => {
                return Err(ClientError::TlsSettings("the --tls options need an address that begins with https://"));
            }
            (_, None) => None,
        };
        Ok(Self { address: config.address.clone(), tls })
    }

    pub(super) async fn connect(&self) -> std::io::Result<Box<dyn Io>> {
        let tcp = match &self.address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp(authority) | Address::Tls(authority) => TcpStream::connect(authority).await?,
        };
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Box::new(tcp)),
            Some((config, name)) => {
                let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
                Ok(Box::new(connector.connect(name.clone(), tcp).await?))
            }
        }
    }
}

fn client_tls(
    authority: &str,
    tls: &ClientTls,
) -> Result<(Arc<rustls::ClientConfig>, ServerName<'static>), ClientError> {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name)
        .map_err(|_| ClientError::TlsSettings("the engine's name must be a DNS name or an IP address"))?;
    let unfit = |error: rustls::Error| TlsError::File { path: tls.certificate.clone(), problem: error.to_string() };
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_root_certificates(authorities(&tls.ca)?)
        .with_client_auth_cert(certificates(&tls.certificate)?, private_key(&tls.key)?)
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((Arc::new(config), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let fine = [
            ("127.0.0.1:7117", Address::Tcp("127.0.0.1:7117".into())),
            ("http://engine:1", Address::Tcp("engine:1".into())),
            ("https://a.b:443/", Address::Tls("a.b:443".into())),
            ("https://[::1]:443", Address::Tls("[::1]:443".into())),
            ("unix:/run/p", Address::Unix("/run/p".into())),
        ];
        for (text, address) in fine {
            assert_eq!(text.parse::<Address>().unwrap(), address);
        }
        for bad in ["", "unix:", "engine", "http://engine", "ftp://a:1", "u@a:1", "a:1/path", ":1", "http://a b:1"] {
            assert!(matches!(bad.parse::<Address>(), Err(ClientError::Address(_))), "{bad}");
        }
    }

    #[test]
    fn tls_settings_go_with_https() {
        let tls = ClientTls { certificate: "c".into(), key: "k".into(), ca: "a".into(), server_name: None };
        let config = |address: &str, tls| ClientConfig { tls, ..ClientConfig::new(address.parse().unwrap()) };
        assert!(matches!(Connector::new(&config("https://a:1", None)), Err(ClientError::TlsSettings(_))));
        assert!(matches!(Connector::new(&config("a:1", Some(tls.clone()))), Err(ClientError::TlsSettings(_))));
        let error = Connector::new(&config("https://a:1", Some(tls))).err().unwrap();
        assert!(matches!(&error, ClientError::Tls(_)), "{error}");
    }
}
