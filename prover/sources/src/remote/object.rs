//! `s3:`, `gs:` and `az:` through `object_store`, on this crate's own connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};

use super::client::{Connections, one_line};
use super::{Body, Failed, Opened, Passing};
use crate::allow::AllowList;
use crate::error::FetchError;
use crate::policy::{ObjectOptions, Policy};
use crate::url::{Scheme, SourceUrl, scrub};

/// Buckets whose clients (with their credentials) are kept.
const KEPT_STORES: usize = 64;

/// What all fetches from object stores share.
pub(super) struct ObjectSources {
    allow: AllowList,
    options: ObjectOptions,
    connections: Arc<Connections>,
    stores: Mutex<HashMap<(Scheme, String), Arc<dyn ObjectStore>>>,
}

/// One object.
pub(super) struct ObjectOrigin {
    url: String,
    scheme: Scheme,
    store: Arc<dyn ObjectStore>,
    key: Path,
    /// Strong ETag of the bytes so far.
    tag: Option<String>,
    /// Whether the store has shown that it can't continue.
    no_ranges: bool,
}

/// A body.
pub(super) struct Stream(BoxStream<'static, object_store::Result<Bytes>>);

/// Gives `object_store` clients with our proxies, authorities and time limits instead of its own.
struct Connector(Arc<Connections>);

impl ObjectSources {
    pub(super) fn new(policy: &Policy, connections: Arc<Connections>) -> Result<Self, FetchError> {
        let allow = AllowList::new(&policy.urls)?;
        require_tls(&policy.object_options)?;
        Ok(Self { allow, options: policy.object_options.clone(), connections, stores: Mutex::default() })
    }

    /// Form and allow-list.
    pub(super) fn check(&self, url: &SourceUrl) -> Result<(), FetchError> {
        let (bucket, key) = url.bucket_and_key()?;
        self.allow.check_object(url, bucket, &key)
    }

    pub(super) fn origin(&self, url: &SourceUrl) -> Result<ObjectOrigin, FetchError> {
        let (bucket, key) = url.bucket_and_key()?;
        self.allow.check_object(url, bucket, &key)?;
        let key = Path::parse(key).map_err(|error| url.bad(&scrub(&error.to_string())))?;
        let store = self.store(url.scheme(), bucket)?;
        Ok(ObjectOrigin { url: url.redacted(), scheme: url.scheme(), store, key, tag: None, no_ranges: false })
    }

    fn store(&self, scheme: Scheme, bucket: &str) -> Result<Arc<dyn ObjectStore>, FetchError> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (scheme, bucket.to_owned());
        if let Some(store) = stores.get(&name) {
            return Ok(store.clone());
        }
        let store = self.build(scheme, bucket).map_err(|error| {
            let text = scrub(&error.to_string());
            FetchError::Settings(format!("{}://{bucket}: {text}; {}", scheme.name(), settings_of(scheme)))
        })?;
        if stores.len() >= KEPT_STORES {
            stores.clear();
        }
        stores.insert(name, store.clone());
        Ok(store)
    }

    fn build(&self, scheme: Scheme, bucket: &str) -> object_store::Result<Arc<dyn ObjectStore>> {
        // Attempts are made by `transfer`, which also watches the cancel flag and the limits.
        let retry = RetryConfig { max_retries: 0, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() };
        let connector = Connector(self.connections.clone());
        let options = self.options.0.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        Ok(match scheme {
            Scheme::Gs => {
                let mut builder = GoogleCloudStorageBuilder::new().with_retry(retry).with_http_connector(connector);
                for (name, value) in options.filter(|(name, _)| name.starts_with("google_")) {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.with_bucket_name(bucket).build()?)
            }
            Scheme::Az => {
                let mut builder = MicrosoftAzureBuilder::new().with_retry(retry).with_http_connector(connector);
                for (name, value) in options.filter(|(name, _)| name.starts_with("azure_")) {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.with_container_name(bucket).build()?)
            }
            _ => {
                let mut builder = AmazonS3Builder::new().with_retry(retry).with_http_connector(connector);
                for (name, value) in options.filter(|(name, _)| name.starts_with("aws_")) {
                    if let Ok(key) = name.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Arc::new(builder.with_bucket_name(bucket).build()?)
            }
        })
    }
}

impl ObjectOrigin {
    /// The object from `offset` on, or from its start where the rest can't be told to be of the same object.
    pub(super) async fn open(&mut self, offset: u64) -> Result<Opened, Failed> {
        let tag = self.tag.clone().filter(|_| offset > 0 && !self.no_ranges);
        let resume = tag.is_some();
        let options =
            GetOptions { range: resume.then_some(GetRange::Offset(offset)), if_match: tag, ..GetOptions::default() };
        let result = match self.store.get_opts(&self.key, options).await {
            Ok(result) => result,
            Err(error @ object_store::Error::Precondition { .. }) if resume => {
                return Err(self.start_over(describe(&error)));
            }
            Err(error) if resume && is_about_ranges(&error) => {
                self.no_ranges = true;
                return Err(self.start_over(describe(&error)));
            }
            Err(error) => return Err(self.failure(&error)),
        };
        let start = if resume { offset } else { 0 };
        if result.range.start != start {
            return Err(self.start_over("a part that does not continue what came before".to_owned()));
        }
        self.tag = result.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let total = Some(result.meta.size);
        Ok(Opened { start, total, body: Body::Object(Stream(result.into_stream())) })
    }

    /// The bytes so far can't be continued.
    fn start_over(&mut self, cause: String) -> Failed {
        self.tag = None;
        Passing::restart(cause).into()
    }

    fn failure(&self, error: &object_store::Error) -> Failed {
        let url = self.url.clone();
        let status = status(error);
        match error {
            object_store::Error::NotFound { .. } => {
                FetchError::NotFound { url, hint: "; check bucket, key and region".to_owned() }.into()
            }
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                FetchError::PermissionDenied {
                    url,
                    advice: format!("the store says {}; {}", describe(error), settings_of(self.scheme)),
                }
                .into()
            }
            _ if status.is_some_and(|status| (300..500).contains(&status) && !matches!(status, 408 | 429)) => {
                FetchError::Settings(format!("{url}: {}; {}", describe(error), settings_of(self.scheme))).into()
            }
            _ => {
                let cause = describe(error);
                let lonely = ["169.254.169.254", "metadata.google.internal"].iter().any(|host| cause.contains(host));
                let hint = if lonely {
                    format!("; no credentials are given: {}", settings_of(self.scheme))
                } else {
                    String::new()
                };
                Passing::new(format!("{cause}{hint}")).into()
            }
        }
    }
}

