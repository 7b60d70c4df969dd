//! An r1cs: the constraints (a · w)(b · w) = c · w, read one after the other, never built as a whole. With a witness, the
//! first constraint that does not hold is found, and named by its wires; values are never told.
//!
//! - `batches`: the first constraint with a property, searched by all threads.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use proofmill_kernels::field::{Field, PrimeField};

use super::container::{Container, ContainerError, R1CS, Section, below, limbs_at, u32_at, u64_at};
use super::source::{Cursor, ReadAt, ReadError, read_range};
use crate::assignment::Witness;
use crate::curve::{Bls12381, Bn254, Curve, Suite};

mod batches;

/// The header's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R1csHeader {
    /// The curve of the scalar field.
    pub curve: Curve,
    /// Wires, the constant 1 included.
    pub wires: u32,
    /// Public outputs: wires from 1 on.
    pub public_outputs: u32,
    /// Public inputs: the wires after the outputs.
    pub public_inputs: u32,
    /// Private inputs: the wires after these.
    pub private_inputs: u32,
    /// Labels, i.e. signals before the compiler's simplification.
    pub labels: u64,
    /// Constraints.
    pub constraints: u32,
}

/// A constraint system in a file or in memory.
pub struct R1cs<R> {
    source: R,
    header: R1csHeader,
    constraints: Section,
}

/// One constraint (a · w)(b · w) = c · w.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraint {
    /// The left factor.
    pub a: Vec<Term>,
    /// The right factor.
    pub b: Vec<Term>,
    /// The product.
    pub c: Vec<Term>,
}

/// A wire times a coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The wire.
    pub wire: u32,
    /// Plain, below the modulus, little-endian limbs.
    pub coefficient: [u64; 4],
}

/// A constraint that a witness does not satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsatisfied {
    /// Its number, from 0 as circom counts.
    pub constraint: u32,
    /// The wires in it, ascending, the constant left out.
    pub wires: Vec<u32>,
}

/// What is wrong with an r1cs.
#[derive(Debug, thiserror::Error)]
pub enum R1csError {
    /// The container is damaged.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The bytes could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The circuit uses custom gates.
    #[error("the circuit uses custom gates, which groth16 cannot prove; compile it without `custom` templates")]
    CustomGates,
    /// The header has another length.
    #[error("the r1cs's header has {found} bytes, it must have 64; the file is corrupt")]
    HeaderLength {
        /// Bytes found.
        found: u64,
    },
    /// Elements of another size.
    #[error("the r1cs's coefficients have {bytes} bytes each, 32 are supported; it is for another curve")]
    FieldSize {
        /// Bytes claimed.
        bytes: u32,
    },
    /// A prime of no known curve.
    #[error(
        "the r1cs is over the scalar field of neither bn128 nor bls12381; compile with `--prime` bn128 or bls12381"
    )]
    UnknownPrime,
    /// More inputs and outputs than wires.
    #[error("the r1cs claims {signals} inputs and outputs among {wires} wires; it is corrupt")]
    TooManySignals {
        /// Inputs and outputs claimed.
        signals: u64,
        /// Wires claimed.
        wires: u32,
    },
    /// More constraints than the section could hold.
    #[error("the r1cs claims {count} constraints, its section can hold {limit} at most; it is corrupt")]
    ConstraintCount {
        /// Constraints claimed.
        count: u32,
        /// Constraints possible.
        limit: u64,
    },
    /// More wires than the file could tell of.
    #[error("the r1cs claims {wires} wires, the file can tell of {limit} at most; it is corrupt")]
    WireCount {
        /// Wires claimed.
        wires: u32,
        /// Wires possible.
        limit: u64,
    },
    /// The section ends within a constraint.
    #[error("the r1cs ends within constraint {constraint}; it is cut short or corrupt")]
    ConstraintPastEnd {
        /// The constraint.
        constraint: u32,
    },
    /// Bytes after the last constraint.
    #[error("{bytes} bytes follow the r1cs's last constraint; it is corrupt")]
    BytesAfterConstraints {
        /// How many.
        bytes: u64,
    },
    /// A term of no wire.
    #[error("constraint {constraint} uses wire {wire}, the r1cs has {wires}; it is corrupt")]
    Wire {
        /// The constraint.
        constraint: u32,
        /// The wire claimed.
        wire: u32,
        /// Wires there are.
        wires: u32,
    },
    /// A coefficient that is not reduced.
    #[error("a coefficient of constraint {constraint} is not below the field's prime; the r1cs is corrupt")]
    Coefficient {
        /// The constraint.
        constraint: u32,
    },
    /// A witness of another length.
    #[error("the witness has {values} values, the r1cs has {wires} wires; they belong to different circuits")]
    WitnessLength {
        /// Values found.
        values: u64,
        /// Wires there are.
        wires: u32,
    },
    /// The caller stopped it.
    #[error("reading the constraints was cancelled")]
    Cancelled,
}

