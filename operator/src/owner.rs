//! Who owns what the operator makes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proofmill_crds::API_VERSION;

use crate::index::Meta;

/// The label of everything that the operator makes.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "proofmill");

/// An object of ours as the owner of what is made for it.
pub fn of(kind: &str, meta: &Meta) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: kind.to_owned(),
        name: meta.key.name.clone(),
        uid: meta.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
