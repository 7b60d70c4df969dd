//! Events as `kubectl describe` shows them.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use kube::api::ObjectMeta;
use proofmill_crds::ProofJob;

use crate::index::Meta;

/// Who tells.
pub const CONTROLLER: &str = "proofmill-operator";
/// Reason of an event: a pool's certificate could not be made or written.
pub const NO_CERTIFICATE: &str = "NoCertificate";
/// Bytes of a note: the API server takes no more.
const NOTE: usize = 1024;

/// How a job ended. Each job tells that once: there is no series to be kept, as [`kube::runtime::events::Recorder`] would, of each
/// event of the last minutes.
pub fn of_job(job: &Meta, reason: &str, note: String, warning: bool) -> Event {
    let reference = reference::<ProofJob>(job);
    Event {
        metadata: ObjectMeta {
            generate_name: Some(format!("{:.200}.", job.key.name)),
            namespace: Some(job.key.namespace.clone()),
            ..ObjectMeta::default()
        },
        action: Some("Prove".to_owned()),
        event_time: Some(MicroTime(Timestamp::now())),
        note: Some(shortened(&note)),
        reason: Some(reason.to_owned()),
        regarding: Some(reference),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

/// Which object an event is about.
pub fn reference<K: Resource<DynamicType = ()>>(meta: &Meta) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: Some(meta.key.name.clone()),
        namespace: Some(meta.key.namespace.clone()),
        uid: Some(meta.uid.clone()),
        ..ObjectReference::default()
    }
}

/// A note as far as the API server takes it.
pub fn shortened(note: &str) -> String {
    note[..note.floor_char_boundary(NOTE)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_ends_at_a_whole_character_within_the_limit() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&format!("x{}", "ü".repeat(1000)));
        assert_eq!((long.len(), long.chars().last()), (1023, Some('ü')));
    }
}
