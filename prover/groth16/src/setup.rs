//! The development setup: from an r1cs to a zkey that snarkjs takes, with a trapdoor that was known to this process.
//!
//! **Insecure by nature**: whoever knows (or guesses the seed of) the trapdoor proves anything. The file says so in a
//! section of its own ([`crate::format::zkey::DEV_SETUP_MARK`]), which our readers look for and others skip. It serves tests and benchmarks,
//! where a ceremony would take hours of CPU.
//!
//! `qap` evaluates the constraints at tau, `writer` turns the scalars into points and a file.

use std::io::{self, Write};

use crate::curve::{Bls12381, Bn254, Curve, Suite};
use crate::format::r1cs::{R1cs, R1csError};
use crate::format::source::ReadAt;
use crate::format::zkey::MAX_DOMAIN_LOG;
use qap::Qap;
use trapdoor::Trapdoor;

mod coefficients;
mod qap;
mod trapdoor;
mod writer;

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupSummary {
    /// The curve.
    pub curve: Curve,
    /// Wires, the constant 1 included.
    pub variables: u32,
    /// Public signals, the constant 1 not included.
    pub public: u32,
    /// Constraints.
    pub constraints: u32,
    /// Base-2 logarithm of the domain.
    pub domain_log: u32,
    /// Bytes written.
    pub bytes: u64,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The constraints cannot be read.
    #[error(transparent)]
    R1cs(#[from] R1csError),
    /// The key cannot be written.
    #[error("cannot write the key: {0}")]
    Write(#[from] io::Error),
    /// The system's random generator failed.
    #[error("the system's random generator failed: {0}")]
    Random(getrandom::Error),
    /// The coefficient section counts its entries in 32 bits.
    #[error("the constraints have more terms than a zkey can count (2^32)")]
    TooManyTerms,
    /// Too many constraints.
    #[error(
        "{constraints} constraints and {public} public signals need a domain of 2^{log}; 2^{MAX_DOMAIN_LOG} is the largest supported"
    )]
    TooLarge {
        /// Constraints.
        constraints: u32,
        /// Public signals.
        public: u32,
        /// log2 of the domain they need.
        log: u32,
    },
}

/// Writes an insecure zkey for `r1cs` to `out` (buffered by the caller), in parallel on the current rayon pool. The same
/// seed gives the same bytes; without one the trapdoor is drawn from the system and dropped.
pub fn dev_setup<R: ReadAt>(
    r1cs: &R1cs<R>,
    seed: Option<[u8; 32]>,
    out: &mut impl Write,
) -> Result<SetupSummary, SetupError> {
    match r1cs.header().curve {
        Curve::Bn254 => setup::<Bn254, R>(r1cs, seed, out),
        Curve::Bls12381 => setup::<Bls12381, R>(r1cs, seed, out),
    }
}

fn setup<S: Suite, R: ReadAt>(
    r1cs: &R1cs<R>,
    seed: Option<[u8; 32]>,
    out: &mut impl Write,
) -> Result<SetupSummary, SetupError> {
    let header = r1cs.header();
    let public = header.public_outputs + header.public_inputs;
    let domain_log = domain_log(header.constraints, public);
    if domain_log > MAX_DOMAIN_LOG {
        return Err(SetupError::TooLarge { constraints: header.constraints, public, log: domain_log });
    }
    let trapdoor = Trapdoor::<S>::draw(seed).map_err(SetupError::Random)?;
    let qap = Qap::evaluate(r1cs, public, domain_log, &trapdoor)?;
    let bytes = writer::write_key(r1cs, qap, &trapdoor, out)?;
    Ok(SetupSummary {
        curve: S::CURVE,
        variables: header.wires,
        public,
        constraints: header.constraints,
        domain_log,
        bytes,
    })
}

/// snarkjs's choice: the smallest power of two above constraints + public signals, at least 2.
fn domain_log(constraints: u32, public: u32) -> u32 {
    (u64::from(constraints) + u64::from(public)).max(1).ilog2() + 1
}
