//! Witnesses of generators that work.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/features.rs"]
mod features;
#[path = "../support/fixtures.rs"]
mod fixtures;
mod random;
mod witnesses;

use num_bigint::BigUint;

/// A value of a witness as an integer.
pub fn integer(limbs: [u64; 4]) -> BigUint {
    limbs.iter().rev().fold(BigUint::ZERO, |sum, limb| (sum << 64) + *limb)
}
