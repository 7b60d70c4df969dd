//! Leader election with a Lease.
//!
//! Every write of the Lease carries the resource version it was read with, so that of two candidates one wins. Whether
//! another's Lease has run out is judged by this process's monotonic clock alone, from when it last saw it change; clocks of
//! machines are never compared. A leader may act only as long as its own last renewal is younger than the Lease's duration:
//! a paused process finds out at once when it wakes.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;

/// A Lease holds so long without renewal.
pub const DURATION: Duration = Duration::from_secs(15);
/// A leader renews it so often; a candidate that lost a race or got no answer tries again after that.
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
    /// The Lease as this process wrote it last, to be renewed without reading it.
    own: Mutex<Option<Lease>>,
}

/// What a candidate last saw of the Lease: none, or one of a resource version, since a moment.
struct Seen {
    lease: Option<Lease>,
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
        Self { api, name: name.to_owned(), identity: identity.to_owned(), leadership, own: Mutex::default() }
    }

    /// Waits until this process leads; the Lease's transitions, which only grow.
    pub async fn win(&self) -> u64 {
        let mut leases = pin!(watch_object(self.api.clone(), &self.name).default_backoff());
        let mut seen: Option<Seen> = None;
        loop {
            // Nothing is known before the watch has told once.
            let due = seen.as_ref().map_or(Duration::MAX, Seen::time_left);
            tokio::select! {
                next = leases.next() => match next {
                    Some(Ok(lease)) => Seen::update(&mut seen, lease),
                    Some(Err(error)) => tracing::warn!(lease = self.name, "cannot watch the Lease: {error}"),
                    // A watch does not end.
                    None => tokio::time::sleep(PERIOD).await,
                },
                () = tokio::time::sleep(due) => {
                    let begun = Instant::now();
                    let taken = match &seen {
                        Some(Seen { lease, .. }) => self.take(lease.as_ref()).await,
                        None => Ok(None),
                    };
                    match taken {
                        Ok(Some(epoch)) => {
                            self.leadership.extend(begun);
                            return epoch;
                        }
                        Ok(None) => {}
                        Err(error) => tracing::warn!(lease = self.name, "cannot write the Lease: {error}"),
                    }
                    // Another was faster, and the watch tells; or there was no answer.
                    tokio::time::sleep(PERIOD).await;
                }
            }
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

    /// Takes the Lease, as it was seen, over: its epoch, or nothing if it is another one by now.
    async fn take(&self, seen: Option<&Lease>) -> kube::Result<Option<u64>> {
        let Some(seen) = seen else {
            let created = self.api.create(&PostParams::default(), &self.lease(ObjectMeta::default(), 0)).await;
            return self.won(created, 0);
        };
        let before = seen.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let transitions = before.saturating_add(1);
        let metadata = ObjectMeta { resource_version: seen.metadata.resource_version.clone(), ..ObjectMeta::default() };
        let replaced = self.api.replace(&self.name, &PostParams::default(), &self.lease(metadata, transitions)).await;
        self.won(replaced, transitions)
    }

    /// Losing a race is no error.
    fn won(&self, written: kube::Result<Lease>, transitions: i32) -> kube::Result<Option<u64>> {
        match written {
            Ok(lease) => {
                *self.own() = Some(lease);
                // Engines take epoch 0 for a client that knows no leader.
                Ok(Some(u64::from(transitions.unsigned_abs()) + 1))
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the Lease is still this process's.
    async fn renew(&self) -> kube::Result<bool> {
        let known = self.own().take();
        let mut lease = match known {
            Some(lease) => lease,
            // The last answer was lost, or somebody else wrote.
            None => self.api.get(&self.name).await?,
        };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(false);
        }
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        // A conflict is an error like any other: nothing was renewed, and the next turn shows who holds the Lease.
        let renewed = self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        *self.own() = Some(renewed);
        Ok(true)
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Option<Lease>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Seen {
    /// Takes in what is there; only another resource version counts as a sign of life.
    fn update(seen: &mut Option<Self>, lease: Option<Lease>) {
        let version = |lease: &Option<Lease>| lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        if seen.as_ref().is_none_or(|known| version(&known.lease) != version(&lease)) {
            *seen = Some(Self { lease, since: Instant::now() });
        }
    }

    /// How long it holds yet. One of a process of the same name before this one holds, too: that process cannot be at work any
    /// more, but its requests may be under way.
    fn time_left(&self) -> Duration {
        let Some(spec) = self.lease.as_ref().and_then(|lease| lease.spec.as_ref()) else { return Duration::ZERO };
        if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
            return Duration::ZERO;
        }
        let duration = spec.lease_duration_seconds.map_or(DURATION, |s| Duration::from_secs(s.unsigned_abs().into()));
        duration.saturating_sub(self.since.elapsed())
    }
}
