//! snarkjs's reduction: A B - C is zero on the domain, so that its values on the odd half of the domain of twice the size
//! determine it. Key and prover meet in the Lagrange basis of that half: six NTTs, no division, no coset generator.
//!
//! With omega of order 2n: interpolate on the n-domain, multiply coefficient k by omega^k, evaluate on the n-domain; that
//! gives the values at omega^(2i + 1). C's row sums are not in the key: C = A B on the domain.

use proofmill_kernels::field::{Field, PrimeField};
use proofmill_kernels::ntt::{Domain, scale_bit_reversed};
use rayon::prelude::*;

use super::{Evaluations, Pass, ReductionError, Vector};
use crate::curve::{Reduction, Suite};

/// Elements that one task works on: 128 KiB, half a second-level cache.
const CHUNK: usize = 4096;

/// Tables for the way from the domain of size n to the odd half of the domain of size 2n.
pub struct OddHalf<S: Suite> {
    domain: Domain<S::Fr>,
    /// Of order 2n.
    omega: S::Fr,
    /// 1 / n
    scale: S::Fr,
}

impl<S: Suite> OddHalf<S> {
    /// For a domain of 2^`log`.
    pub fn new(log: u32) -> Result<Self, ReductionError> {
        // At log = s there is no omega of order 2n, and snarkjs takes another way.
        if log >= S::TWO_ADICITY {
            return Err(ReductionError::WholeSubgroup { log, curve: S::CURVE });
        }
        let omega = S::root_of_unity(Reduction::Circom, log + 1);
        Ok(Self { domain: Domain::new(log, omega.sqr()), omega, scale: S::Fr::from_u64(1 << log).inv() })
    }

    /// The order of work; see [`Pass`].
    pub(super) fn passes(&self) -> Vec<Pass> {
        let parts = 0..self.domain.parts();
        let vector = |which| {
            let inverse = parts.clone().map(move |part| Pass::Inverse(which, part));
            inverse.chain(parts.clone().map(move |part| Pass::Forward(which, part)))
        };
        let vectors = [Vector::A, Vector::B, Vector::C].into_iter().flat_map(vector);
        [Pass::Product].into_iter().chain(vectors).chain([Pass::Quotient]).collect()
    }

    /// See [`super::Transform::stages`].
    pub(super) fn stages(&self, pass: Pass) -> f64 {
        match pass {
            Pass::Product | Pass::Quotient => 4.0,
            // The way to the odd half costs two stages more.
            Pass::Inverse(..) | Pass::Forward(..) => f64::from(self.domain.log() + 2) / self.domain.parts() as f64,
        }
    }

    /// Runs one pass on the current rayon pool.
    pub(super) fn run(&self, pass: Pass, evaluations: &mut Evaluations<S::Fr>) {
        match pass {
            Pass::Product => {
                let Evaluations { a, b, c, .. } = evaluations;
                *c = a.par_iter().zip(&*b).with_min_len(CHUNK).map(|(a, b)| a.mul(b)).collect();
            }
            Pass::Inverse(which, part) => self.domain.dif_inverse_part(evaluations.vector(which), part),
            Pass::Forward(which, part) => {
                let values = evaluations.vector(which);
                if part == 0 {
                    scale_bit_reversed(values, &self.scale, &self.omega);
                }
                self.domain.dit_part(values, part);
            }
            Pass::Quotient => {
                let Evaluations { a, b, c, .. } = evaluations;
                a.par_iter_mut().zip(&*b).zip(&*c).with_min_len(CHUNK).for_each(|((a, b), c)| {
                    // Plain limbs in the clothes of a field element: `a`'s memory becomes `h`'s.
                    *a = S::Fr::from_montgomery(a.mul(b).sub(c).to_plain());
                });
                *b = Vec::new();
                *c = Vec::new();
                evaluations.h = bytemuck::cast_vec(std::mem::take(a));
            }
        }
    }
}
