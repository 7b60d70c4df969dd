//! Limb arithmetic, NTT and MSM for BN254 and BLS12-381.
