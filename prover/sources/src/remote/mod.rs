//! Remote sources: what they have in common, and the way from URL to origin.
//!
//! - `transfer`: attempts, retries, resume: from an origin into a sink. - `http`, `object`: the origins.
//! - `headers`: what answers say (pure). - `client`: how connections are made. - `drive`: futures on a blocking thread.

mod client;
mod drive;
mod headers;
mod http;
#[cfg(feature = "object-store")]
mod object;
#[cfg(not(feature = "object-store"))]
#[path = "object_disabled.rs"]
mod object;
mod transfer;

use std::sync::Mutex;

use bytes::Bytes;
use tokio::runtime::Runtime;

use self::client::Connections;
use self::http::HttpSources;
use self::object::ObjectSources;
use self::transfer::Transfer;
use crate::error::FetchError;
use crate::policy::{Network, Policy};
use crate::sink::Sink;
use crate::url::{Scheme, SourceUrl};

/// Everything remote. Connections and runtime are made at the first use: a prover that only reads files has neither.
pub(crate) struct Remote {
    network: Network,
    http: HttpSources,
    objects: ObjectSources,
    runtime: Mutex<Option<Runtime>>,
}

/// Where bytes come from, from some offset on.
enum Origin<'a> {
    Http(http::HttpOrigin<'a>),
    Object(object::ObjectOrigin),
}

/// An answer whose body is about to come.
struct Opened {
    /// Offset of its first byte.
    start: u64,
    /// Length of the whole.
    total: Option<u64>,
    body: Body,
}

/// A body.
enum Body {
    Http(reqwest::Response),
    #[cfg(feature = "object-store")]
    Object(object::Stream),
}

/// Why an attempt failed.
enum Failed {
    /// Another attempt would fail too.
    Final(FetchError),
    /// Another attempt may succeed.
    Passing(Passing),
}

/// A failure that may pass.
struct Passing {
    /// For the message: no secrets.
    cause: String,
    /// The pause that the server asks for.
    after: Option<std::time::Duration>,
    /// Whether the bytes so far are worthless.
    restart: bool,
}

impl Remote {
    pub(crate) fn new(policy: &Policy) -> Result<Self, FetchError> {
        let connections = std::sync::Arc::new(Connections::new(&policy.network, &policy.addresses)?);
        Ok(Self {
            network: policy.network.clone(),
            http: HttpSources::new(policy, connections.clone())?,
            objects: ObjectSources::new(policy, connections)?,
            runtime: Mutex::new(None),
        })
    }

    /// Form, allow-list, literal addresses.
    pub(crate) fn check(&self, url: &SourceUrl) -> Result<(), FetchError> {
        match url.scheme() {
            Scheme::File => Ok(()),
            Scheme::Http | Scheme::Https => self.http.check(url).map(drop),
            Scheme::S3 | Scheme::Gs | Scheme::Az => self.objects.check(url),
        }
    }

    /// The whole content into `sink`.
    pub(crate) fn fetch(
        &self,
        url: &SourceUrl,
        sink: &mut Sink,
        cancel: &dyn Fn() -> bool,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<(), FetchError> {
        self.check(url)?;
        let runtime = self.runtime()?;
        // Clients and stores start timers and tasks when they are made.
        let entered = runtime.enter();
        let origin = match url.scheme() {
            Scheme::S3 | Scheme::Gs | Scheme::Az => Origin::Object(self.objects.origin(url)?),
            _ => Origin::Http(self.http.origin(url)?),
        };
        drop(entered);
        Transfer::new(url, &self.network, &runtime, cancel).run(origin, sink, progress)
    }

    fn runtime(&self) -> Result<tokio::runtime::Handle, FetchError> {
        let mut slot = self.runtime.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(runtime) = &*slot {
            return Ok(runtime.handle().clone());
        }
        // One thread moves the bytes of all connections; DNS look-ups block threads of their own.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(16)
            .thread_name("fetch")
            .enable_all()
            .build()
            .map_err(|error| FetchError::Settings(format!("starting a thread for fetching: {error}")))?;
        Ok(slot.insert(runtime).handle().clone())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A look-up that hangs must not hold up the exit, and dropping a runtime within another one panics.
        let slot = self.runtime.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(runtime) = slot.take() {
            runtime.shutdown_background();
        }
    }
}

impl Origin<'_> {
    /// Opens the content from `offset` on; the answer may start earlier.
    async fn open(&mut self, offset: u64) -> Result<Opened, Failed> {
        match self {
            Self::Http(origin) => origin.open(offset).await,
            Self::Object(origin) => origin.open(offset).await,
        }
    }
}

impl Body {
    /// The next piece; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Passing> {
        match self {
            Self::Http(response) => response.chunk().await.map_err(|error| Passing::new(client::describe(error))),
            #[cfg(feature = "object-store")]
            Self::Object(stream) => stream.chunk().await,
        }
    }
}

impl Passing {
    fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), after: None, restart: false }
    }

    fn restart(cause: impl Into<String>) -> Self {
        Self { restart: true, ..Self::new(cause) }
    }
}

impl From<FetchError> for Failed {
    fn from(error: FetchError) -> Self {
        Self::Final(error)
    }
}

impl From<Passing> for Failed {
    fn from(passing: Passing) -> Self {
        Self::Passing(passing)
    }
}
