//! Files of circom and snarkjs: the binary container, zkey, wtns, r1cs, sym; and what `inspect` shows of each.
//!
//! Readers take any [`source::ReadAt`], check every length against it before they allocate, and give each fault an error of
//! its own. None of them maps a foreign file: what another process may truncate is read, never mapped.

pub mod container;
pub mod decimal;
pub mod inspect;
pub mod public;
pub mod r1cs;
pub mod source;
pub mod sym;
pub mod wtns;
pub mod zkey;
