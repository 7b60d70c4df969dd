//! The API types of `proofmill.dev/v1alpha1` and their validation: the one source of truth for the YAML of the
//! CustomResourceDefinitions, for the operator, and for `prover run`, which takes the documents that a cluster takes.
//!
//! - [`circuit`], [`proof_job`], [`prover_pool`]: the kinds, spec and status; [`source`], [`quantity`]: the fields that
//!   they share; [`pool_template`]: the pods of a pool.
//! - [`conditions`]: condition types and reasons, the strings that users see.
//! - [`rules`]: the CEL rules and the bounds written into the schemas.
//! - [`schema`]: the CustomResourceDefinitions as data, free of what an API server would warn about.
//! - [`mod@validate`]: what an API server does with an object: defaults, structural schema, CEL rules.
//! - [`documents`]: manifests (YAML or JSON, several documents a file) to validated objects, errors with file and line.
//!
//! A manifest goes `documents::parse` → `validate` → typed [`Object`]; a type goes `schema::definitions` → `yaml/*.yaml`
//! and the chart `charts/proofmill-crds` (`cargo run --release -p proofmill-crds --example crdgen`; a test fails when
//! those files are stale).

pub mod circuit;
pub mod conditions;
pub mod documents;
pub mod hex;
pub mod pool_template;
pub mod proof_job;
pub mod prover_pool;
pub mod quantity;
pub mod rules;
pub mod schema;
pub mod source;
pub mod validate;

pub use circuit::Circuit;
pub use proof_job::ProofJob;
pub use prover_pool::ProverPool;
pub use validate::{Object, Violation, validate, validate_update};

/// The API group of all kinds.
pub const GROUP: &str = "proofmill.dev";

/// The one version of the API.
pub const VERSION: &str = "v1alpha1";

/// `apiVersion` of every document.
pub const API_VERSION: &str = "proofmill.dev/v1alpha1";
