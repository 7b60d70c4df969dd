//! Certificates that the authority signs: of engines and of the operator.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose};
use rustls::pki_types::ServerName;
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::pair::Pair;
use super::{
    AUTHORITIES, Authority, CERTIFICATE, Cause, CertificateError, Lifetimes, PRIVATE_KEY, Planned, SecretData,
};
use crate::index::Key;

/// The one client that engines accept.
pub const OPERATOR_NAME: &str = "operator.proofmill.dev";

/// Whose certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The engines of a pool, as servers.
    Engines(Key),
    /// The operator, as a client.
    Operator,
}

impl Identity {
    /// The DNS name in the certificate; for engines what the operator checks instead of an address.
    pub fn name(&self) -> String {
        match self {
            Self::Engines(pool) => format!("{}.{}.prover.proofmill.dev", pool.name, pool.namespace),
            Self::Operator => OPERATOR_NAME.to_owned(),
        }
    }

    const fn usage(&self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Engines(_) => ExtendedKeyUsagePurpose::ServerAuth,
            Self::Operator => ExtendedKeyUsagePurpose::ClientAuth,
        }
    }
}

/// What the Secret of `identity` should hold: certificate, key, and the authorities that the other side may be signed by.
pub fn leaf(
    identity: &Identity,
    existing: Option<&SecretData>,
    authority: &Authority,
    now: i64,
    lifetimes: &Lifetimes,
) -> Result<Planned, CertificateError> {
    let name = identity.name();
    let trusted = authority.trusted().as_bytes();
    let (pair, cause) = match existing {
        None => (None, Some(Cause::Missing)),
        Some(data) => match Pair::read(data, CERTIFICATE, PRIVATE_KEY) {
            Err(problem) => (None, Some(Cause::Damaged(problem))),
            Ok(pair) if !is_for(&pair, &name, authority) => (None, Some(Cause::Outdated)),
            // Made in the future: a clock was wrong, and engines may not accept it yet.
            Ok(pair) if now >= pair.certificate.due() || now < pair.certificate.made => (None, Some(Cause::Due)),
            Ok(pair) => {
                let same = data.get(AUTHORITIES).is_some_and(|known| known == trusted);
                (Some(pair), (!same).then_some(Cause::Trust))
            }
        },
    };
    let pair = match pair {
        Some(pair) => pair,
        None => make(identity, name, authority, now, lifetimes)?,
    };
    let mut data = SecretData::from([(AUTHORITIES.to_owned(), trusted.to_vec())]);
    pair.write(&mut data, CERTIFICATE, PRIVATE_KEY);
    Ok(Planned { data, write: cause, look_again: pair.certificate.due(), ends: pair.certificate.ends })
}

/// Whether the certificate has the one name and was signed by the present authority.
fn is_for(pair: &Pair, name: &str, authority: &Authority) -> bool {
    let Some(parsed) = pair.certificate.parsed() else { return false };
    let Ok((_, signer)) = parse_x509_certificate(&authority.certificate.der) else { return false };
    let names = parsed.subject_alternative_name().ok().flatten().map(|extension| &extension.value.general_names);
    let named = names.is_some_and(|names| matches!(names.as_slice(), [GeneralName::DNSName(only)] if *only == name));
    named && parsed.verify_signature(Some(signer.public_key())).is_ok()
}

fn make(
    identity: &Identity,
    name: String,
    authority: &Authority,
    now: i64,
    lifetimes: &Lifetimes,
) -> Result<Pair, CertificateError> {
    if !matches!(ServerName::try_from(name.as_str()), Ok(ServerName::DnsName(_))) {
        return Err(CertificateError::Name { name });
    }
    let mut params = CertificateParams::new(vec![name])?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![identity.usage()];
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // A common name has at most 64 characters; only the DNS name is looked at.
    params.distinguished_name.push(DnType::CommonName, "proofmill");
    let ends = now.saturating_add(lifetimes.leaf).min(authority.certificate.ends);
    Pair::make(params, now, ends, |params, key| params.signed_by(key, &authority.issuer))
}

