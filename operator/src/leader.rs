//! Leader election with a Lease.
//!
//! Every write of the Lease carries the resource version it was read with, so that of two candidates one wins. Whether
//! another's Lease has run out is judged by this process's monotonic clock alone, from when it last saw it change; clocks of
//! machines are never compared. A leader may act only as long as its own last renewal is younger than the Lease's duration:
//! a paused process finds out at once when it wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};

/// A Lease holds so long without renewal.
pub const DURATION: Duration = Duration::from_secs(15);
/// A leader renews it so often, a candidate looks at it so often.
const PERIOD: Duration = Duration::from_secs(2);
/// A leader stops acting so long before its Lease may run out for others.
const MARGIN: Duration = Duration::from_secs(3);

/// Whether this process may act.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origin: Instant,
    /// Milliseconds after the origin until which this process leads; 0: never so far.
    until: AtomicU64,
}

/// A candidate for one Lease.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    leadership: Leadership,
}

/// What a candidate last saw of another's Lease.
struct Seen {
    resource_version: Option<String>,
    since: Instant,
}

/// Leadership was lost: the process must end.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Lease {0} was lost to another replica or could not be renewed in time; a restart makes this one a candidate again"
)]
pub struct Lost(String);

impl Default for Leadership {
    fn default() -> Self {
        Self(Arc::new(Shared { origin: Instant::now(), until: AtomicU64::new(0) }))
    }
}

impl Leadership {
    /// Whether this process may act at this moment.
    pub fn holds(&self) -> bool {
        self.0.origin.elapsed() < Duration::from_millis(self.0.until.load(Ordering::Acquire))
    }

    /// Renewed by a request that was begun at `begun`.
    fn extend(&self, begun: Instant) {
        let until = begun.saturating_duration_since(self.0.origin) + DURATION - MARGIN;
        self.0.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::Release);
    }
}

impl Candidate {
    /// Of the Lease `name`, as `identity`.
    pub fn new(api: Api<Lease>, name: &str, identity: &str, leadership: Leadership) -> Self {
        Self { api, name: name.to_owned(), identity: identity.to_owned(), leadership }
    }

    /// Waits until this process leads; the Lease's transitions, which only grow.
    pub async fn win(&self) -> u64 {
        let mut seen = Seen { resource_version: None, since: Instant::now() };
        loop {
            let begun = Instant::now();
            match self.try_win(&mut seen).await {
                Ok(Some(epoch)) => {
                    self.leadership.extend(begun);
                    return epoch;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(lease = self.name, "cannot read or write the Lease: {error}"),
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Renews the Lease for ever; returns when it is lost.
    pub async fn keep(&self) -> Lost {
        loop {
            tokio::time::sleep(PERIOD).await;
            let begun = Instant::now();
            // Once it has lapsed, commands were dropped: what this process believes does not hold any more, even if nobody
            // else has taken the Lease.
            if !self.leadership.holds() {
                return Lost(self.name.clone());
            }
            match tokio::time::timeout(DURATION - MARGIN, self.renew()).await {
                Ok(Ok(true)) if self.leadership.holds() => self.leadership.extend(begun),
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Lost(self.name.clone()),
                Ok(Err(error)) => tracing::warn!(lease = self.name, "the Lease was not renewed: {error}"),
                Err(_) => tracing::warn!(lease = self.name, "the API server does not answer"),
            }
            if !self.leadership.holds() {
                return Lost(self.name.clone());
            }
        }
    }

    /// Gives the Lease up, so that another replica need not wait for its end.
    pub async fn release(&self) {
        let released = async {
            let mut lease = self.api.get(&self.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.identity) {
                spec.holder_identity = None;
                self.api.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        // Without it the Lease runs out.
        if let Err(error) = released.await {
            tracing::warn!(lease = self.name, "the Lease was not released: {error}");
        }
    }

    async fn try_win(&self, seen: &mut Seen) -> kube::Result<Option<u64>> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let created = self.api.create(&PostParams::default(), &self.lease(ObjectMeta::default(), 0)).await;
            return won(created, 0);
        };
        let spec = lease.spec.unwrap_or_default();
        let free = spec.holder_identity.as_deref().unwrap_or_default().is_empty();
        if seen.resource_version != lease.metadata.resource_version {
            *seen = Seen { resource_version: lease.metadata.resource_version.clone(), since: Instant::now() };
        }
        // A process of the same name before this one cannot be at work any more, but its requests may be under way.
        let duration = spec.lease_duration_seconds.map_or(DURATION, |s| Duration::from_secs(s.unsigned_abs().into()));
        if !free && seen.since.elapsed() < duration {
            return Ok(None);
        }
        let transitions = spec.lease_transitions.unwrap_or_default().saturating_add(1);
        let metadata = ObjectMeta { resource_version: lease.metadata.resource_version, ..ObjectMeta::default() };
        let replaced = self.api.replace(&self.name, &PostParams::default(), &self.lease(metadata, transitions)).await;
        won(replaced, transitions)
    }

    /// Whether the Lease is still this process's.
    async fn renew(&self) -> kube::Result<bool> {
        let mut lease = self.api.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(false);
        }
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        // A conflict is an error like any other: nothing was renewed, and the next turn shows who holds the Lease.
        self.api.replace(&self.name, &PostParams::default(), &lease).await.map(|_| true)
    }

    fn lease(&self, metadata: ObjectMeta, transitions: i32) -> Lease {
        let now = Some(MicroTime(Timestamp::now()));
        Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..metadata },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time: now.clone(),
                renew_time: now,
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// Losing a race is no error.
fn won(written: kube::Result<Lease>, transitions: i32) -> kube::Result<Option<u64>> {
    match written {
        // Engines take epoch 0 for a client that knows no leader.
        Ok(_) => Ok(Some(u64::from(transitions.unsigned_abs()) + 1)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}
