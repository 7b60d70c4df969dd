//! The API types of proofmill.dev and their validation.
