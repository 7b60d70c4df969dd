//! A zkey's header and the places of its sections, with every count checked against the file. Points and coefficients are
//! checked by the import, which reads them once.

use super::container::{Container, ContainerError, Section, ZKEY, u32_at};
use super::source::{ReadAt, ReadError, read_range};
use crate::curve::Curve;

pub mod points;

/// The header's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZkeyHeader {
    /// The curve, found from the primes.
    pub curve: Curve,
    /// Wires, the constant 1 included.
    pub variables: u32,
    /// Public signals, the constant 1 not included.
    pub public: u32,
    /// Base-2 logarithm of the domain.
    pub domain_log: u32,
    /// Entries of both matrices, the public inputs' rows included.
    pub coefficients: u32,
}

/// A zkey whose structure holds: each section is there once, with exactly the length that the header's counts ask for.
#[derive(Clone, Debug)]
pub struct Zkey {
    /// The numbers.
    pub header: ZkeyHeader,
    /// Section 2 as it lies in the file.
    pub header_bytes: Vec<u8>,
    /// The table of sections.
    pub container: Container,
    /// Whether the key carries the mark of `prover dev setup`.
    pub dev_setup: bool,
}

/// What is wrong with a zkey. Points are counted from 0 within their section.
#[derive(Debug, thiserror::Error)]
pub enum ZkeyError {
    /// The container is damaged.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A key of another proof system.
    #[error("this zkey is for {name}, not for groth16; make one with `snarkjs groth16 setup`")]
    OtherProtocol {
        /// plonk, fflonk, or the number.
        name: String,
    },
    /// A field element has a size of no known curve.
    #[error(
        "the header's {field} has {bytes} bytes an element, which fits none of bn128 and bls12381; the key is corrupt"
    )]
    FieldSize {
        /// q or r.
        field: &'static str,
        /// Bytes claimed.
        bytes: u32,
    },
    /// A prime of no known curve.
    #[error("the header's prime {field} is neither that of bn128 nor of bls12381; other curves are not supported")]
    UnknownPrime {
        /// q or r.
        field: &'static str,
    },
    /// Primes of two curves.
    #[error("the header's q is that of {base} and its r that of {scalar}; the key is corrupt")]
    CurveMismatch {
        /// The curve of q.
        base: Curve,
        /// The curve of r.
        scalar: Curve,
    },
    /// The header has another length.
    #[error("the header has {found} bytes, on this curve it must have {expected}; the key is corrupt")]
    HeaderLength {
        /// Bytes found.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// No variables.
    #[error("the key has no variables; it is corrupt")]
    NoVariables,
    /// More public signals than variables.
    #[error("the key claims {public} public signals among {variables} variables; it is corrupt")]
    PublicExceedsVariables {
        /// Public signals claimed.
        public: u32,
        /// Variables claimed.
        variables: u32,
    },
    /// The domain is empty or no power of two.
    #[error("the domain's size {size} is not a power of two; the key is corrupt")]
    DomainNotPowerOfTwo {
        /// The size claimed.
        size: u32,
    },
    /// The domain is too large.
    #[error("the domain 2^{log} is too large: up to 2^{limit} is supported")]
    DomainTooLarge {
        /// Its logarithm.
        log: u32,
        /// The largest one.
        limit: u32,
    },
    /// The domain cannot even hold the public inputs' rows.
    #[error("the domain of {domain} cannot hold the rows of {public} public signals; the key is corrupt")]
    DomainTooSmall {
        /// Its size.
        domain: u64,
        /// Public signals.
        public: u32,
    },
    /// A section's length does not fit its count.
    #[error("section {id} ({name}) has {found} bytes, the header's counts ask for {expected}; the key is corrupt")]
    SectionLength {
        /// The section.
        id: u32,
        /// What it holds.
        name: &'static str,
        /// Bytes found.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// The coefficients' count does not fit the section.
    #[error("section 4 (coefficients) claims {count} entries but has {found} bytes; the key is corrupt")]
    CoefficientCount {
        /// Entries claimed.
        count: u32,
        /// Bytes found.
        found: u64,
    },
    /// No coefficients at all.
    #[error("the key has no coefficients, so it proves nothing; it is corrupt")]
    NoCoefficients,
    /// An entry of neither matrix.
    #[error("coefficient {index} belongs to matrix {matrix}, only 0 and 1 exist; the key is corrupt")]
    CoefficientMatrix {
        /// The entry.
        index: u64,
        /// The matrix claimed.
        matrix: u32,
    },
    /// An entry outside the domain.
    #[error("coefficient {index} lies in row {row}, the domain has {domain}; the key is corrupt")]
    CoefficientRow {
        /// The entry.
        index: u64,
        /// The row claimed.
        row: u32,
        /// Rows there are.
        domain: u64,
    },
    /// An entry of no wire.
    #[error("coefficient {index} belongs to signal {signal}, the key has {variables}; it is corrupt")]
    CoefficientSignal {
        /// The entry.
        index: u64,
        /// The signal claimed.
        signal: u32,
        /// Signals there are.
        variables: u32,
    },
    /// A value that is not reduced.
    #[error("the value of coefficient {index} is not below the scalar field's prime; the key is corrupt")]
    CoefficientValue {
        /// The entry.
        index: u64,
    },
    /// A coordinate that is not reduced.
    #[error("a coordinate of point {index} of {section} is not below the base field's prime; the key is corrupt")]
    Coordinate {
        /// Which points.
        section: &'static str,
        /// The point.
        index: u64,
    },
    /// A point that is not on the curve.
    #[error("point {index} of {section} is not on the curve; the key is corrupt")]
    OffCurve {
        /// Which points.
        section: &'static str,
        /// The point.
        index: u64,
    },
    /// A point outside the subgroup.
    #[error("point {index} of {section} is not in the subgroup of prime order; the key is corrupt or malicious")]
    OutsideSubgroup {
        /// Which points.
        section: &'static str,
        /// The point.
        index: u64,
    },
    /// A point at infinity where none can be.
    #[error(
        "point {index} of {section} is at infinity, which makes proofs forgeable or impossible; the key is corrupt"
    )]
    Infinity {
        /// Which points.
        section: &'static str,
        /// The point.
        index: u64,
    },
    /// The same scalar's points in G1 and G2 differ.
    #[error("{name} in G1 and in G2 are not the same scalar; the key is corrupt")]
    Inconsistent {
        /// beta or delta.
        name: &'static str,
    },
    /// B in G1 and in G2 are zero for different wires.
    #[error("wire {wire} is at infinity in only one of B1 and B2; the key is corrupt")]
    InconsistentB {
        /// The first such wire.
        wire: u32,
    },
    /// The contributions' section is too short for its count.
    #[error("section 10 claims {count} contributions but has {found} bytes; the key is corrupt")]
    ContributionCount {
        /// Contributions claimed.
        count: u32,
        /// Bytes found.
        found: u64,
    },
}

