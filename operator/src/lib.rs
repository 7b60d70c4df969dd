//! The operator: ProofJobs, Circuits and ProverPools become prover pods and verified proofs.
//!
//! Watches feed an index (plain data), a pure planner computes what should be done, a leader-only executor does it. Nothing
//! but the executor and the watches knows a network.
//!
//! | module | what |
//! |---|---|
//! | [`certificates`] | who operator and engines are to each other: authority, leaves, rotation |
//! | [`index`] | what the cluster holds |
//! | [`pool`] | from a ProverPool and what is known of its pods to the pods that should be |

pub mod certificates;
pub mod index;
pub mod pool;
