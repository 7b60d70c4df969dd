//! The wire protocol `proofmill.v1`: messages, client and server made from `proto/`, and what both sides must agree on.
//!
//! - [`v1`]: the generated types.
//! - [`limits`]: sizes that the engine holds its clients to.
//! - [`digest`]: how our clients compute `SubmitRequest.digest`.
//! - [`names`]: the words for states, priorities and failures that users see.

use prost::Message;
use sha2::{Digest, Sha256};

mod json;
pub mod limits;
pub mod names;

/// The generated types of `proofmill.v1`.
pub mod v1 {
    #![allow(missing_docs, unused_qualifications, clippy::all)]
    tonic::include_proto!("proofmill.v1");
}

/// The `digest` of a submission: SHA-256 over the encodings of circuit and input, each after its length. The engine only
/// compares digests; a client in another language may choose its own, as long as equal content gives equal digests.
pub fn digest(circuit: &v1::Circuit, input: &v1::Input) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [circuit.encode_to_vec(), input.encode_to_vec()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(&part);
    }
    hash.finalize().into()
}

impl std::fmt::Debug for v1::Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("source", &self.source).finish()
    }
}

impl std::fmt::Debug for v1::input::Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Fetch(source) => f.debug_tuple("Fetch").field(&source.url).finish(),
        }
    }
}

impl std::fmt::Display for v1::PartitionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.job, self.partition, self.attempt)
    }
}

#[cfg(test)]
mod tests;