/// Reads constraints front to back.
struct Reader<'a, R: ReadAt> {
    r1cs: &'a R1cs<R>,
    cursor: Cursor<'a, R>,
    modulus: [u64; 4],
    /// The number of the next constraint.
    next: u32,
}

/// Bytes of a coefficient.
const COEFFICIENT_BYTES: usize = 32;
/// Bytes of the header: size, prime, four counts, labels, constraints.
const HEADER_BYTES: u64 = 4 + 32 + 4 * 4 + 8 + 4;
/// Bytes of the smallest constraint: three counts.
const LEAST_CONSTRAINT: u64 = 12;
/// Bytes of a term: its wire, its coefficient.
const TERM_BYTES: u64 = 4 + COEFFICIENT_BYTES as u64;
/// Bytes of a wire's label.
const LABEL_BYTES: u64 = 8;
/// Wires that an [`Unsatisfied`] names at most.
const MAX_NAMED_WIRES: usize = 64;

impl<R: ReadAt> R1cs<R> {
    /// Reads the header and checks the structure.
    pub fn read(source: R) -> Result<Self, R1csError> {
        let container = Container::read(&source, R1CS)?;
        for id in [4, 5] {
            // circom always writes both sections; without custom gates each holds no more than a count of zero.
            if let Some(section) = container.find(id)
                && (section.length > 4
                    || read_range(&source, section.offset, section.length, 4)?.iter().any(|b| *b != 0))
            {
                return Err(R1csError::CustomGates);
            }
        }
        let header = read_header(&source, container.section(1, "header")?)?;
        let constraints = container.section(2, "constraints")?;
        let limit = constraints.length / LEAST_CONSTRAINT;
        if u64::from(header.constraints) > limit {
            return Err(R1csError::ConstraintCount { count: header.constraints, limit });
        }
        // Each wire has a label; in a file without labels each but the constant has a term. Readers allocate by this count.
        let limit = match container.find(3) {
            Some(labels) => labels.length / LABEL_BYTES,
            None => 1 + constraints.length / TERM_BYTES,
        };
        if u64::from(header.wires) > limit {
            return Err(R1csError::WireCount { wires: header.wires, limit });
        }
        Ok(Self { source, header, constraints })
    }

    /// The numbers.
    pub fn header(&self) -> &R1csHeader {
        &self.header
    }

