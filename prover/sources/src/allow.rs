//! Allow-lists of URL prefixes.

use reqwest::Url;

use crate::error::FetchError;
use crate::policy::Allow;
use crate::url::{Scheme, SourceUrl, redact};

/// A list ready to compare with.
#[derive(Debug)]
pub(crate) enum AllowList {
    Everything,
    Only { prefixes: Vec<Prefix>, shown: String },
}

/// Scheme, host with port (or bucket), and path segments.
#[derive(Debug)]
pub(crate) struct Prefix {
    scheme: Scheme,
    place: String,
    segments: Vec<String>,
}

impl AllowList {
    /// From a policy; every prefix must be a URL that is fetched from elsewhere.
    pub(crate) fn new(allow: &Allow) -> Result<Self, FetchError> {
        let Allow::Only(list) = allow else { return Ok(Self::Everything) };
        let prefixes = list.iter().map(|text| prefix(text)).collect::<Result<_, _>>()?;
        let shown = if list.is_empty() {
            "the list is empty".to_owned()
        } else {
            list.iter().map(|text| redact(text)).collect::<Vec<_>>().join(", ")
        };
        Ok(Self::Only { prefixes, shown })
    }

    /// Whether an `http:` or `https:` URL is beneath one of the prefixes.
    pub(crate) fn check_http(&self, url: &Url) -> Result<(), FetchError> {
        // A server may take an encoded slash for a slash, and so leave the folder that was compared.
        let path = url.path().to_ascii_lowercase();
        let hidden = ["%2f", "%5c"].iter().any(|code| path.contains(code));
        let scheme = Scheme::from_name(url.scheme()).unwrap_or(Scheme::File);
        let segments: Vec<String> = url.path_segments().into_iter().flatten().map(str::to_owned).collect();
        self.check(url.as_str(), |prefix| {
            (!hidden || prefix.segments.is_empty()) && prefix.covers(scheme, &place(url), &segments)
        })
    }

    /// Whether an object is beneath one of the prefixes.
    #[cfg(feature = "object-store")]
    pub(crate) fn check_object(&self, url: &SourceUrl, bucket: &str, key: &str) -> Result<(), FetchError> {
        let segments: Vec<String> = key.split('/').map(str::to_owned).collect();
        self.check(url.as_str(), |prefix| prefix.covers(url.scheme(), bucket, &segments))
    }

    fn check(&self, url: &str, covered: impl Fn(&Prefix) -> bool) -> Result<(), FetchError> {
        match self {
            Self::Only { prefixes, shown } if !prefixes.iter().any(covered) => {
                Err(FetchError::NotAllowed { url: redact(url), allowed: shown.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl Prefix {
    fn covers(&self, scheme: Scheme, place: &str, segments: &[String]) -> bool {
        self.scheme == scheme && self.place == place && segments.starts_with(&self.segments)
    }
}

fn prefix(text: &str) -> Result<Prefix, FetchError> {
    let wrong = |why: &str| FetchError::Settings(format!("{}, a prefix of the allow-list: {why}", redact(text)));
    let url = SourceUrl::parse(text).map_err(|error| FetchError::Settings(error.to_string()))?;
    let scheme = url.scheme();
    if scheme == Scheme::File {
        return Err(wrong("files are allowed by a folder, not by this list"));
    }
    let (place, path) = if matches!(scheme, Scheme::Http | Scheme::Https) {
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(wrong("it must have no user name, query or fragment"));
        }
        (place(&url), url.path().trim_start_matches('/').to_owned())
    } else {
        // Any key will do to have the bucket's name checked.
        let whole = format!("{}/x", text.trim_end_matches('/'));
        let whole = SourceUrl::parse(&whole).map_err(|_| wrong("it must name a bucket"))?;
        let (bucket, key) = whole.bucket_and_key().map_err(|error| wrong(&error.to_string()))?;
        (bucket.to_owned(), key.strip_suffix('x').unwrap_or(&key).to_owned())
    };
    let segments = path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
    Ok(Prefix { scheme, place, segments })
}

fn place(url: &Url) -> String {
    // A trailing dot names the same host.
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    format!("{host}:{}", url.port_or_known_default().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(prefixes: &[&str]) -> AllowList {
        AllowList::new(&Allow::Only(prefixes.iter().map(|&text| text.to_owned()).collect())).unwrap()
    }

    #[test]
    fn http_prefixes_end_at_segments() {
        let list = list(&["https://host/keys/a", "s3://open", "http://open:8080"]);
        for (url, allowed) in [
            ("https://host/keys/a/x.zkey", true),
            ("https://host:443/keys/a/", true),
            ("https://HOST./keys/a?sig=1", true),
            ("https://host/keys/ab", false),
            ("https://host/keys/a/../b", false),
            ("https://host/keys/a/%2e%2e/b", false),
            ("https://host/keys/a/..%2fb", false),
            ("https://host/keys/a%2f..%2fb", false),
            ("https://host/keys", false),
            ("http://host/keys/a", false),
            ("https://host:444/keys/a/x", false),
            ("https://host.evil/keys/a/x", false),
            ("https://host@evil/keys/a/x", false),
            ("http://open:8080/any/a%2fb", true),
            ("http://open/any", false),
        ] {
            assert_eq!(list.check_http(&Url::parse(url).unwrap()).is_ok(), allowed, "{url}");
        }
    }

    #[cfg(feature = "object-store")]
    #[test]
    fn buckets() {
        let list = list(&["s3://keys", "https://keys", "gs://data/a/", "az://c"]);
        for (url, allowed) in [
            ("s3://keys/x", true),
            ("s3://keys-2/x", false),
            ("gs://keys/x", false),
            ("gs://data/a/b/c", true),
            ("gs://data/ab", false),
            ("gs://data/b", false),
            ("az://c/x", true),
        ] {
            let url = SourceUrl::parse(url).unwrap();
            let (bucket, key) = url.bucket_and_key().unwrap();
            assert_eq!(list.check_object(&url, bucket, &key).is_ok(), allowed, "{url:?}");
        }
    }

    #[test]
    fn wrong_lists_are_refused_at_start() {
        for text in ["host", "file:/data", "s3://", "https://u@h/", "https://h/?x", "https://"] {
            let allow = Allow::Only(vec![text.to_owned()]);
            assert!(matches!(AllowList::new(&allow), Err(FetchError::Settings(_))), "{text}");
        }
        let error = list(&[]).check_http(&Url::parse("https://h/x?sig=secret").unwrap()).unwrap_err().to_string();
        assert!(error.contains("the list is empty") && !error.contains("secret"), "{error}");
    }
}