/// Section numbers of a zkey.
pub mod section {
    /// The proof system.
    pub const PROTOCOL: u32 = 1;
    /// Primes, counts, alpha to delta.
    pub const HEADER: u32 = 2;
    /// The verifying key's points of the public signals.
    pub const IC: u32 = 3;
    /// Both matrices.
    pub const COEFFICIENTS: u32 = 4;
    /// A in G1.
    pub const A: u32 = 5;
    /// B in G1.
    pub const B1: u32 = 6;
    /// B in G2.
    pub const B2: u32 = 7;
    /// C, also called L.
    pub const C: u32 = 8;
    /// H.
    pub const H: u32 = 9;
    /// The ceremony's contributions.
    pub const CONTRIBUTIONS: u32 = 10;
    /// The mark of `prover dev setup`; other readers skip what they do not know.
    pub const DEV_SETUP: u32 = 0x5046_4d31;
}

/// The payload of section [`section::DEV_SETUP`].
pub const DEV_SETUP_MARK: &[u8] = b"proofmill dev setup: INSECURE";
/// The largest domain that is supported, as a logarithm.
pub const MAX_DOMAIN_LOG: u32 = 27;
/// Bytes of a coefficient's entry: matrix, constraint, signal, value.
pub const COEFFICIENT_BYTES: u64 = 12 + 32;

