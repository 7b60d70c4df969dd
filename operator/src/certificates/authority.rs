//! The operator's authority and its rotation. Every certificate is trusted before it is used, and as long as it is used:
//!
//! 1. a third of the life is left: the next authority is made and trusted beside the present one, which goes on signing;
//! 2. `spread` later it becomes the present one: all leaves are signed anew; the previous one is still trusted;
//! 3. a leaf's life later nothing valid is signed by the previous one any more: it is forgotten.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::pair::{Certificate, Pair};
use super::{CERTIFICATE, Cause, CertificateError, Lifetimes, PRIVATE_KEY, Planned, SecretData};

/// Keys of the Secret beside those of the present authority.
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
/// All of them.
const NAMES: [&str; 5] = [CERTIFICATE, PRIVATE_KEY, NEXT_CERTIFICATE, NEXT_KEY, PREVIOUS_CERTIFICATE];

/// What signs the certificates of engines and operator.
pub struct Authority {
    pub(super) issuer: Issuer<'static, KeyPair>,
    pub(super) certificate: Certificate,
    trusted: String,
}

impl Authority {
    /// All authorities to be trusted now, PEM.
    pub fn trusted(&self) -> &str {
        &self.trusted
    }
}

/// The authority that signs now, from the Secret's data, and what the Secret should hold. The authority counts only once
/// that is written.
pub fn authority(
    existing: Option<&SecretData>,
    now: i64,
    lifetimes: &Lifetimes,
) -> Result<(Authority, Planned), CertificateError> {
    let empty = SecretData::new();
    let known = existing.unwrap_or(&empty);
    // Beside a present authority that is gone the others are still good for trust.
    let mut next = Pair::read(known, NEXT_CERTIFICATE, NEXT_KEY).ok().filter(|pair| pair.certificate.ends > now);
    let mut previous = Certificate::read(known, PREVIOUS_CERTIFICATE).ok();
    let mut cause = Cause::Trust;

    let mut present = match Pair::read(known, CERTIFICATE, PRIVATE_KEY) {
        Ok(pair) if pair.certificate.parsed().is_some_and(|parsed| parsed.is_ca()) => pair,
        damaged => {
            let problem = damaged.err().unwrap_or_else(|| format!("{CERTIFICATE} is not an authority's"));
            cause = if existing.is_none() { Cause::Missing } else { Cause::Damaged(problem) };
            previous = Certificate::read(known, CERTIFICATE).ok().or(previous);
            make(now, lifetimes)?
        }
    };

    if next.is_none() && now >= present.certificate.due() {
        next = Some(make(now, lifetimes)?);
        cause = Cause::Due;
    }
    let promoted = |next: &Pair| now >= next.certificate.made + lifetimes.spread || now >= present.certificate.ends;
    if let Some(next) = next.take_if(|next| promoted(next)) {
        previous = Some(present.certificate);
        present = next;
        cause = Cause::Trust;
    }
    let forgotten = |previous: &Certificate| {
        previous.ends.min(present.certificate.made + lifetimes.spread + lifetimes.leaf.min(lifetimes.authority))
    };
    let previous = previous.filter(|previous| now < forgotten(previous));

    let mut data = SecretData::new();
    present.write(&mut data, CERTIFICATE, PRIVATE_KEY);
    let mut trusted = lines(&present.certificate);
    let mut look_again = present.certificate.due();
    if let Some(next) = &next {
        next.write(&mut data, NEXT_CERTIFICATE, NEXT_KEY);
        trusted += &lines(&next.certificate);
        look_again = (next.certificate.made + lifetimes.spread).min(present.certificate.ends);
    }
    if let Some(previous) = &previous {
        data.insert(PREVIOUS_CERTIFICATE.to_owned(), previous.pem.clone().into_bytes());
        trusted += &lines(previous);
        look_again = look_again.min(forgotten(previous));
    }
    let changed = NAMES.iter().any(|name| data.get(*name) != known.get(*name));
    let issuer = Issuer::from_ca_cert_der(&present.certificate.der, present.key)?;
    let ends = present.certificate.ends;
    let authority = Authority { issuer, certificate: present.certificate, trusted };
    Ok((authority, Planned { data, write: changed.then_some(cause), look_again, ends }))
}

fn make(now: i64, lifetimes: &Lifetimes) -> Result<Pair, CertificateError> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // A name of its own, so that two authorities are told apart.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Proofmill authority {now}"));
    Pair::make(params, now, now.saturating_add(lifetimes.authority), |params, key| params.self_signed(key))
}

