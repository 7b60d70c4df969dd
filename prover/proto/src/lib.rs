//! The wire protocol proofmill.v1.
