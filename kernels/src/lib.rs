//! Limb arithmetic, NTT and MSM for BN254 and BLS12-381. Knows no proof system, no file format.
//!
//! All of it runs on the CPU today, under `cpu/` in the sources; other devices get a folder beside it.
//!
//! | module | what |
//! |---|---|
//! | [`field`], [`fp2`] | the base fields, their quadratic extensions, the scalar fields |
//! | [`curve`] | points in G1 and G2: memory layout, group law, curve constants |
//! | [`msm`] | multi-scalar multiplication as a bag of independent tasks |
//! | [`ntt`] | number-theoretic transforms over the scalar fields |
//! | [`batch`] | many multiples of one base (dev key setup) |
//! | [`check`], [`subgroup`] | validity of many points at once |
//!
//! # Memory layout
//! Everything is little-endian 64-bit limbs in Montgomery form with R = 2^256 or 2^384, the layout of zkey files and of
//! arkworks: sections of a mapped file are cast in place ([`bytemuck::Pod`]). Within the crate a value may be any of
//! its representatives below [`field::Fp::BOUND`] (2p, or p where the limbs leave no room for more); exported values are
//! canonical.
//!
//! # Backends
//! On x86-64 with BMI2 and ADX the limbs are worked on in assembly, elsewhere in portable Rust. The choice costs the hot
//! loops nothing: each call of a kernel (a task of an MSM, a transform, a chunk of a batch) looks once at the processor's
//! cached features and runs a copy compiled for one backend. Single operations on the public types look at each call.
//! The feature `portable` leaves the assembly out altogether.
//!
//! # Not constant time
//! Windows, bucket order and skipped zeros depend on the scalars: nothing here is safe against an attacker who can
//! measure the prover's time or caches.
//!
//! # Threads
//! No pool of its own: parallel functions run on the rayon pool that calls them (`pool.install`).

mod cpu;

pub use cpu::{batch, check, curve, field, fp2, msm, ntt, subgroup};
