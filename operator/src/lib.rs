//! The operator: ProofJobs, Circuits and ProverPools become prover pods and verified proofs.
//!
//! Watches feed an index (plain data), a pure planner computes what should be done, a leader-only executor does it. Nothing
//! but the executor, the links and the watches knows a network.
//!
//! | module | what |
//! |---|---|
//! | [`config`], [`run`] | the command line, and everything together |
//! | [`watch`] | the API server's objects, as changes |
//! | [`index`] | what the cluster holds |
//! | [`planner`] | what is known and what follows from it; pure |
//! | [`jobs`] | ProofJobs on their way to a proof |
//! | [`pool`] | from a ProverPool and what is known of its pods to the pods that should be |
//! | [`account`] | what the engines did, summed up by pool; pure |
//! | [`fleet`] | the engines, and which one gets the next partition |
//! | [`certificates`] | who operator and engines are to each other: authority, leaves, rotation; pure |
//! | [`credentials`] | the same in the cluster's Secrets |
//! | [`link`], [`tls`] | connections to engines |
//! | [`executor`], [`delivery`] | what the planner wants is done here |
//! | [`leader`] | which replica may act |
//! | [`metrics`], [`http`] | what the operator tells about itself |
//! | [`plugin`] | `kubectl proofmill` |
//! | [`clock`], [`conditions`], [`owner`] | time as data; conditions of statuses; who owns what is made |

pub mod account;
pub mod certificates;
pub mod clock;
pub mod conditions;
pub mod config;
pub mod credentials;
pub mod delivery;
pub mod executor;
pub mod fleet;
pub mod http;
pub mod index;
pub mod jobs;
pub mod leader;
pub mod link;
pub mod metrics;
pub mod owner;
pub mod planner;
pub mod plugin;
pub mod pool;
pub mod run;
pub mod tls;
pub mod watch;
