//! What a file is and what it holds, told by its content: for `prover inspect`.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::container::u32_at;
use super::r1cs::{R1cs, R1csError};
use super::source::{Cursor, FileSource, ReadAt, ReadError};
use super::wtns::{WtnsError, WtnsHeader};
use super::zkey::points::HeaderPoints;
use super::zkey::{COEFFICIENT_BYTES, Zkey, ZkeyError, section};
use crate::curve::{Bls12381, Bn254, Curve};
use crate::key::KeySecurity;
use crate::key::layout::{Header, KeyFileError, MAGIC, PAGE, Part};
use crate::key::security::classify;

/// What `prover inspect` shows. Sizes in bytes; counts of public signals leave the constant 1 out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Summary {
    /// A proving key of snarkjs.
    Zkey {
        /// The curve.
        curve: Curve,
        /// Bytes of the file.
        bytes: u64,
        /// Wires, the constant 1 included.
        variables: u32,
        /// Public signals.
        public_signals: u32,
        /// Constraints.
        constraints: u32,
        /// The domain's size.
        domain: u64,
        /// Entries of both matrices.
        coefficients: u32,
        /// Phase-2 contributions, where the file tells.
        contributions: Option<u32>,
        /// Who could forge proofs.
        security: KeySecurity,
    },
    /// A key in our own format.
    ImportedKey {
        /// The curve.
        curve: Curve,
        /// Bytes of the file.
        bytes: u64,
        /// Wires, the constant 1 included.
        variables: u32,
        /// Public signals.
        public_signals: u32,
        /// Constraints.
        constraints: u32,
        /// The domain's size.
        domain: u64,
        /// Points of A, B (once) and C that are not at infinity.
        points: [u64; 3],
        /// Entries of the matrices A and B.
        coefficients: [u64; 2],
        /// Distinct values among these.
        distinct_coefficients: u64,
        /// Phase-2 contributions, where the zkey told.
        contributions: Option<u32>,
        /// Who could forge proofs.
        security: KeySecurity,
        /// SHA-256 of the zkey, in hexadecimal.
        source_sha256: String,
    },
    /// A witness.
    Witness {
        /// The curve of its scalar field.
        curve: Curve,
        /// Bytes of the file.
        bytes: u64,
        /// Values, the constant 1 included.
        values: u32,
    },
    /// A constraint system.
    R1cs {
        /// The curve of its scalar field.
        curve: Curve,
        /// Bytes of the file.
        bytes: u64,
        /// Wires, the constant 1 included.
        wires: u32,
        /// Public signals: outputs, then inputs.
        public_signals: u64,
        /// Outputs.
        outputs: u32,
        /// Public inputs.
        public_inputs: u32,
        /// Private inputs.
        private_inputs: u32,
        /// Signals before simplification.
        labels: u64,
        /// Constraints.
        constraints: u32,
    },
}