impl ZkeyHeader {
    /// Bytes of a G1 point.
    pub fn g1_bytes(&self) -> u64 {
        2 * self.curve.base_field_bytes() as u64
    }

    /// Bytes of a G2 point.
    pub fn g2_bytes(&self) -> u64 {
        2 * self.g1_bytes()
    }

    /// The domain's size.
    pub fn domain(&self) -> u64 {
        1 << self.domain_log
    }
}

impl Zkey {
    /// Reads the header and checks the structure; reads no points or coefficients.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, ZkeyError> {
        let container = Container::read(source, ZKEY)?;
        read_protocol(source, &container)?;
        let (mut header, header_bytes) = read_header(source, container.section(section::HEADER, "header")?)?;
        header.coefficients = read_coefficient_count(source, &container)?;
        check_lengths(&container, &header)?;
        let dev_setup = container.find(section::DEV_SETUP).is_some();
        Ok(Self { header, header_bytes, container, dev_setup })
    }

    /// alpha1, beta1, beta2, gamma2, delta1, delta2 as they lie in the header.
    pub fn header_points(&self) -> &[u8] {
        let points = 3 * (self.header.g1_bytes() + self.header.g2_bytes());
        let start = self.header_bytes.len().saturating_sub(points as usize);
        self.header_bytes.get(start..).unwrap_or_default()
    }

    /// The ceremony's phase-2 contributions; `None` without that section. Reads the count alone.
    pub fn contributions(&self, source: &(impl ReadAt + ?Sized)) -> Result<Option<u32>, ZkeyError> {
        let Some(place) = self.container.find(section::CONTRIBUTIONS) else { return Ok(None) };
        // The circuit's hash, then the count.
        if place.length < 68 {
            return Err(ZkeyError::ContributionCount { count: 0, found: place.length });
        }
        let count = u32_at(&read_range(source, place.offset + 64, 4, 4)?, 0);
        // Each has three G1 points, a G2 point, a transcript, a type and the parameters' length.
        let least = 3 * self.header.g1_bytes() + self.header.g2_bytes() + 64 + 8;
        if u64::from(count) * least > place.length - 68 {
            return Err(ZkeyError::ContributionCount { count, found: place.length });
        }
        Ok(Some(count))
    }
}

fn read_protocol(source: &(impl ReadAt + ?Sized), container: &Container) -> Result<(), ZkeyError> {
    let place = container.section(section::PROTOCOL, "protocol")?;
    exact(place, "protocol", 4)?;
    let name = match u32_at(&read_range(source, place.offset, 4, 4)?, 0) {
        1 => return Ok(()),
        2 => "plonk".to_owned(),
        10 => "fflonk".to_owned(),
        other => format!("the unknown proof system {other}"),
    };
    Err(ZkeyError::OtherProtocol { name })
}

fn read_header(source: &(impl ReadAt + ?Sized), place: Section) -> Result<(ZkeyHeader, Vec<u8>), ZkeyError> {
    // Enough for either curve; the exact length is checked once the curve is known.
    let take = place.length.min(header_length(Curve::Bls12381));
    let bytes = read_range(source, place.offset, take, take)?;
    let wrong_length = |expected| ZkeyError::HeaderLength { found: place.length, expected };
    let (base, after_q) = read_prime(&bytes, 0, "q", Curve::from_base_modulus, wrong_length)?;
    let (scalar, after_r) = read_prime(&bytes, after_q, "r", Curve::from_scalar_modulus, wrong_length)?;
    if base != scalar {
        return Err(ZkeyError::CurveMismatch { base, scalar });
    }
    if place.length != header_length(base) {
        return Err(wrong_length(header_length(base)));
    }
    let [variables, public, domain] = std::array::from_fn(|i| u32_at(&bytes, after_r + 4 * i));
    let domain_log = check_counts(base, variables, public, domain)?;
    let header = ZkeyHeader { curve: base, variables, public, domain_log, coefficients: 0 };
    Ok((header, bytes))
}