#[cfg(test)]
mod tests {
    use super::super::authority;
    use super::*;

    const DAY: i64 = 24 * 3600;
    const NOW: i64 = 1_800_000_000;
    const LIVES: Lifetimes = Lifetimes { authority: 300 * DAY, leaf: 30 * DAY, spread: DAY };

    fn engines(name: &str) -> Identity {
        Identity::Engines(Key { namespace: "proofs".to_owned(), name: name.to_owned() })
    }

    fn at(data: Option<&SecretData>, authority: &Authority, now: i64) -> Planned {
        leaf(&engines("default"), data, authority, now, &LIVES).unwrap()
    }

    #[test]
    fn renewed_when_a_third_of_the_life_is_left() {
        let (ours, _) = authority(None, NOW, &LIVES).unwrap();
        let made = at(None, &ours, NOW);
        assert_eq!((made.write.clone(), made.look_again), (Some(Cause::Missing), NOW + 20 * DAY));
        assert_eq!(made.data.keys().collect::<Vec<_>>(), ["ca.crt", "tls.crt", "tls.key"]);
        let kept = at(Some(&made.data), &ours, NOW + 20 * DAY - 1);
        assert_eq!((kept.write, kept.data, kept.look_again), (None, made.data.clone(), made.look_again));
        let renewed = at(Some(&made.data), &ours, NOW + 20 * DAY);
        assert_eq!(renewed.write, Some(Cause::Due));
        assert_ne!(renewed.data["tls.key"], made.data["tls.key"], "a new key, too");
        assert_eq!(at(Some(&made.data), &ours, NOW - DAY).write, Some(Cause::Due), "a clock was set back");
    }

    #[test]
    fn never_longer_than_its_authority() {
        let (ours, _) = authority(None, NOW, &LIVES).unwrap();
        let late = NOW + 297 * DAY;
        assert_eq!(at(None, &ours, late).look_again, late + 2 * DAY);
    }

    #[test]
    fn follows_a_rotation() {
        let (first, kept) = authority(None, NOW, &LIVES).unwrap();
        let due = kept.look_again;
        let made = at(None, &first, due - DAY);
        let (both, begun) = authority(Some(&kept.data), due, &LIVES).unwrap();
        let spread = at(Some(&made.data), &both, due);
        assert_eq!(spread.write, Some(Cause::Trust));
        assert_eq!(spread.data["tls.crt"], made.data["tls.crt"], "still signed by the old one");
        let (second, _) = authority(Some(&begun.data), due + DAY, &LIVES).unwrap();
        let signed = at(Some(&spread.data), &second, due + DAY);
        assert_eq!(signed.write, Some(Cause::Outdated));
        assert_eq!(at(Some(&signed.data), &second, due + DAY).write, None);
    }

    #[test]
    fn other_names_and_damage() {
        let (ours, _) = authority(None, NOW, &LIVES).unwrap();
        let made = at(None, &ours, NOW);
        let other = leaf(&engines("other"), Some(&made.data), &ours, NOW, &LIVES).unwrap();
        assert_eq!(other.write, Some(Cause::Outdated));
        let mut data = made.data.clone();
        data.remove("tls.key");
        assert_eq!(at(Some(&data), &ours, NOW).write, Some(Cause::Damaged("tls.key is missing".to_owned())));
        let mut data = made.data.clone();
        data.insert("ca.crt".to_owned(), b"nonsense".to_vec());
        assert_eq!(at(Some(&data), &ours, NOW).write, Some(Cause::Trust));
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_words() {
        let (ours, _) = authority(None, NOW, &LIVES).unwrap();
        let error = leaf(&engines(&"x".repeat(64)), None, &ours, NOW, &LIVES).unwrap_err();
        assert!(error.to_string().contains("give the pool a shorter name"), "{error}");
    }
}