/// Why a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// None of the known kinds.
    #[error("this is neither a zkey, a wtns, an r1cs nor an imported key")]
    UnknownKind,
    /// A zkey that is malformed.
    #[error(transparent)]
    Zkey(#[from] ZkeyError),
    /// A wtns that is malformed.
    #[error(transparent)]
    Wtns(#[from] WtnsError),
    /// An r1cs that is malformed.
    #[error(transparent)]
    R1cs(#[from] R1csError),
    /// An imported key that is malformed.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
}

/// Tells what the file at `path` is and holds. Reads headers, and of a zkey the coefficients.
pub fn inspect(path: &Path) -> Result<Summary, InspectError> {
    inspect_source(&FileSource::open(path)?)
}

/// The same for any source of bytes.
pub fn inspect_source(source: &dyn ReadAt) -> Result<Summary, InspectError> {
    let mut magic = [0; 8];
    let take = source.len().min(8) as usize;
    source.read_exact_at(&mut magic[..take], 0)?;
    match &magic {
        magic if *magic == MAGIC => imported(source),
        [b'z', b'k', b'e', b'y', ..] => zkey(source),
        [b'w', b't', b'n', b's', ..] => witness(source),
        [b'r', b'1', b'c', b's', ..] => r1cs(source),
        _ => Err(InspectError::UnknownKind),
    }
}

fn zkey(source: &dyn ReadAt) -> Result<Summary, InspectError> {
    let zkey = Zkey::read(source)?;
    let header = zkey.header;
    let delta_is_gamma = match header.curve {
        Curve::Bn254 => HeaderPoints::<Bn254>::read(zkey.header_points()).delta_is_gamma(),
        Curve::Bls12381 => HeaderPoints::<Bls12381>::read(zkey.header_points()).delta_is_gamma(),
    };
    Ok(Summary::Zkey {
        curve: header.curve,
        bytes: source.len(),
        variables: header.variables,
        public_signals: header.public,
        constraints: last_row(source, &zkey)?.saturating_sub(header.public),
        domain: header.domain(),
        coefficients: header.coefficients,
        contributions: zkey.contributions(source)?,
        security: classify(zkey.dev_setup, delta_is_gamma),
    })
}

/// The last row of the matrices: that of the last public signal.
fn last_row(source: &dyn ReadAt, zkey: &Zkey) -> Result<u32, InspectError> {
    let place = zkey.container.section(section::COEFFICIENTS, "coefficients").map_err(ZkeyError::from)?;
    let mut cursor = Cursor::new(source, place.offset + 4, place.offset + place.length);
    let mut last = 0;
    while let Ok(entry) = cursor.take(COEFFICIENT_BYTES as usize)? {
        last = last.max(u32_at(entry, 4));
    }
    Ok(last)
}

fn imported(source: &dyn ReadAt) -> Result<Summary, InspectError> {
    let mut page = vec![0; source.len().min(PAGE) as usize];
    source.read_exact_at(&mut page, 0)?;
    let header = Header::decode(&page, source.len())?;
    let indices = |part| header.entry(part).length / 4;
    Ok(Summary::ImportedKey {
        curve: header.curve,
        bytes: header.file_bytes,
        variables: header.variables,
        public_signals: header.public,
        constraints: header.constraints,
        domain: 1 << header.domain_log,
        points: [Part::AWires, Part::BWires, Part::CWires].map(indices),
        coefficients: [Part::MatrixAWires, Part::MatrixBWires].map(indices),
        distinct_coefficients: header.entry(Part::Coefficients).length / 32,
        contributions: header.contributions,
        security: header.security,
        source_sha256: crate::key::import::hex(&header.source_digest),
    })
}

fn witness(source: &dyn ReadAt) -> Result<Summary, InspectError> {
    let header = WtnsHeader::read(source)?;
    Ok(Summary::Witness { curve: header.curve, bytes: source.len(), values: header.values })
}

fn r1cs(source: &dyn ReadAt) -> Result<Summary, InspectError> {
    let r1cs = R1cs::read(source)?;
    let header = r1cs.header();
    Ok(Summary::R1cs {
        curve: header.curve,
        bytes: source.len(),
        wires: header.wires,
        public_signals: u64::from(header.public_outputs) + u64::from(header.public_inputs),
        outputs: header.public_outputs,
        public_inputs: header.public_inputs,
        private_inputs: header.private_inputs,
        labels: header.labels,
        constraints: header.constraints,
    })
}

impl Summary {
    /// Rows of (name, value) for a table.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let known = |n: &Option<u32>| n.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
        match self {
            Self::Zkey {
                curve,
                bytes,
                variables,
                public_signals,
                constraints,
                domain,
                coefficients,
                contributions,
                security,
            } => vec![
                ("kind", "zkey (groth16)".to_owned()),
                ("curve", curve.to_string()),
                ("bytes", bytes.to_string()),
                ("constraints", constraints.to_string()),
                ("variables", variables.to_string()),
                ("public signals", public_signals.to_string()),
                ("domain", domain.to_string()),
                ("coefficients", coefficients.to_string()),
                ("contributions", known(contributions)),
                ("security", security.to_string()),
            ],
            Self::ImportedKey {
                curve,
                bytes,
                variables,
                public_signals,
                constraints,
                domain,
                points: [a, b, c],
                coefficients: [in_a, in_b],
                distinct_coefficients,
                contributions,
                security,
                source_sha256,
            } => vec![
                ("kind", "imported key (groth16)".to_owned()),
                ("curve", curve.to_string()),
                ("bytes", bytes.to_string()),
                ("constraints", constraints.to_string()),
                ("variables", variables.to_string()),
                ("public signals", public_signals.to_string()),
                ("domain", domain.to_string()),
                ("points", format!("A {a}, B {b}, C {c}, H {domain}")),
                ("coefficients", format!("A {in_a}, B {in_b}, {distinct_coefficients} distinct")),
                ("contributions", known(contributions)),
                ("security", security.to_string()),
                ("zkey's SHA-256", source_sha256.clone()),
            ],
            Self::Witness { curve, bytes, values } => vec![
                ("kind", "witness".to_owned()),
                ("curve", curve.to_string()),
                ("bytes", bytes.to_string()),
                ("values", values.to_string()),
            ],
            Self::R1cs {
                curve,
                bytes,
                wires,
                public_signals,
                outputs,
                public_inputs,
                private_inputs,
                labels,
                constraints,
            } => vec![
                ("kind", "r1cs".to_owned()),
                ("curve", curve.to_string()),
                ("bytes", bytes.to_string()),
                ("constraints", constraints.to_string()),
                ("wires", wires.to_string()),
                ("public signals", format!("{public_signals} ({outputs} outputs, {public_inputs} inputs)")),
                ("private inputs", private_inputs.to_string()),
                ("labels", labels.to_string()),
            ],
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (index, (name, value)) in rows.iter().enumerate() {
            let end = if index + 1 < rows.len() { "\n" } else { "" };
            write!(f, "{name:width$}  {value}{end}")?;
        }
        Ok(())
    }
}
