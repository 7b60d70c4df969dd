//! A certificate with its private key, read from a Secret or made.

use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;

use super::{BACKDATED, CertificateError, SecretData};

/// A certificate.
pub(super) struct Certificate {
    pub pem: String,
    pub der: CertificateDer<'static>,
    /// When it was made.
    pub made: i64,
    /// The first second in which it does not hold any more.
    pub ends: i64,
}

/// A certificate with its key.
pub(super) struct Pair {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Certificate {
    /// From a Secret; the error says what is wrong, without any of the content.
    pub fn read(data: &SecretData, name: &str) -> Result<Self, String> {
        let bytes = data.get(name).ok_or_else(|| format!("{name} is missing"))?;
        let der = CertificateDer::from_pem_slice(bytes).map_err(|_| format!("{name} is not a certificate as PEM"))?;
        let pem = std::str::from_utf8(bytes).map_err(|_| format!("{name} is not text"))?.to_owned();
        Self::of(pem, der).ok_or_else(|| format!("{name} is not an X.509 certificate"))
    }

    /// The fields of the certificate, if it can be parsed.
    pub fn parsed(&self) -> Option<X509Certificate<'_>> {
        x509_parser::parse_x509_certificate(&self.der)
            .ok()
            .filter(|(rest, _)| rest.is_empty())
            .map(|(_, parsed)| parsed)
    }

    /// When a third of its life is left.
    pub const fn due(&self) -> i64 {
        self.ends - (self.ends - self.made) / 3
    }

    fn of(pem: String, der: CertificateDer<'static>) -> Option<Self> {
        let read = Self { pem, der, made: 0, ends: 0 };
        let (begin, end) = {
            let parsed = read.parsed()?;
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp())
        };
        Some(Self { made: begin.saturating_add(BACKDATED), ends: end, ..read })
    }
}

impl Pair {
    /// From a Secret; the error says what is wrong, without any of the content.
    pub fn read(data: &SecretData, certificate_name: &str, key_name: &str) -> Result<Self, String> {
        let certificate = Certificate::read(data, certificate_name)?;
        let key = data.get(key_name).ok_or_else(|| format!("{key_name} is missing"))?;
        let key = std::str::from_utf8(key)
            .ok()
            .and_then(|pem| KeyPair::from_pem(pem).ok())
            .ok_or_else(|| format!("{key_name} is not a private key as PEM"))?;
        let fits = certificate
            .parsed()
            .is_some_and(|parsed| parsed.public_key().raw == key.subject_public_key_info().as_slice());
        if !fits {
            return Err(format!("{key_name} is not the key of {certificate_name}"));
        }
        Ok(Self { certificate, key })
    }

    /// A new key with its certificate, which `sign` signs, valid from about `now` to `ends`.
    pub fn make(
        mut params: CertificateParams,
        now: i64,
        ends: i64,
        sign: impl FnOnce(&CertificateParams, &KeyPair) -> Result<rcgen::Certificate, rcgen::Error>,
    ) -> Result<Self, CertificateError> {
        // Times before 1970 are none that a certificate is made at.
        let time = |at: i64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(at.try_into().unwrap_or_default());
        params.not_before = time(now - BACKDATED);
        params.not_after = time(ends);
        let key = KeyPair::generate()?;
        let made = sign(&params, &key)?;
        let certificate = Certificate { pem: made.pem(), der: made.der().clone(), made: now, ends };
        Ok(Self { certificate, key })
    }

    /// Puts both into a Secret.
    pub fn write(&self, data: &mut SecretData, certificate_name: &str, key_name: &str) {
        data.insert(certificate_name.to_owned(), self.certificate.pem.clone().into_bytes());
        data.insert(key_name.to_owned(), self.key.serialize_pem().into_bytes());
    }
}
