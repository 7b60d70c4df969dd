//! Mutual TLS for gRPC: the engine shows its certificate and accepts one client, the operator, by name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

use crate::config::{OPERATOR_NAME, TlsFiles};

/// Files are looked at again at most this often.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The TLS settings of the listener; reads the files again when they change.
pub(crate) struct Tls {
    files: TlsFiles,
    state: Mutex<State>,
}

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read as PEM of the right kind.
    #[error("{}: {problem}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate, key and authorities do not fit together.
    #[error("certificate {} and key {} cannot be served: {problem}", files.certificate.display(), files.key.display())]
    Unfit {
        /// Which files.
        files: TlsFiles,
        /// What is wrong with them.
        problem: String,
    },
}

struct State {
    config: Arc<ServerConfig>,
    stamp: [Option<SystemTime>; 3],
    looked: Instant,
}

/// Accepts what the inner verifier accepts, if it is the operator's.
#[derive(Debug)]
struct OnlyOperator {
    inner: Arc<dyn ClientCertVerifier>,
    name: ServerName<'static>,
}

impl Tls {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        // The stamp is older than the content, never newer: a change in between is seen at the next look.
        let stamp = stamp(&files);
        let config = server_config(&files)?;
        Ok(Self { files, state: Mutex::new(State { config, stamp, looked: Instant::now() }) })
    }

    /// The settings for the next connection. Files that changed and cannot be served leave the old settings in place: a
    /// rotation writes several files, one after the other.
    pub fn current(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK_AGAIN {
            state.looked = Instant::now();
            let stamp = stamp(&self.files);
            if stamp != state.stamp {
                match server_config(&self.files) {
                    Ok(config) => {
                        tracing::info!("read the changed TLS files");
                        (state.config, state.stamp) = (config, stamp);
                    }
                    Err(error) => tracing::warn!(%error, "the changed TLS files cannot be served; the old ones go on"),
                }
            }
        }
        Arc::clone(&state.config)
    }
}

impl ClientCertVerifier for OnlyOperator {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &self.name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The cryptography of both sides; named here, so that no process-wide default decides.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The certificates of a PEM file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let problem = |problem: String| TlsError::File { path: path.to_owned(), problem };
    let list = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| problem(format!("{error}; it must be a PEM file of certificates")))?;
    if list.is_empty() {
        return Err(problem("holds no certificate; it must be a PEM file with `BEGIN CERTIFICATE`".to_owned()));
    }
    Ok(list)
}

/// The first private key of a PEM file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::File {
        path: path.to_owned(),
        problem: format!("{error}; it must be a PEM file with a private key"),
    })
}

/// The authorities of a PEM file.
pub(crate) fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| TlsError::File {
            path: path.to_owned(),
            problem: format!("holds a certificate that cannot be an authority: {error}"),
        })?;
    }
    Ok(Arc::new(roots))
}

fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let unfit = |problem: String| TlsError::Unfit { files: files.clone(), problem };
    let inner = WebPkiClientVerifier::builder_with_provider(authorities(&files.client_ca)?, provider())
        .build()
        .map_err(|error| unfit(error.to_string()))?;
    let name = ServerName::try_from(OPERATOR_NAME).map_err(|error| unfit(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(error.to_string()))?
        .with_client_cert_verifier(Arc::new(OnlyOperator { inner, name }))
        .with_single_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|error| unfit(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// When each file last changed.
fn stamp(files: &TlsFiles) -> [Option<SystemTime>; 3] {
    [&files.certificate, &files.key, &files.client_ca]
        .map(|path| std::fs::metadata(path).and_then(|m| m.modified()).ok())
}
