//! A wtns: the values of all wires as plain integers. No error names a value: they are private.

use rayon::prelude::*;

use super::container::{Container, ContainerError, WTNS, below, limbs_at, u32_at};
use super::source::{ReadAt, ReadError, read_range};
use crate::assignment::Witness;
use crate::curve::Curve;

/// A witness with the field that it is over.
pub struct WitnessFile {
    /// The curve of its scalar field.
    pub curve: Curve,
    /// The values, each below the modulus, the first one 1.
    pub witness: Witness,
}

/// A witness's header, read without its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WtnsHeader {
    /// The curve of its scalar field.
    pub curve: Curve,
    /// Values, the constant 1 included.
    pub values: u32,
    /// First byte of the values.
    offset: u64,
}

/// What is wrong with a wtns.
#[derive(Debug, thiserror::Error)]
pub enum WtnsError {
    /// The container is damaged.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The header has another length.
    #[error("the witness's header has {found} bytes, it must have 40; the file is corrupt")]
    HeaderLength {
        /// Bytes found.
        found: u64,
    },
    /// Elements of another size.
    #[error("the witness's values have {bytes} bytes each, 32 are supported; it belongs to another curve")]
    FieldSize {
        /// Bytes claimed.
        bytes: u32,
    },
    /// A prime of no known curve.
    #[error("the witness is over the scalar field of neither bn128 nor bls12381; compile the circuit for one of them")]
    UnknownPrime,
    /// The values' section does not fit the count.
    #[error("the witness claims {count} values but has {found} bytes of them; the file is corrupt")]
    ValuesLength {
        /// Values claimed.
        count: u32,
        /// Bytes found.
        found: u64,
    },
    /// No values.
    #[error("the witness has no values")]
    NoValues,
    /// A value that is not reduced.
    #[error("value {index} of the witness is not below the field's prime; whatever made this witness is broken")]
    NotReduced {
        /// Its wire.
        index: u64,
    },
    /// The constant is not 1.
    #[error("value 0 of the witness is not 1; whatever made this witness is broken")]
    FirstNotOne,
    /// The witness is over another field than the key's.
    #[error("the witness is over the field of {witness}, the key is on {key}; they belong to different circuits")]
    OtherCurve {
        /// The witness's.
        witness: Curve,
        /// The key's.
        key: Curve,
    },
    /// The witness has another number of values than the key has variables.
    #[error("the witness has {values} values, the key has {variables} variables; they belong to different circuits")]
    OtherCircuit {
        /// Values found.
        values: u64,
        /// Variables of the key.
        variables: u32,
    },
}

/// Bytes of a value.
const VALUE_BYTES: u64 = 32;
/// Values read at once.
const CHUNK: usize = 1 << 16;

impl WtnsHeader {
    /// Reads the header and checks the count against the file.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, WtnsError> {
        let container = Container::read(source, WTNS)?;
        let place = container.section(1, "header")?;
        let values = container.section(2, "values")?;
        if place.length < 4 {
            return Err(WtnsError::HeaderLength { found: place.length });
        }
        let bytes = read_range(source, place.offset, place.length.min(40), 40)?;
        let size = u32_at(&bytes, 0);
        if u64::from(size) != VALUE_BYTES {
            return Err(WtnsError::FieldSize { bytes: size });
        }
        if place.length != 40 {
            return Err(WtnsError::HeaderLength { found: place.length });
        }
        let curve = Curve::from_scalar_modulus(&bytes[4..36]).ok_or(WtnsError::UnknownPrime)?;
        let count = u32_at(&bytes, 36);
        if values.length != u64::from(count) * VALUE_BYTES {
            return Err(WtnsError::ValuesLength { count, found: values.length });
        }
        if count == 0 {
            return Err(WtnsError::NoValues);
        }
        Ok(Self { curve, values: count, offset: values.offset })
    }

    /// Checks that the witness may belong to a key on `curve` with so many variables.
    pub fn check(&self, curve: Curve, variables: u32) -> Result<(), WtnsError> {
        check(self.curve, u64::from(self.values), curve, variables)
    }
}

impl WitnessFile {
    /// Reads a whole witness: a wtns file, or the same bytes in memory. Checks in parallel on the caller's rayon pool.
    pub fn read(source: &(impl ReadAt + ?Sized)) -> Result<Self, WtnsError> {
        let header = WtnsHeader::read(source)?;
        let modulus = header.curve.scalar_modulus();
        let count = header.values as usize;
        let mut values: Vec<[u64; 4]> = Vec::with_capacity(count);
        let mut bytes = vec![0; CHUNK.min(count) * VALUE_BYTES as usize];
        while values.len() < count {
            let start = values.len();
            let take = (count - start).min(CHUNK);
            let bytes = &mut bytes[..take * VALUE_BYTES as usize];
            source.read_exact_at(bytes, header.offset + start as u64 * VALUE_BYTES)?;
            values.par_extend(bytes.par_chunks_exact(VALUE_BYTES as usize).map(|value| limbs_at(value, 0)));
            let bad = values[start..].par_iter().position_first(|value| !below(value, &modulus));
            if let Some(index) = bad {
                return Err(WtnsError::NotReduced { index: (start + index) as u64 });
            }
        }
        if values.first() != Some(&[1, 0, 0, 0]) {
            return Err(WtnsError::FirstNotOne);
        }
        Ok(Self { curve: header.curve, witness: Witness { values } })
    }

    /// Checks that the witness may belong to a key on `curve` with so many variables.
    pub fn check(&self, curve: Curve, variables: u32) -> Result<(), WtnsError> {
        check(self.curve, self.witness.values.len() as u64, curve, variables)
    }
}

fn check(witness: Curve, values: u64, key: Curve, variables: u32) -> Result<(), WtnsError> {
    if witness != key {
        return Err(WtnsError::OtherCurve { witness, key });
    }
    if values != u64::from(variables) {
        return Err(WtnsError::OtherCircuit { values, variables });
    }
    Ok(())
}
