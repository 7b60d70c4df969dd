//! The certificates of [`crate::certificates`] in the cluster: the authority's Secret in the operator's namespace, each
//! pool's Secret in the pool's, and the operator's own certificate in memory. Only a leader writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::watch;

use crate::certificates::{
    Authority, Cause, CertificateError, Identity, Lifetimes, Planned, SecretData, authority, leaf,
};
use crate::index::{Key, PoolObject};
use crate::leader::Leadership;
use crate::owner::{self, MANAGED_BY};
use crate::pool::pod::tls_secret;
use crate::{link, tls};

/// The authority's Secret.
pub const AUTHORITY: &str = "proofmill-authority";
/// How often what is due is looked for.
const PERIOD: Duration = Duration::from_secs(60);
/// Races with other replicas that are tried again at once.
const TRIES: usize = 5;

/// See the module.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    client: Client,
    namespace: String,
    lifetimes: Lifetimes,
    leadership: Leadership,
    /// What links use.
    tls: watch::Sender<link::Tls>,
    held: tokio::sync::Mutex<Option<Held>>,
    /// When the authority's and the operator's own certificates run out.
    ends: Mutex<Option<[i64; 2]>>,
    /// The pools whose Secrets are kept up.
    pools: Mutex<HashMap<Key, Kept>>,
}

struct Held {
    authority: Authority,
    look_again: i64,
}

/// A pool whose Secret is kept up.
struct Kept {
    pool: PoolObject,
    due: i64,
    /// When its certificate runs out, once it has one.
    ends: Option<i64>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The API server.
    #[error("Secret {name}: {error}")]
    Cluster {
        /// Namespace and name.
        name: Key,
        /// Its words.
        error: String,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// What was made cannot be used.
    #[error("the operator's own certificate: {0}")]
    Unusable(String),
    /// Somebody else's Secret has the name.
    #[error("Secret {name} is not the operator's, and {problem}: fill it in or delete it")]
    Foreign {
        /// Namespace and name.
        name: Key,
        /// What is wrong with it.
        problem: String,
    },
}

impl Credentials {
    /// With the authority's Secret in `namespace`; links learn of new certificates through `tls`.
    pub fn new(client: Client, namespace: &str, leadership: Leadership, tls: watch::Sender<link::Tls>) -> Self {
        Self(Arc::new(Shared {
            client,
            namespace: namespace.to_owned(),
            lifetimes: Lifetimes::default(),
            leadership,
            tls,
            held: tokio::sync::Mutex::new(None),
            ends: Mutex::default(),
            pools: Mutex::default(),
        }))
    }

    /// Keeps up a pool's Secret from now on.
    pub async fn keep(&self, pool: &PoolObject) -> Result<(), CredentialsError> {
        let key = &pool.meta.key;
        let now = Timestamp::now().as_second();
        let known = self.pools().get(key).is_some_and(|known| known.pool.meta.uid == pool.meta.uid && now < known.due);
        if known { Ok(()) } else { self.ensure(pool).await }
    }

    /// Makes sure that the pods of a pool find their Secret at this moment, and keeps it up from now on.
    pub async fn ensure(&self, pool: &PoolObject) -> Result<(), CredentialsError> {
        let key = &pool.meta.key;
        // Should it fail, it is due at once.
        let ends = self.pools().get(key).and_then(|known| known.ends);
        self.pools().insert(key.clone(), Kept { pool: pool.clone(), due: 0, ends });
        if let Some(planned) = self.renew_pool(pool, Timestamp::now().as_second()).await? {
            self.pools()
                .insert(key.clone(), Kept { pool: pool.clone(), due: planned.look_again, ends: Some(planned.ends) });
        }
        Ok(())
    }

    /// When certificates run out, seconds since 1970: the authority's, the operator's own, and the first of the pools'.
    pub fn expiries(&self) -> Vec<(&'static str, i64)> {
        let own = *self.0.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let own = own.into_iter().flat_map(|[authority, operator]| [("authority", authority), ("operator", operator)]);
        let pools = self.pools().values().filter_map(|kept| kept.ends).min();
        own.chain(pools.map(|ends| ("pools", ends))).collect()
    }

    /// A pool is gone; its Secret goes with it by its owner reference.
    pub fn forget(&self, pool: &Key) {
        self.pools().remove(pool);
    }

    /// Makes the operator's own certificate; links cannot be without it.
    pub async fn begin(&self) -> Result<(), CredentialsError> {
        let mut held = self.0.held.lock().await;
        self.renew_authority(&mut held, Timestamp::now().as_second()).await
    }

    /// Renews whatever is due, for ever.
    pub async fn renew(self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            if !self.0.leadership.holds() {
                continue;
            }
            if let Err(error) = self.begin().await {
                tracing::warn!("certificates were not renewed: {error}");
                continue;
            }
            let now = Timestamp::now().as_second();
            let due: Vec<PoolObject> =
                self.pools().values().filter(|kept| now >= kept.due).map(|kept| kept.pool.clone()).collect();
            for pool in due {
                if let Err(error) = self.keep(&pool).await {
                    tracing::warn!(pool = %pool.meta.key, "the pool's certificate was not renewed: {error}");
                }
            }
        }
    }

