//! The operator's side of the mutual TLS with engines.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::{AUTHORITIES, CERTIFICATE, PRIVATE_KEY, SecretData};

/// From what [`crate::certificates::leaf`] made for the operator; the error says which part is wrong.
pub fn client(data: &SecretData) -> Result<Arc<rustls::ClientConfig>, String> {
    let part = |name: &str| data.get(name).map(Vec::as_slice).ok_or_else(|| format!("{name} is missing"));
    let certificates = |name: &str| {
        let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(part(name)?).collect();
        list.map_err(|error| format!("{name}: {error}"))
    };
    let mut roots = rustls::RootCertStore::empty();
    for authority in certificates(AUTHORITIES)? {
        roots.add(authority).map_err(|error| format!("{AUTHORITIES}: {error}"))?;
    }
    let key = PrivateKeyDer::from_pem_slice(part(PRIVATE_KEY)?).map_err(|error| format!("{PRIVATE_KEY}: {error}"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(CERTIFICATE)?, key)
        .map_err(|error| format!("{CERTIFICATE}: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
