//! The operator: ProofJobs, Circuits and ProverPools become prover pods and verified proofs.
//!
//! Watches feed an index (plain data), a pure planner computes what should be done, a leader-only executor does it. Nothing
//! but the executor and the watches knows a network.
//!
//! | module | what |
//! |---|---|
//! | [`index`] | what the cluster holds |

pub mod index;
