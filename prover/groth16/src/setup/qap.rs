//! The constraints as polynomials, evaluated at tau.

use std::ops::ControlFlow;

use proofmill_kernels::field::{Field, PrimeField};
use rayon::prelude::*;

use super::SetupError;
use super::trapdoor::Trapdoor;
use crate::curve::{Reduction, Suite};
use crate::format::r1cs::{R1cs, Term};
use crate::format::source::ReadAt;

/// Values per task and per inversion.
const CHUNK: usize = 1024;

/// A_i, B_i, C_i at tau for every wire i; Montgomery form.
pub(super) struct Qap<F> {
    pub a: Vec<F>,
    pub b: Vec<F>,
    pub c: Vec<F>,
    pub public: usize,
    pub domain_log: u32,
    /// Entries of the key's coefficient section.
    pub entries: u32,
}

impl<F: PrimeField<Limbs = [u64; 4]>> Qap<F> {
    /// One pass over the constraints. Row `constraints + i` holds the public signal i in A alone, the constant included:
    /// it makes the public signals' polynomials independent.
    pub fn evaluate<S: Suite<Fr = F>, R: ReadAt>(
        r1cs: &R1cs<R>,
        public: u32,
        domain_log: u32,
        trapdoor: &Trapdoor<S>,
    ) -> Result<Self, SetupError> {
        let header = r1cs.header();
        let wires = header.wires as usize;
        let n = 1 << domain_log;
        let root = S::root_of_unity(Reduction::Circom, domain_log);
        let lagrange = weights(n, &F::ONE, &root, &trapdoor.tau, &vanishing(&trapdoor.tau, domain_log));
        let zero = || vec![F::ZERO; wires];
        let mut qap =
            Self { a: zero(), b: zero(), c: zero(), public: public as usize, domain_log, entries: public + 1 };
        let flow = r1cs.for_each(|number, constraint| {
            let weight = &lagrange[number as usize];
            add_terms(&mut qap.a, &constraint.a, weight);
            add_terms(&mut qap.b, &constraint.b, weight);
            add_terms(&mut qap.c, &constraint.c, weight);
            match qap.entries.checked_add((constraint.a.len() + constraint.b.len()) as u32) {
                Some(entries) => {
                    qap.entries = entries;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(()),
            }
        })?;
        if flow.is_break() {
            return Err(SetupError::TooManyTerms);
        }
        for (wire, weight) in lagrange.iter().skip(header.constraints as usize).take(public as usize + 1).enumerate() {
            qap.a[wire] = qap.a[wire].add(weight);
        }
        Ok(qap)
    }
}

fn add_terms<F: PrimeField<Limbs = [u64; 4]>>(sums: &mut [F], terms: &[Term], weight: &F) {
    for term in terms {
        if let Some(sum) = sums.get_mut(term.wire as usize) {
            *sum = sum.add(&F::from_plain(term.coefficient).mul(weight));
        }
    }
}

/// (tau^N - 1) / N with N = 2^log: what all Lagrange weights of a domain of that size share.
pub(super) fn vanishing<F: PrimeField<Limbs = [u64; 4]>>(tau: &F, log: u32) -> F {
    let power = (0..log).fold(*tau, |power, _| power.sqr());
    power.sub(&F::ONE).mul(&F::from_plain([1 << log, 0, 0, 0]).inv())
}

/// scale * p_i / (tau - p_i) with p_i = first * ratio^i, for i below `count`: with `scale` = [`vanishing`], the values at tau
/// of the Lagrange polynomials of the p_i. tau must be none of them, which a random one is not.
pub(super) fn weights<F: PrimeField<Limbs = [u64; 4]>>(
    count: usize,
    first: &F,
    ratio: &F,
    tau: &F,
    scale: &F,
) -> Vec<F> {
    let mut weights = vec![F::ZERO; count];
    weights.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, weights)| {
        let mut point = first.mul(&power(ratio, (chunk * CHUNK) as u64));
        // Prefix products of the denominators, then one inversion, then backwards.
        let mut points = Vec::with_capacity(weights.len());
        let mut product = F::ONE;
        for weight in weights.iter_mut() {
            *weight = product;
            product = product.mul(&tau.sub(&point));
            points.push(point);
            point = point.mul(ratio);
        }
        let mut inverse = product.inv();
        for (weight, point) in weights.iter_mut().zip(&points).rev() {
            *weight = weight.mul(&inverse).mul(point).mul(scale);
            inverse = inverse.mul(&tau.sub(point));
        }
    });
    weights
}

fn power<F: Field>(base: &F, exponent: u64) -> F {
    let mut result = F::ONE;
    for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
        result = result.sqr();
        if exponent >> bit & 1 == 1 {
            result = result.mul(base);
        }
    }
    result
}
