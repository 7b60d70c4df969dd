//! The blinding scalars r and s, which make a proof hide its witness: uniform over the whole scalar field.

use proofmill_kernels::field::PrimeField;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::assignment::below;
use crate::curve::Suite;
use crate::device::Blinding;

/// Plain limbs below the scalar field's modulus.
#[derive(Clone)]
pub struct BlindingScalars {
    /// r
    pub r: [u64; 4],
    /// s
    pub s: [u64; 4],
}

impl BlindingScalars {
    /// Draws r, then s. The error is the system's, where its generator fails.
    pub fn draw<S: Suite>(blinding: &Blinding) -> Result<Self, getrandom::Error> {
        match blinding {
            Blinding::Random => Ok(Self { r: sample::<S, _>(getrandom::fill)?, s: sample::<S, _>(getrandom::fill)? }),
            Blinding::SeededForTests(seed) => {
                let mut rng = ChaCha20Rng::from_seed(*seed);
                let mut fill = |bytes: &mut [u8]| {
                    rng.fill_bytes(bytes);
                    Ok(())
                };
                Ok(Self { r: sample::<S, _>(&mut fill)?, s: sample::<S, _>(&mut fill)? })
            }
            Blinding::ZeroForTests => Ok(Self { r: [0; 4], s: [0; 4] }),
        }
    }
}

/// A uniform scalar: as many random bits as the modulus has, again until they are below it (at most half are not).
pub(crate) fn sample<S: Suite, E>(mut fill: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<[u64; 4], E> {
    let modulus = S::Fr::MODULUS;
    let spare = modulus[3].leading_zeros();
    loop {
        let mut limbs = [0; 4];
        for limb in &mut limbs {
            let mut bytes = [0; 8];
            fill(&mut bytes)?;
            *limb = u64::from_le_bytes(bytes);
        }
        limbs[3] &= u64::MAX >> spare;
        if below(&limbs, &modulus) {
            return Ok(limbs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Bls12381, Bn254};

    fn draws<S: Suite>() -> Vec<[u64; 4]> {
        (0..200).map(|_| BlindingScalars::draw::<S>(&Blinding::Random).unwrap().r).collect()
    }

    /// The mean of the top limb, relative to the modulus: 0.5 for a uniform draw, with a deviation of 0.02 over 200.
    fn mean<S: Suite>(draws: &[[u64; 4]]) -> f64 {
        draws.iter().map(|r| r[3] as f64).sum::<f64>() / draws.len() as f64 / S::Fr::MODULUS[3] as f64
    }

    #[test]
    fn random_scalars_cover_the_whole_range() {
        let (bn, bls) = (draws::<Bn254>(), draws::<Bls12381>());
        assert!((mean::<Bn254>(&bn) - 0.5).abs() < 0.15, "{}", mean::<Bn254>(&bn));
        assert!((mean::<Bls12381>(&bls) - 0.5).abs() < 0.15, "{}", mean::<Bls12381>(&bls));
        assert!(bn.iter().all(|r| below(r, &<Bn254 as Suite>::Fr::MODULUS)));
    }

    #[test]
    fn values_at_and_above_the_modulus_are_drawn_again() {
        let modulus = <Bls12381 as Suite>::Fr::MODULUS;
        let mut script = [modulus, [u64::MAX; 4], [7, 0, 0, 0]].into_iter().flatten();
        let drawn = sample::<Bls12381, ()>(|bytes| {
            bytes.copy_from_slice(&script.next().unwrap().to_le_bytes());
            Ok(())
        });
        assert_eq!(drawn, Ok([7, 0, 0, 0]));
    }

    #[test]
    fn a_seed_gives_the_same_scalars_and_r_is_not_s() {
        let seed = Blinding::SeededForTests([3; 32]);
        let first = BlindingScalars::draw::<Bn254>(&seed).unwrap();
        let again = BlindingScalars::draw::<Bn254>(&seed).unwrap();
        assert_eq!((first.r, first.s), (again.r, again.s));
        assert_ne!(first.r, first.s);
    }
}