/// The PEM, ended by a line's end so that another may follow.
fn lines(certificate: &Certificate) -> String {
    format!("{}\n", certificate.pem.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;
    const NOW: i64 = 1_800_000_000;
    const LIVES: Lifetimes = Lifetimes { authority: 300 * DAY, leaf: 30 * DAY, spread: DAY };

    fn at(data: Option<&SecretData>, now: i64) -> (Authority, Planned) {
        authority(data, now, &LIVES).unwrap()
    }

    fn count(authority: &Authority) -> usize {
        authority.trusted().matches("BEGIN CERTIFICATE").count()
    }

    #[test]
    fn made_once_and_then_left_alone() {
        let (first, made) = at(None, NOW);
        assert_eq!(made.write, Some(Cause::Missing));
        assert_eq!(made.look_again, NOW + 200 * DAY);
        let (again, kept) = at(Some(&made.data), NOW + 10 * DAY);
        assert_eq!((kept.write, &kept.data), (None, &made.data));
        assert_eq!(kept.look_again, made.look_again);
        assert_eq!(again.trusted(), first.trusted());
        assert_eq!(count(&again), 1);
    }

    #[test]
    fn rotation_overlaps() {
        let (old, made) = at(None, NOW);
        let due = made.look_again;
        assert_eq!(at(Some(&made.data), due - 1).1.write, None);

        let (waits, begun) = at(Some(&made.data), due);
        assert_eq!(begun.write, Some(Cause::Due));
        assert_eq!(waits.certificate.der, old.certificate.der, "the old one goes on signing");
        assert_eq!(count(&waits), 2, "the new one is trusted already");
        assert_eq!(begun.look_again, due + DAY);
        assert_eq!(at(Some(&begun.data), due + DAY - 1).1.write, None);

        let (signs, promoted) = at(Some(&begun.data), due + DAY);
        assert_eq!(promoted.write, Some(Cause::Trust));
        assert_ne!(signs.certificate.der, old.certificate.der);
        assert_eq!(count(&signs), 2, "leaves of the old one are still about");
        assert!(signs.trusted().contains(old.trusted()));

        let last = promoted.look_again;
        assert_eq!(last, due + DAY + 30 * DAY);
        assert_eq!(at(Some(&promoted.data), last - 1).1.write, None);
        let (alone, done) = at(Some(&promoted.data), last);
        assert_eq!(done.write, Some(Cause::Trust));
        assert_eq!((count(&alone), done.data.len()), (1, 2));
        assert_eq!(at(Some(&done.data), last + 1).1.write, None);
    }

    #[test]
    fn an_operator_that_slept_through_it_all_starts_anew_at_once() {
        let (old, made) = at(None, NOW);
        let (new, planned) = at(Some(&made.data), NOW + 400 * DAY);
        assert!(planned.write.is_some());
        assert_ne!(new.certificate.der, old.certificate.der);
        assert_eq!(count(&new), 1, "the expired one helps nobody");
        assert_eq!(at(Some(&planned.data), NOW + 400 * DAY).1.write, None);
    }

    #[test]
    fn a_clock_set_back_changes_nothing() {
        let (_, made) = at(None, NOW);
        assert_eq!(at(Some(&made.data), NOW - 10 * DAY).1.write, None);
    }

    #[test]
    fn damage_is_named_and_mended() {
        let (old, made) = at(None, NOW);
        let (_, other) = at(None, NOW + 1);
        let damaged = |change: &dyn Fn(&mut SecretData)| {
            let mut data = made.data.clone();
            change(&mut data);
            let (authority, planned) = at(Some(&data), NOW + DAY);
            assert_eq!(at(Some(&planned.data), NOW + DAY).1.write, None, "it was mended");
            let Some(Cause::Damaged(problem)) = planned.write else { panic!("{:?}", planned.write) };
            (authority, problem)
        };
        let set = |key: &'static str, value: &'static [u8]| {
            move |data: &mut SecretData| {
                data.insert(key.to_owned(), value.to_vec());
            }
        };
        assert_eq!(damaged(&|data| data.clear()).1, "tls.crt is missing");
        assert_eq!(damaged(&set(CERTIFICATE, b"")).1, "tls.crt is not a certificate as PEM");
        assert_eq!(damaged(&set(CERTIFICATE, b"\xff\x00")).1, "tls.crt is not a certificate as PEM");
        let nonsense = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(damaged(&set(CERTIFICATE, nonsense)).1, "tls.crt is not an X.509 certificate");
        assert_eq!(damaged(&set(PRIVATE_KEY, b"\xff")).1, "tls.key is not a private key as PEM");

        let swapped = |data: &mut SecretData| {
            data.insert(PRIVATE_KEY.to_owned(), other.data[PRIVATE_KEY].clone());
        };
        let (authority, problem) = damaged(&swapped);
        assert_eq!(problem, "tls.key is not the key of tls.crt");
        assert!(authority.trusted().contains(old.trusted()), "engines still show certificates of the old one");
    }

    #[test]
    fn a_damaged_next_one_is_made_again() {
        let (_, made) = at(None, NOW);
        let (_, mut begun) = at(Some(&made.data), made.look_again);
        begun.data.insert(NEXT_KEY.to_owned(), b"gone".to_vec());
        let (authority, planned) = at(Some(&begun.data), made.look_again + 10);
        assert_eq!(planned.write, Some(Cause::Due));
        assert_eq!(count(&authority), 2);
    }
}
