//! Watches of the API server, as changes for the index.
//!
//! An object that cannot be read (made by another version of its schema) is left out and named in the log; it stalls nothing.

use std::fmt::Debug;

use futures_util::{StreamExt as _, TryStreamExt as _};
use kube::Resource;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::index::Key;
use crate::planner::{Change, Input};

/// Follows one kind, in `namespace` if there is one, for ever; returns when nobody listens any more.
pub async fn follow<K, T>(
    api: Api<DeserializeGuard<K>>,
    namespace: Option<String>,
    config: watcher::Config,
    to: mpsc::Sender<Input>,
    input: fn(Change<T>) -> Input,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    T: From<K>,
{
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut listed = Vec::new();
    loop {
        let change = match events.try_next().await {
            Ok(Some(Event::Init)) => {
                listed.clear();
                continue;
            }
            Ok(Some(Event::InitApply(object))) => {
                listed.extend(readable::<K>(object).map(T::from));
                continue;
            }
            Ok(Some(Event::InitDone)) => Change::Listed(namespace.clone(), std::mem::take(&mut listed)),
            Ok(Some(Event::Apply(object))) => match readable::<K>(object) {
                Some(object) => Change::Applied(Box::new(T::from(object))),
                None => continue,
            },
            Ok(Some(Event::Delete(object))) => Change::Deleted(Key::of(object.meta())),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), "the watch broke and begins again: {error}");
                continue;
            }
        };
        if to.send(input(change)).await.is_err() {
            return;
        }
    }
}

fn readable<K: Resource<DynamicType = ()>>(object: DeserializeGuard<K>) -> Option<K> {
    match object.0 {
        Ok(object) => Some(object),
        Err(invalid) => {
            let key = Key::of(&invalid.metadata);
            tracing::warn!(kind = %K::kind(&()), name = %key, "the object cannot be read and is left alone: {invalid}");
            None
        }
    }
}
