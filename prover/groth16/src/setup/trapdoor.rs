//! The numbers that a real ceremony makes sure nobody knows.

use proofmill_kernels::field::{Field, PrimeField};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::curve::Suite;
use crate::prove::blinding::sample;

/// tau, alpha, beta, delta, all non-zero; gamma is 1, as in snarkjs's keys.
pub(super) struct Trapdoor<S: Suite> {
    pub tau: S::Fr,
    pub alpha: S::Fr,
    pub beta: S::Fr,
    pub delta: S::Fr,
}

impl<S: Suite> Trapdoor<S> {
    /// From a seed, or from the system.
    pub fn draw(seed: Option<[u8; 32]>) -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        match seed {
            Some(seed) => key = seed,
            None => getrandom::fill(&mut key)?,
        }
        let mut rng = ChaCha20Rng::from_seed(key);
        Ok(Self {
            tau: draw::<S>(&mut rng)?,
            alpha: draw::<S>(&mut rng)?,
            beta: draw::<S>(&mut rng)?,
            delta: draw::<S>(&mut rng)?,
        })
    }
}

fn draw<S: Suite>(rng: &mut ChaCha20Rng) -> Result<S::Fr, getrandom::Error> {
    loop {
        let value = S::Fr::from_plain(sample::<S, _>(|bytes| {
            rng.fill_bytes(bytes);
            Ok(())
        })?);
        if !value.is_zero() {
            return Ok(value);
        }
    }
}