impl Stream {
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Passing> {
        self.0.next().await.transpose().map_err(|error| Passing::new(describe(&error)))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let headers = options.get_default_headers().cloned().unwrap_or_default();
        let client = self
            .0
            .trusting(headers)
            .map_err(|error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) })?;
        Ok(HttpClient::new(client))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

/// Refuses endpoints without TLS that nobody asked for in so many words.
fn require_tls(options: &ObjectOptions) -> Result<(), FetchError> {
    let set = |wanted: &str| {
        options.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    for (name, allow) in [
        ("AWS_ENDPOINT_URL_S3", "AWS_ALLOW_HTTP"),
        ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"),
        ("AWS_ENDPOINT", "AWS_ALLOW_HTTP"),
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ALLOW_HTTP"),
        ("AZURE_ENDPOINT", "AZURE_ALLOW_HTTP"),
    ] {
        let plain = set(name).is_some_and(|value| value.to_ascii_lowercase().starts_with("http://"));
        if plain && !set(allow).is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1") {
            let text =
                format!("{name} is an http:// URL; if keys and credentials may travel without TLS, set {allow}=true");
            return Err(FetchError::Settings(text));
        }
    }
    Ok(())
}

/// Whether a store could not serve the rest of an object, or served something else.
fn is_about_ranges(error: &object_store::Error) -> bool {
    let text = error.to_string();
    status(error) == Some(416)
        || ["non-partial", "Content-Range", "CONTENT_RANGE", "Requested"].iter().any(|word| text.contains(word))
}

/// The status that the store answered. The library keeps its error type private, but not that type's words.
fn status(error: &object_store::Error) -> Option<u16> {
    let text = error.to_string();
    let (_, after) = text.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

/// In one line: the status and the store's code and message where it gave them, else all causes.
fn describe(error: &object_store::Error) -> String {
    if let Some(status) = status(error) {
        let text = error.to_string();
        let words: Vec<&str> = ["Code", "Message"].iter().filter_map(|name| element(&text, name)).collect();
        return scrub(&format!("{status} {}", words.join(": "))).trim_end().to_owned();
    }
    scrub(&one_line(error))
}

/// The text of an XML element.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let start = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let end = xml[start..].find('<')?;
    Some(&xml[start..start + end])
}

fn settings_of(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Gs => "see GOOGLE_APPLICATION_CREDENTIALS and GOOGLE_SKIP_SIGNATURE",
        Scheme::Az => {
            "see AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, AZURE_CLIENT_ID and AZURE_SKIP_SIGNATURE"
        }
        _ => {
            "see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and, for public buckets, AWS_SKIP_SIGNATURE"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_endpoints_are_asked_for() {
        let options = |pairs: &[(&str, &str)]| {
            ObjectOptions(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let endpoint = ("aws_endpoint_url", "HTTP://minio:9000");
        let error = require_tls(&options(&[endpoint])).unwrap_err().to_string();
        assert!(error.contains("AWS_ALLOW_HTTP=true"), "{error}");
        require_tls(&options(&[endpoint, ("AWS_ALLOW_HTTP", "true")])).unwrap();
        require_tls(&options(&[("AWS_ENDPOINT_URL", "https://minio")])).unwrap();
    }

    #[test]
    fn errors_of_stores_are_short() {
        let body = "<Error><Code>NoSuchBucket</Code><Message>It is not there</Message><Key>k</Key></Error>";
        assert_eq!(element(body, "Code"), Some("NoSuchBucket"));
        assert_eq!(element(body, "Message"), Some("It is not there"));
        assert_eq!(element("<Code>cut", "Code"), None);
    }
}