/// A prime with its size before it: its curve and the offset behind it.
fn read_prime(
    bytes: &[u8],
    offset: usize,
    field: &'static str,
    find: impl Fn(&[u8]) -> Option<Curve>,
    wrong_length: impl Fn(u64) -> ZkeyError,
) -> Result<(Curve, usize), ZkeyError> {
    if bytes.len() < offset + 4 {
        return Err(wrong_length(header_length(Curve::Bn254)));
    }
    let size = u32_at(bytes, offset);
    let known = if field == "q" { [32, 48].contains(&size) } else { size == 32 };
    if !known {
        return Err(ZkeyError::FieldSize { field, bytes: size });
    }
    let end = offset + 4 + size as usize;
    let prime = bytes.get(offset + 4..end).ok_or_else(|| wrong_length(header_length(Curve::Bn254)))?;
    Ok((find(prime).ok_or(ZkeyError::UnknownPrime { field })?, end))
}

/// 660 or 964.
fn header_length(curve: Curve) -> u64 {
    let q = curve.base_field_bytes() as u64;
    4 + q + 4 + 32 + 12 + 3 * 2 * q + 3 * 4 * q
}

/// The domain's logarithm, all counts checked against each other.
fn check_counts(curve: Curve, variables: u32, public: u32, domain: u32) -> Result<u32, ZkeyError> {
    if variables == 0 {
        return Err(ZkeyError::NoVariables);
    }
    if public >= variables {
        return Err(ZkeyError::PublicExceedsVariables { public, variables });
    }
    if !domain.is_power_of_two() {
        return Err(ZkeyError::DomainNotPowerOfTwo { size: domain });
    }
    let log = domain.trailing_zeros();
    // The prover needs a root of unity one level above the domain.
    let limit = MAX_DOMAIN_LOG.min(curve.two_adicity() - 1);
    if log > limit {
        return Err(ZkeyError::DomainTooLarge { log, limit });
    }
    if domain <= public {
        return Err(ZkeyError::DomainTooSmall { domain: u64::from(domain), public });
    }
    Ok(log)
}

fn read_coefficient_count(source: &(impl ReadAt + ?Sized), container: &Container) -> Result<u32, ZkeyError> {
    let place = container.section(section::COEFFICIENTS, "coefficients")?;
    if place.length < 4 {
        return Err(ZkeyError::CoefficientCount { count: 0, found: place.length });
    }
    let count = u32_at(&read_range(source, place.offset, 4, 4)?, 0);
    if place.length != 4 + u64::from(count) * COEFFICIENT_BYTES {
        return Err(ZkeyError::CoefficientCount { count, found: place.length });
    }
    if count == 0 {
        return Err(ZkeyError::NoCoefficients);
    }
    Ok(count)
}

fn check_lengths(container: &Container, header: &ZkeyHeader) -> Result<(), ZkeyError> {
    let (variables, public) = (u64::from(header.variables), u64::from(header.public));
    let (g1, g2) = (header.g1_bytes(), header.g2_bytes());
    for (id, name, expected) in [
        (section::IC, "IC", (public + 1) * g1),
        (section::A, "A", variables * g1),
        (section::B1, "B1", variables * g1),
        (section::B2, "B2", variables * g2),
        (section::C, "C", (variables - public - 1) * g1),
        (section::H, "H", header.domain() * g1),
    ] {
        exact(container.section(id, name)?, name, expected)?;
    }
    Ok(())
}

fn exact(place: Section, name: &'static str, expected: u64) -> Result<(), ZkeyError> {
    if place.length == expected {
        return Ok(());
    }
    Err(ZkeyError::SectionLength { id: place.id, name, found: place.length, expected })
}
