//! Groth16 on BN254 and BLS12-381: proving keys, witnesses, devices, `prove_start` and `prove_finish`, verification.
//! No async, no Kubernetes.

pub mod assignment;
pub mod canary;
pub mod curve;
pub mod device;
pub mod format;
pub mod key;
pub mod point;
pub mod proof;
pub mod prove;
pub mod reduction;
pub mod setup;
pub mod verify;
pub mod verifying_key;
