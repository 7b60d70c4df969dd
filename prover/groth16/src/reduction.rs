//! From the evaluations of the constraints to the scalars of the H multi-scalar multiplication: the QAP reduction, a
//! property of the key.
//!
//! A reduction is a list of [`Pass`]es over the evaluations, short enough to be steps of a device's lease.
//! [`circom`] is the one that works; bellperson's (7 NTTs, coset generator 7, division by the vanishing polynomial) will
//! be the second variant of [`Transform`].

use crate::curve::{Reduction, Suite};

pub mod circom;

/// The tables of one reduction on one domain.
pub enum Transform<S: Suite> {
    /// snarkjs's.
    Circom(circom::OddHalf<S>),
}

/// Why there is no transform for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReductionError {
    /// snarkjs builds other H points there (circom.md: the coset factor is `Fr.shift`).
    #[error("a domain of 2^{log} is the whole two-adic subgroup of {curve}, which this prover does not support")]
    WholeSubgroup {
        /// log2 of the domain.
        log: u32,
        /// The curve.
        curve: crate::curve::Curve,
    },
    /// Not yet.
    #[error("keys of bellperson's reduction are not supported by this version")]
    Bellperson,
}

/// What the passes work on. All vectors have the domain's length until they are spent, and are freed as soon as they are.
#[derive(Default)]
pub struct Evaluations<F> {
    /// Row sums of A.
    pub a: Vec<F>,
    /// Row sums of B.
    pub b: Vec<F>,
    /// Their product.
    pub c: Vec<F>,
    /// The result: scalars of the H multi-scalar multiplication, plain limbs.
    pub h: Vec<[u64; 4]>,
}

/// One pass over the evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// c = a b, point by point.
    Product,
    /// A part of evaluations to coefficients, one vector.
    Inverse(Vector, usize),
    /// A part of coefficients to evaluations elsewhere, one vector.
    Forward(Vector, usize),
    /// h = a b - c, point by point.
    Quotient,
}

/// Which vector a [`Pass`] works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vector {
    /// a.
    A,
    /// b.
    B,
    /// c.
    C,
}

impl<S: Suite> Transform<S> {
    /// Tables for a key's reduction and domain.
    pub fn new(reduction: Reduction, log: u32) -> Result<Self, ReductionError> {
        match reduction {
            Reduction::Circom => circom::OddHalf::new(log).map(Self::Circom),
            Reduction::Bellperson => Err(ReductionError::Bellperson),
        }
    }

    /// The passes, in order.
    pub fn passes(&self) -> Vec<Pass> {
        match self {
            Self::Circom(transform) => transform.passes(),
        }
    }

    /// What a pass takes, in stages of a transform over the whole domain; the mean of the parts of a transform.
    pub fn stages(&self, pass: Pass) -> f64 {
        match self {
            Self::Circom(transform) => transform.stages(pass),
        }
    }

    /// Runs one pass, in parallel on the current rayon pool.
    pub fn run(&self, pass: Pass, evaluations: &mut Evaluations<S::Fr>) {
        match self {
            Self::Circom(transform) => transform.run(pass, evaluations),
        }
    }

    /// Bytes of the tables for a domain: half as many roots as it has points.
    pub const fn table_bytes(log: u32) -> u64 {
        16 << log
    }
}

impl<F> Evaluations<F> {
    /// One of the vectors.
    pub fn vector(&mut self, which: Vector) -> &mut Vec<F> {
        match which {
            Vector::A => &mut self.a,
            Vector::B => &mut self.b,
            Vector::C => &mut self.c,
        }
    }
}
