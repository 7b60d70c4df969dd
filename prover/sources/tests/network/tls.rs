//! HTTPS with a private certificate authority.

use std::sync::Arc;

use crate::fetching::{get, impatient};
use crate::hostile::{Server, answer, read_head};
use proofmill_sources::policy::Network;
use proofmill_sources::{FetchError, Fetcher, Policy};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// An HTTPS server with a certificate for `name`.
    fn serve(&self, name: &str) -> Server {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(
                    vec![certificate.der().clone()],
                    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
                )
                .unwrap();
        let config = Arc::new(config);
        Server::unread(move |_, stream| {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream.try_clone().unwrap());
            let Some((target, _)) = read_head(&mut tls) else { return };
            match target.as_str() {
                "/plain" => answer(&mut tls, "302 Go", "location: http://127.0.0.1:1/x?secret", b""),
                _ => answer(&mut tls, "200 OK", "", b"over tls"),
            }
            tls.conn.send_close_notify();
            let _ = tls.flush_all();
        })
    }
}

trait FlushAll {
    fn flush_all(&mut self) -> std::io::Result<()>;
}

impl<S: std::io::Read + std::io::Write> FlushAll for rustls::StreamOwned<rustls::ServerConnection, S> {
    fn flush_all(&mut self) -> std::io::Result<()> {
        std::io::Write::flush(self)
    }
}

fn fetcher(ca_file: Option<std::path::PathBuf>) -> Result<Fetcher, FetchError> {
    Fetcher::new(Policy { network: Network { ca_file, ..impatient() }, ..Policy::run("/") })
}

#[test]
fn private_authorities_are_trusted_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    let (authority, other) = (Authority::new(), Authority::new());
    // Two in one bundle, with words around them.
    std::fs::write(&file, format!("# ours\n{}\n{}", other.pem, authority.pem)).unwrap();
    let trusting = fetcher(Some(file)).unwrap();
    let server = authority.serve("localhost");
    let url = |server: &Server, path: &str| format!("https://localhost:{}{path}", server.address.port());
    assert_eq!(get(&trusting, &url(&server, "/x")).unwrap(), b"over tls");

    let start = std::time::Instant::now();
    let error = get(&fetcher(None).unwrap(), &url(&server, "/x?secret")).unwrap_err();
    assert!(matches!(error, FetchError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("--ca-file") && !error.to_string().contains("secret"), "{error}");
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "a certificate is not retried");

    let wrong_name = authority.serve("elsewhere.example");
    assert!(matches!(get(&trusting, &url(&wrong_name, "/x")), Err(FetchError::Tls { .. })));

    let error = get(&trusting, &url(&server, "/plain")).unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }) && error.to_string().contains("away from TLS"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn wrong_ca_files_are_refused_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    assert!(matches!(fetcher(Some(file.clone())), Err(FetchError::Settings(_))));
    for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, text).unwrap();
        let error = fetcher(Some(file.clone())).expect_err(text).to_string();
        assert!(error.contains("ca.pem"), "{error}");
    }
}
