//! What a [`crate::Fetcher`] may fetch and how patient it is. Plain data, filled in by `main`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is allowed and how it is done.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Which files.
    pub files: FileAccess,
    /// Which URLs other than files; each hop of a redirect is held against it.
    pub urls: Allow,
    /// Which addresses an `http:` or `https:` URL may lead to. Object stores are not held against it: their endpoints
    /// are this prover's settings, not the job's.
    pub addresses: Addresses,
    /// No fetch is larger than this, whatever its own limit is.
    pub max_bytes: u64,
    /// Time limits, retries, proxies, certificates.
    pub network: Network,
    /// Settings and credentials of object stores, under the names of the environment variables that other tools read
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, `GOOGLE_…`, `AZURE_STORAGE_ACCOUNT_NAME`, …; in any
    /// case). Names that mean nothing to the store are ignored, so the whole environment may be passed in.
    pub object_options: ObjectOptions,
}

/// Which `file:` URLs may be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// None.
    Denied,
    /// The user's own files: absolute paths and `..` are fine. Relative ones are taken from `base`.
    Manifest {
        /// The manifest's folder.
        base: PathBuf,
    },
    /// Relative paths without `..` that lead to a file beneath this folder; symbolic links too must stay beneath it.
    Root(PathBuf),
}

/// Which URLs may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// All.
    Everything,
    /// Those beneath one of these prefixes: `https://host/folder`, `s3://bucket`, `gs://bucket/folder`. A prefix ends
    /// where a path segment ends: `s3://keys` admits neither `s3://keys-2` nor, with a folder `a`, `…/ab`.
    Only(Vec<String>),
}

/// Which addresses may be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All.
    Any,
    /// Neither loopback nor link-local nor cloud metadata nor multicast nor unspecified, in whatever form they are
    /// written (v4-mapped, NAT64, 6to4, Teredo, …). Private networks (10.0.0.0/8 and so on) are allowed: they are where
    /// clusters keep their data; the allow-list narrows that. A NAT64 prefix of an operator's own can't be recognised.
    NoInternal {
        /// Exceptions, compared as they are resolved or written (`127.0.0.2` does not admit `::ffff:127.0.0.2`).
        except: Vec<IpAddr>,
    },
}

/// Time limits, retries, proxies, certificates.
#[derive(Clone, Debug)]
pub struct Network {
    /// For DNS, TCP and TLS of one connection.
    pub connect_timeout: Duration,
    /// For the head of an answer after connecting, and between two pieces of a body.
    pub idle_timeout: Duration,
    /// For one whole fetch with its retries.
    pub total_timeout: Duration,
    /// Redirects followed in one attempt.
    pub max_redirects: u32,
    /// What happens after a failure that may pass.
    pub retries: Retries,
    /// Proxies; none are taken from the environment.
    pub proxy: ProxySettings,
    /// A PEM file with certificate authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
}

/// Retries after failures that may pass: exponential back-off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Retries in a row without getting at least 1 MiB further.
    pub count: u32,
    /// The first pause; doubles each time.
    pub base: Duration,
    /// The longest pause.
    pub cap: Duration,
    /// The longest pause that a server may ask for (`Retry-After`).
    pub retry_after_cap: Duration,
    /// Whether pauses vary (between half and all of their length), so that a fleet does not come back in step.
    pub jitter: bool,
}

/// Proxies, in the form of the usual environment variables.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For `http:` URLs: what others read from `HTTP_PROXY`.
    pub http: Option<String>,
    /// For `https:` URLs and object stores: what others read from `HTTPS_PROXY`.
    pub https: Option<String>,
    /// Hosts reached directly: what others read from `NO_PROXY`.
    pub no_proxy: Option<String>,
}

/// Names and values for object stores; the values are secret.
#[derive(Clone, Default)]
pub struct ObjectOptions(pub Vec<(String, String)>);

impl Policy {
    /// For `run`: the user's own manifest and files, everything allowed. `base` is the manifest's folder.
    pub fn run(base: impl Into<PathBuf>) -> Self {
        Self {
            files: FileAccess::Manifest { base: base.into() },
            urls: Allow::Everything,
            addresses: Addresses::Any,
            max_bytes: u64::MAX,
            network: Network::default(),
            object_options: ObjectOptions::default(),
        }
    }

    /// For `serve`: files beneath `root` only, no other URLs until prefixes are listed, no internal addresses.
    pub fn serve(root: Option<PathBuf>) -> Self {
        Self {
            files: root.map_or(FileAccess::Denied, FileAccess::Root),
            urls: Allow::Only(Vec::new()),
            addresses: Addresses::NoInternal { except: Vec::new() },
            ..Self::run("/")
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            // A 50 GB key at 10 MB/s takes 1.4 hours.
            total_timeout: Duration::from_secs(4 * 3600),
            max_redirects: 5,
            retries: Retries::default(),
            proxy: ProxySettings::default(),
            ca_file: None,
        }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            count: 5,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(15),
            retry_after_cap: Duration::from_secs(60),
            jitter: true,
        }
    }
}

impl std::fmt::Debug for ProxySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |proxy: &Option<String>| proxy.as_deref().map(crate::url::redact);
        f.debug_struct("ProxySettings")
            .field("http", &shown(&self.http))
            .field("https", &shown(&self.https))
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

impl std::fmt::Debug for ObjectOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
