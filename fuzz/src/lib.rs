//! What the targets run: the entries of groth16's own short random tests.

#[path = "../../prover/groth16/tests/parsers/mod.rs"]
pub mod parsers;
