//! How connections are made: names to permitted addresses, proxies, certificates, time limits.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Url, redirect};

use crate::error::FetchError;
use crate::policy::{Addresses, Network};
use crate::url::{redact, scrub};

/// Reached directly whatever the settings say.
const NEVER_PROXIED: &str = "169.254.0.0/16,fd00:ec2::/32,metadata.google.internal";

/// Makes clients, each kind once.
pub(super) struct Connections {
    network: Network,
    addresses: Arc<Addresses>,
    authorities: Vec<Certificate>,
    proxies: Vec<Proxy>,
    proxy_hosts: Arc<[String]>,
    guarded: Mutex<Option<Client>>,
}

/// A name or address that must not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("{host} is {address}, {why}")]
pub(super) struct Refused {
    pub(super) host: String,
    pub(super) address: IpAddr,
    pub(super) why: &'static str,
}

/// Resolves names and refuses those that lead, even with one of their addresses, to where jobs must not go. The addresses
/// that were looked at are the ones connected to, so that a second DNS answer can't differ.
struct GuardedResolver {
    addresses: Arc<Addresses>,
    /// Proxies may be anywhere.
    exempt: Arc<[String]>,
}

impl Connections {
    pub(super) fn new(network: &Network, addresses: &Addresses) -> Result<Self, FetchError> {
        let (proxies, proxy_hosts) = proxies(network)?;
        Ok(Self {
            network: network.clone(),
            addresses: Arc::new(addresses.clone()),
            authorities: authorities(network)?,
            proxies,
            proxy_hosts: proxy_hosts.into(),
            guarded: Mutex::new(None),
        })
    }

    /// The client for jobs' URLs: follows no redirects, connects to permitted addresses only.
    pub(super) fn guarded(&self) -> Result<Client, FetchError> {
        let mut slot = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        let resolver = GuardedResolver { addresses: self.addresses.clone(), exempt: self.proxy_hosts.clone() };
        let make = || self.builder().dns_resolver(resolver_of(&resolver)).redirect(redirect::Policy::none());
        Ok(slot.insert(self.build(make)?).clone())
    }

    /// A client for endpoints that are this prover's own settings: object stores and their credential services.
    #[cfg(feature = "object-store")]
    pub(super) fn trusting(&self, headers: reqwest::header::HeaderMap) -> Result<Client, FetchError> {
        self.build(|| self.builder().redirect(redirect::Policy::limited(5)).default_headers(headers.clone()))
    }

    /// Refuses a URL whose host is a forbidden address, as written or, behind a proxy, as far as this machine can resolve
    /// it: a proxy's own look-up can't be seen. Without a proxy the connector looks at what names resolve to.
    pub(super) async fn check_host(&self, url: &Url) -> Result<(), Refused> {
        let host = bare_host(url);
        self.check_literal(url)?;
        if self.proxies.is_empty() || *self.addresses == Addresses::Any || host.parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        match tokio::net::lookup_host((host, 0)).await {
            Ok(found) => found.into_iter().try_for_each(|found| check(&self.addresses, host, found.ip())),
            Err(_) => Ok(()),
        }
    }

    /// Refuses a URL whose host is written as a forbidden address.
    pub(super) fn check_literal(&self, url: &Url) -> Result<(), Refused> {
        let host = bare_host(url);
        host.parse().map_or(Ok(()), |address| check(&self.addresses, host, address))
    }

    fn builder(&self) -> ClientBuilder {
        let mut builder = Client::builder()
            .user_agent(concat!("proofmill/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.network.connect_timeout)
            .referer(false)
            .http1_only()
            .tls_backend_rustls()
            .no_proxy();
        for proxy in &self.proxies {
            builder = builder.proxy(proxy.clone());
        }
        builder
    }

    /// With the system's certificate authorities, or, where it has none (a bare container), with the given ones alone:
    /// plain HTTP and private authorities then still work.
    fn build(&self, make: impl Fn() -> ClientBuilder) -> Result<Client, FetchError> {
        make()
            .tls_certs_merge(self.authorities.clone())
            .build()
            .or_else(|_| make().tls_certs_only(self.authorities.clone()).build())
            .map_err(|error| FetchError::Settings(format!("the HTTP client: {}", describe(error))))
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (addresses, exempt) = (self.addresses.clone(), self.exempt.clone());
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            if !exempt.iter().any(|exempt| exempt == host) {
                for found in &found {
                    check(&addresses, host, found.ip())?;
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The refusal within a client's error, if that is its cause.
pub(super) fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// A client's error in one line, without URLs' secrets.
pub(super) fn describe(error: reqwest::Error) -> String {
    scrub(&one_line(&error.without_url()))
}

/// An error and what it wraps, each said once. May hold URLs: for [`scrub`].
pub(super) fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // Many layers repeat what they wrap.
        if words.iter().all(|word| !word.contains(&text)) {
            words.push(text);
        }
    }
    words.join(": ")
}

/// An error and what it wraps.
pub(super) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

fn resolver_of(resolver: &GuardedResolver) -> GuardedResolver {
    GuardedResolver { addresses: resolver.addresses.clone(), exempt: resolver.exempt.clone() }
}

fn check(addresses: &Addresses, host: &str, address: IpAddr) -> Result<(), Refused> {
    addresses.refuses(address).map_or(Ok(()), |why| Err(Refused { host: host.to_owned(), address, why }))
}

/// Without the brackets of IPv6.
fn bare_host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

fn authorities(network: &Network) -> Result<Vec<Certificate>, FetchError> {
    let Some(path) = &network.ca_file else { return Ok(Vec::new()) };
    let wrong = |why: String| FetchError::Settings(format!("the CA file {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(describe(error)))?;
    if found.is_empty() {
        return Err(wrong("it holds no PEM certificate (-----BEGIN CERTIFICATE-----)".to_owned()));
    }
    Ok(found)
}

fn proxies(network: &Network) -> Result<(Vec<Proxy>, Vec<String>), FetchError> {
    let settings = &network.proxy;
    // Credential services of clouds are link-local: a proxy elsewhere has other ones.
    let direct = format!("{},{NEVER_PROXIED}", settings.no_proxy.as_deref().unwrap_or_default());
    let no_proxy = || NoProxy::from_string(direct.trim_start_matches(','));
    let (mut proxies, mut hosts) = (Vec::new(), Vec::new());
    for (value, make) in [
        (&settings.http, (|url: Url| Proxy::http(url)) as fn(Url) -> reqwest::Result<Proxy>),
        (&settings.https, |url: Url| Proxy::https(url)),
    ] {
        let Some(text) = value.as_deref().map(str::trim).filter(|text| !text.is_empty()) else { continue };
        let wrong = |why: &str| FetchError::Settings(format!("the proxy {}: {why}", redact(text)));
        let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&full).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("only http:// and https:// proxies are supported"));
        }
        hosts.push(bare_host(&url).to_owned());
        proxies.push(make(url).map_err(|error| wrong(&describe(error)))?.no_proxy(no_proxy()));
    }
    Ok((proxies, hosts))
}
