//! `http:` and `https:`: one attempt, with its redirects and ranges.

use std::sync::Arc;
use std::time::SystemTime;

use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, LOCATION, RANGE};
use reqwest::{Client, Response, StatusCode, Url};

use super::client::{Connections, Refused, causes, describe, refusal};
use super::headers::{ContentRange, Validator, retry_after};
use super::{Body, Failed, Opened, Passing};
use crate::allow::AllowList;
use crate::error::FetchError;
use crate::policy::Policy;
use crate::url::{SourceUrl, redact};

/// What all HTTP fetches share.
pub(super) struct HttpSources {
    allow: AllowList,
    max_redirects: u32,
    connections: Arc<Connections>,
}

/// One URL, and what is known of its content.
pub(super) struct HttpOrigin<'a> {
    sources: &'a HttpSources,
    client: Client,
    url: Url,
    /// Of the bytes so far.
    validator: Option<Validator>,
    /// Length of the content of the bytes so far.
    total: Option<u64>,
}

impl HttpSources {
    pub(super) fn new(policy: &Policy, connections: Arc<Connections>) -> Result<Self, FetchError> {
        let allow = AllowList::new(&policy.urls)?;
        Ok(Self { allow, max_redirects: policy.network.max_redirects, connections })
    }

    /// Form, allow-list, literal address.
    pub(super) fn check(&self, url: &SourceUrl) -> Result<Url, FetchError> {
        let parsed = Url::parse(url.as_str()).map_err(|error| url.bad(&error.to_string()))?;
        self.allow.check_http(&parsed)?;
        self.connections.check_literal(&parsed).map_err(|refused| forbidden(&parsed, &refused))?;
        Ok(parsed)
    }

    pub(super) fn origin(&self, url: &SourceUrl) -> Result<HttpOrigin<'_>, FetchError> {
        let url = self.check(url)?;
        Ok(HttpOrigin { sources: self, client: self.connections.guarded()?, url, validator: None, total: None })
    }
}

impl HttpOrigin<'_> {
    /// The content from `offset` on, or from its start where that can't be had.
    pub(super) async fn open(&mut self, offset: u64) -> Result<Opened, Failed> {
        // Without a validator there is no telling whether the rest belongs to the bytes so far.
        let resume = self.validator.clone().filter(|_| offset > 0);
        let response = self.follow(resume.as_ref().map(|validator| (offset, validator))).await?;
        let status = response.status();
        match (status, resume) {
            (StatusCode::OK, _) => self.whole(response),
            (StatusCode::PARTIAL_CONTENT, Some(validator)) => self.rest(response, offset, &validator),
            (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => Err(self.start_over("the server can't continue")),
            (StatusCode::PARTIAL_CONTENT, None) => Err(self.start_over("a part came where the whole was asked for")),
            _ => Err(self.refusal_of(&response)),
        }
    }

    /// Sends the request and follows redirects, each held against the policy like the first URL.
    async fn follow(&self, range: Option<(u64, &Validator)>) -> Result<Response, Failed> {
        let sources = self.sources;
        let mut url = self.url.clone();
        for _ in 0..=sources.max_redirects {
            sources.connections.check_host(&url).await.map_err(|refused| forbidden(&url, &refused))?;
            // The digest is over the bytes as served, so none must be encoded on the way.
            let mut request = self.client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some((offset, validator)) = range {
                request = request.header(RANGE, format!("bytes={offset}-")).header(IF_RANGE, validator.value());
            }
            let response = request.send().await.map_err(|error| failure(&url, error))?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let next = redirect_target(&url, &response)?;
            sources.allow.check_http(&next)?;
            url = next;
        }
        let why = format!("more than {} redirects; give the URL that they end at", sources.max_redirects);
        Err(FetchError::Redirect { url: redact(self.url.as_str()), why }.into())
    }

    /// A whole content: what is known of it replaces what was known.
    fn whole(&mut self, response: Response) -> Result<Opened, Failed> {
        self.validator = Validator::of(response.headers());
        self.total = response.content_length();
        Ok(Opened { start: 0, total: self.total, body: Body::Http(response) })
    }

    /// The rest of the content that there is a part of, if it is that.
    fn rest(&mut self, response: Response, offset: u64, validator: &Validator) -> Result<Opened, Failed> {
        let Some(range) = ContentRange::of(response.headers()) else {
            return Err(self.start_over("a partial answer without a sound Content-Range"));
        };
        let same_length = match (range.total, self.total) {
            (Some(now), Some(before)) => now == before,
            _ => true,
        };
        if range.start != offset || !same_length || validator.contradicts(response.headers()) {
            return Err(self.start_over("a partial answer that does not continue what came before"));
        }
        let total = range.total.or(self.total);
        if total.is_some_and(|total| range.end > total) {
            return Err(self.start_over("a partial answer that goes beyond the end"));
        }
        Ok(Opened { start: offset, total, body: Body::Http(response) })
    }

    /// The bytes so far can't be continued.
    fn start_over(&mut self, cause: &str) -> Failed {
        self.validator = None;
        self.total = None;
        Passing::restart(cause).into()
    }

    fn refusal_of(&self, response: &Response) -> Failed {
        let status = response.status().as_u16();
        let advice = match status {
            408 | 425 | 429 | 500 | 502..=504 | 506..=599 => {
                let after = retry_after(response.headers(), SystemTime::now());
                return Passing { after, ..Passing::new(format!("the server answered {status}")) }.into();
            }
            401 => "it wants credentials; use a signed URL",
            403 => "access is denied; a signed URL may have expired, or the server may bar this machine",
            407 => "the proxy wants credentials; put them into the proxy's URL",
            404 | 410 => "nothing is there; check the URL",
            200..=299 => "that is no content; check the URL",
            300..=399 => "that is a redirect which says not where to; give the URL that it ends at",
            _ => "it does not serve this request; check the URL",
        };
        FetchError::Status { url: redact(response.url().as_str()), status, advice }.into()
    }
}

/// Where a redirect leads.
fn redirect_target(from: &Url, response: &Response) -> Result<Url, FetchError> {
    let wrong = |why: String| FetchError::Redirect { url: redact(from.as_str()), why };
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(location) = location else {
        let advice = "that is a redirect which says not where to; give the URL that it ends at";
        return Err(FetchError::Status { url: redact(from.as_str()), status: response.status().as_u16(), advice });
    };
    let next = from.join(location).map_err(|error| wrong(format!("it redirects to no URL ({error})")))?;
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        ("https", "http") => {
            Err(wrong(format!("it redirects to {}, away from TLS; that is not followed", redact(next.as_str()))))
        }
        (_, scheme) => {
            Err(wrong(format!("it redirects to a URL of scheme {scheme}; only http and https are followed")))
        }
    }
}

/// What a request's failure means.
fn failure(url: &Url, error: reqwest::Error) -> Failed {
    if let Some(refused) = refusal(&error) {
        return forbidden(url, refused).into();
    }
    let untrusted = causes(&error).any(|cause| cause.to_string().contains("invalid peer certificate"));
    let why = describe(error);
    if untrusted {
        return FetchError::Tls { url: redact(url.as_str()), why }.into();
    }
    Passing::new(why).into()
}

fn forbidden(url: &Url, refused: &Refused) -> FetchError {
    FetchError::ForbiddenAddress {
        url: redact(url.as_str()),
        host: refused.host.clone(),
        address: refused.address,
        why: refused.why,
    }
}
