//! What the headers of answers say. Pure.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER};

/// What tells one content from another, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validator {
    /// A strong ETag.
    Tag(String),
    /// A Last-Modified date a minute or more before the answer's date: then two contents can't share it
    /// (RFC 9110, 8.8.2.2).
    Date(String),
}

/// `Content-Range: bytes 5-9/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) start: u64,
    /// Exclusive.
    pub(crate) end: u64,
    pub(crate) total: Option<u64>,
}

impl Validator {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        if let Some(tag) = text(headers, &ETAG) {
            let strong = tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"');
            return strong.then(|| Self::Tag(tag.to_owned()));
        }
        let modified = text(headers, &LAST_MODIFIED)?;
        let date = httpdate::parse_http_date(text(headers, &DATE)?).ok()?;
        let age = date.duration_since(httpdate::parse_http_date(modified).ok()?).ok()?;
        (age >= Duration::from_secs(60)).then(|| Self::Date(modified.to_owned()))
    }

    /// For `If-Range`.
    pub(crate) fn value(&self) -> &str {
        match self {
            Self::Tag(value) | Self::Date(value) => value,
        }
    }

    /// Whether a partial answer says that it is of another content.
    pub(crate) fn contradicts(&self, headers: &HeaderMap) -> bool {
        let (name, expected) = match self {
            Self::Tag(tag) => (&ETAG, tag),
            Self::Date(date) => (&LAST_MODIFIED, date),
        };
        headers.contains_key(name) && text(headers, name) != Some(expected)
    }
}

impl ContentRange {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let (range, total) = text(headers, &CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let total = if total == "*" { None } else { Some(number(total)?) };
        let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
        (start < end && total.is_none_or(|total| end <= total)).then_some(Self { start, end, total })
    }
}

/// The pause that an answer asks for: seconds or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = text(headers, &RETRY_AFTER)?;
    if value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
        // Too many digits: as long as can be; the policy bounds it.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Digits only: `parse` alone would take a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn validators_are_strong() {
        let of = |pairs: &[(&'static str, &str)]| Validator::of(&headers(pairs));
        let (old, new) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT");
        assert_eq!(of(&[("etag", "\"a\"")]), Some(Validator::Tag("\"a\"".to_owned())));
        assert_eq!(of(&[("etag", "W/\"a\"")]), None);
        assert_eq!(of(&[("etag", "W/\"a\""), ("last-modified", old), ("date", new)]), None);
        assert_eq!(of(&[("last-modified", old), ("date", new)]), Some(Validator::Date(old.to_owned())));
        assert_eq!(of(&[("last-modified", new), ("date", new)]), None);
        assert_eq!(of(&[("last-modified", old)]), None);
        assert_eq!(of(&[("last-modified", "yesterday"), ("date", new)]), None);
        let tag = Validator::Tag("\"a\"".to_owned());
        assert!(tag.contradicts(&headers(&[("etag", "\"b\"")])));
        assert!(!tag.contradicts(&headers(&[("etag", "\"a\"")])) && !tag.contradicts(&headers(&[])));
    }

    #[test]
    fn content_ranges() {
        let of = |value: &str| ContentRange::of(&headers(&[("content-range", value)]));
        assert_eq!(of("bytes 5-9/10"), Some(ContentRange { start: 5, end: 10, total: Some(10) }));
        assert_eq!(of("bytes 0-0/*"), Some(ContentRange { start: 0, end: 1, total: None }));
        for wrong in [
            "bytes 5-10/10",
            "bytes 9-5/10",
            "bytes */10",
            "bytes 5-/10",
            "bytes -5/10",
            "bytes +5-9/10",
            "bytes 5-9",
            "items 5-9/10",
            "bytes 0-18446744073709551615/*",
            "bytes 99999999999999999999-9/10",
            "bytes 5-9/x",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pauses() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let of = |value: &str| retry_after(&headers(&[("retry-after", value)]), now);
        assert_eq!(of("3"), Some(Duration::from_secs(3)));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:40 GMT"), Some(Duration::from_secs(3)));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:30 GMT"), Some(Duration::ZERO));
        assert_eq!(of("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(of("-1"), None);
        assert_eq!(of("soon"), None);
    }
}