    /// Calls `visit` with each constraint and its number, in order, until it breaks. One constraint is in memory at a time.
    pub fn for_each<B>(
        &self,
        mut visit: impl FnMut(u32, &Constraint) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, R1csError> {
        let mut reader = Reader::new(self);
        let mut constraint = Constraint::default();
        while let Some(number) = reader.read(&mut constraint)? {
            if let ControlFlow::Break(value) = visit(number, &constraint) {
                return Ok(ControlFlow::Break(value));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The first constraint that the witness does not satisfy; in parallel on the current rayon pool.
    pub fn unsatisfied(
        &self,
        witness: &Witness,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Unsatisfied>, R1csError> {
        match self.header.curve {
            Curve::Bn254 => self.unsatisfied_over::<Bn254>(witness, cancelled),
            Curve::Bls12381 => self.unsatisfied_over::<Bls12381>(witness, cancelled),
        }
    }

    fn unsatisfied_over<S: Suite>(
        &self,
        witness: &Witness,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Unsatisfied>, R1csError> {
        let values = &witness.values;
        if values.len() as u64 != u64::from(self.header.wires) {
            return Err(R1csError::WitnessLength { values: values.len() as u64, wires: self.header.wires });
        }
        let dot = |terms: &[Term]| {
            terms.iter().fold(S::Fr::ZERO, |sum, term| {
                let value = values.get(term.wire as usize).copied().unwrap_or_default();
                sum.add(&S::Fr::from_plain(term.coefficient).mul(&S::Fr::from_plain(value)))
            })
        };
        self.find_first(cancelled, |number, constraint| {
            if dot(&constraint.a).mul(&dot(&constraint.b)).sub(&dot(&constraint.c)).is_zero() {
                return None;
            }
            Some(Unsatisfied { constraint: number, wires: wires_of(constraint) })
        })
    }
}

impl<'a, R: ReadAt> Reader<'a, R> {
    fn new(r1cs: &'a R1cs<R>) -> Self {
        let Section { offset, length, .. } = r1cs.constraints;
        let cursor = Cursor::new(&r1cs.source, offset, offset + length);
        Self { r1cs, cursor, modulus: r1cs.header.curve.scalar_modulus(), next: 0 }
    }

    /// Reads the next constraint into `constraint`; its number, or `None` after the last one.
    fn read(&mut self, constraint: &mut Constraint) -> Result<Option<u32>, R1csError> {
        let (number, header) = (self.next, &self.r1cs.header);
        if number == header.constraints {
            return match self.cursor.remaining() {
                0 => Ok(None),
                bytes => Err(R1csError::BytesAfterConstraints { bytes }),
            };
        }
        for terms in [&mut constraint.a, &mut constraint.b, &mut constraint.c] {
            read_terms(&mut self.cursor, terms, number, header.wires, &self.modulus)?;
        }
        self.next += 1;
        Ok(Some(number))
    }
}

impl Unsatisfied {
    /// "constraint 1234: signals main.a\[3\], main.b"; wires without a name in `names` are given by number. Tells no value.
    pub fn describe(&self, names: &std::collections::BTreeMap<u32, String>) -> String {
        let name = |wire: &u32| names.get(wire).cloned().unwrap_or_else(|| format!("wire {wire}"));
        let signals: Vec<String> = self.wires.iter().map(name).collect();
        match signals.len() {
            0 => format!("constraint {}: no signals", self.constraint),
            _ => format!("constraint {}: signals {}", self.constraint, signals.join(", ")),
        }
    }
}

fn read_header(source: &impl ReadAt, place: Section) -> Result<R1csHeader, R1csError> {
    if place.length < 4 {
        return Err(R1csError::HeaderLength { found: place.length });
    }
    let bytes = read_range(source, place.offset, place.length.min(HEADER_BYTES), HEADER_BYTES)?;
    let size = u32_at(&bytes, 0);
    if size as usize != COEFFICIENT_BYTES {
        return Err(R1csError::FieldSize { bytes: size });
    }
    if place.length != HEADER_BYTES {
        return Err(R1csError::HeaderLength { found: place.length });
    }
    let curve = Curve::from_scalar_modulus(&bytes[4..36]).ok_or(R1csError::UnknownPrime)?;
    let [wires, public_outputs, public_inputs, private_inputs] = std::array::from_fn(|i| u32_at(&bytes, 36 + 4 * i));
    let signals = u64::from(public_outputs) + u64::from(public_inputs) + u64::from(private_inputs);
    if signals >= u64::from(wires) {
        return Err(R1csError::TooManySignals { signals, wires });
    }
    let (labels, constraints) = (u64_at(&bytes, 52), u32_at(&bytes, 60));
    Ok(R1csHeader { curve, wires, public_outputs, public_inputs, private_inputs, labels, constraints })
}

fn read_terms<R: ReadAt>(
    cursor: &mut Cursor<'_, R>,
    terms: &mut Vec<Term>,
    constraint: u32,
    wires: u32,
    modulus: &[u64; 4],
) -> Result<(), R1csError> {
    terms.clear();
    let past_end = |_| R1csError::ConstraintPastEnd { constraint };
    let count = u32_at(cursor.take(4)?.map_err(past_end)?, 0);
    let entry = 4 + COEFFICIENT_BYTES;
    if u64::from(count) * entry as u64 > cursor.remaining() {
        return Err(R1csError::ConstraintPastEnd { constraint });
    }
    for _ in 0..count {
        let bytes = cursor.take(entry)?.map_err(past_end)?;
        let (wire, coefficient) = (u32_at(bytes, 0), limbs_at(bytes, 4));
        if wire >= wires {
            return Err(R1csError::Wire { constraint, wire, wires });
        }
        if !below(&coefficient, modulus) {
            return Err(R1csError::Coefficient { constraint });
        }
        terms.push(Term { wire, coefficient });
    }
    Ok(())
}

fn wires_of(constraint: &Constraint) -> Vec<u32> {
    let terms = [&constraint.a, &constraint.b, &constraint.c].into_iter().flatten();
    let wires: BTreeSet<u32> = terms.map(|term| term.wire).filter(|wire| *wire != 0).collect();
    wires.into_iter().take(MAX_NAMED_WIRES).collect()
}
