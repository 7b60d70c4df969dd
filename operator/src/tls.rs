//! How the operator shows itself to engines: mutual TLS from files.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::RunArgs;

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {problem}")]
pub struct TlsError {
    file: String,
    problem: String,
}

/// The client's side; `None` if no files are given.
pub fn client(args: &RunArgs) -> Result<Option<Arc<rustls::ClientConfig>>, TlsError> {
    let (Some(certificate), Some(key), Some(ca)) = (&args.engine_tls_cert, &args.engine_tls_key, &args.engine_ca) else {
        return Ok(None);
    };
    let wrong = |file: &Path, problem: String| TlsError { file: file.display().to_string(), problem };
    let certificates = |file: &Path| {
        CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(file, error.to_string()))
    };
    let mut roots = rustls::RootCertStore::empty();
    for authority in certificates(ca)? {
        roots.add(authority).map_err(|error| wrong(ca, error.to_string()))?;
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(ca, error.to_string()))?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(certificate)?, private)
        .map_err(|error| wrong(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(Arc::new(config)))
}