    async fn renew_authority(&self, held: &mut Option<Held>, now: i64) -> Result<(), CredentialsError> {
        if held.as_ref().is_some_and(|held| now < held.look_again) {
            return Ok(());
        }
        let shared = &*self.0;
        let name = Key { namespace: shared.namespace.clone(), name: AUTHORITY.to_owned() };
        let mut made = None;
        let written = self.write(&name, None, |known| {
            let (new, planned) = authority(known, now, &shared.lifetimes)?;
            made = Some(new);
            Ok(planned)
        });
        let written = written.await?;
        let Some(authority) = made else { return Ok(()) };
        let own = leaf(&Identity::Operator, None, &authority, now, &shared.lifetimes)?;
        let config = tls::client(&own.data).map_err(CredentialsError::Unusable)?;
        shared.tls.send_replace(Some(config));
        // Every pool's list of authorities may be another one now.
        self.pools().values_mut().for_each(|kept| kept.due = 0);
        let look_again = written.look_again.min(own.look_again);
        *held = Some(Held { authority, look_again });
        *shared.ends.lock().unwrap_or_else(PoisonError::into_inner) = Some([written.ends, own.ends]);
        Ok(())
    }

    /// Renews a pool's Secret.
    async fn renew_pool(&self, pool: &PoolObject, now: i64) -> Result<Option<Planned>, CredentialsError> {
        let shared = &*self.0;
        let mut held = shared.held.lock().await;
        self.renew_authority(&mut held, now).await?;
        let Some(held) = &*held else { return Ok(None) };
        let name = pool.meta.key.sibling(&tls_secret(&pool.meta.key.name));
        let identity = Identity::Engines(pool.meta.key.clone());
        let plan = |known: Option<&SecretData>| leaf(&identity, known, &held.authority, now, &shared.lifetimes);
        self.write(&name, Some(pool), plan).await.map(Some)
    }

    /// Writes what `plan` makes of a Secret, if it must be.
    async fn write(
        &self,
        name: &Key,
        owner: Option<&PoolObject>,
        mut plan: impl FnMut(Option<&SecretData>) -> Result<Planned, CertificateError>,
    ) -> Result<Planned, CredentialsError> {
        let api: Api<Secret> = Api::namespaced(self.0.client.clone(), &name.namespace);
        let failed = |error: String| CredentialsError::Cluster { name: name.clone(), error };
        for _ in 0..TRIES {
            let known = api.get_opt(&name.name).await.map_err(|error| failed(error.to_string()))?;
            let data: Option<SecretData> = known.as_ref().map(|secret| {
                secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
            });
            // One that a user or another tool keeps is theirs to renew.
            let labels = known.as_ref().and_then(|secret| secret.metadata.labels.as_ref());
            if known.is_some() && labels.and_then(|labels| labels.get(MANAGED_BY.0)).is_none_or(|by| by != MANAGED_BY.1)
            {
                let planned = plan(data.as_ref())?;
                return match planned.write {
                    Some(Cause::Damaged(problem)) => Err(CredentialsError::Foreign { name: name.clone(), problem }),
                    _ => Ok(planned),
                };
            }
            let mut planned = plan(data.as_ref())?;
            // That of a pool of the same name before this one goes with it.
            let owners = known.iter().flat_map(|secret| secret.metadata.owner_references.iter().flatten());
            if owner.is_some_and(|pool| !owners.clone().any(|owner| owner.uid == pool.meta.uid)) {
                planned.write.get_or_insert(Cause::Outdated);
            }
            let Some(cause) = &planned.write else { return Ok(planned) };
            if !self.0.leadership.holds() {
                return Err(failed("this replica leads no more".to_owned()));
            }
            let version = known.and_then(|secret| secret.metadata.resource_version);
            let secret = secret(name, owner, &planned.data, version.clone());
            let written = match version {
                None => api.create(&PostParams::default(), &secret).await,
                Some(_) => api.replace(&name.name, &PostParams::default(), &secret).await,
            };
            match written {
                Ok(_) => {
                    tracing::info!(secret = %name, "written: {cause}");
                    return Ok(planned);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        Err(failed("others keep writing it".to_owned()))
    }

    fn pools(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Kept>> {
        self.0.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn secret(name: &Key, owner: Option<&PoolObject>, data: &SecretData, version: Option<String>) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            namespace: Some(name.namespace.clone()),
            resource_version: version,
            labels: Some(BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())])),
            owner_references: owner.map(|pool| vec![owner::of("ProverPool", &pool.meta)]),
            ..ObjectMeta::default()
        },
        data: Some(data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}
