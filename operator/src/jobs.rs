//! ProofJobs on their way to a proof.
//!
//! | module | what |
//! |---|---|
//! | [`record`] | a job as the operator knows it: its object and where each partition is |
//! | [`failure`] | what an engine's failure means: try again, elsewhere, or never |
//! | [`message`] | Circuits and inputs as the engine's protocol has them |
//! | [`status`] | the status that users read, from a record |

pub mod failure;
pub mod message;
pub mod record;
pub mod status;
