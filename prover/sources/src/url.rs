//! URLs of sources: schemes, `file:` paths, resolution, redaction.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::error::FetchError;

/// The longest URL taken. Signed URLs have about 2,000 characters.
pub const MAX_URL: usize = 8192;

/// A URL whose scheme is known and whose characters are plausible.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceUrl {
    scheme: Scheme,
    text: String,
    /// Where the part after `scheme:` starts.
    rest: usize,
}

/// The schemes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scheme {
    File,
    Http,
    Https,
    S3,
    Gs,
    Az,
}

/// Resolves a `file:` URL against the folder of the manifest that names it: `file:x.zkey` and `file:../x` become
/// absolute (`file:///…`); absolute ones and other schemes stay as they are.
///
/// # Errors
/// [`FetchError::BadUrl`] for anything that is not a URL of a known scheme.
pub fn resolve(url: &str, base: &Path) -> Result<String, FetchError> {
    let parsed = SourceUrl::parse(url)?;
    if parsed.scheme != Scheme::File {
        return Ok(parsed.text);
    }
    let path = parsed.file_path()?;
    let base = std::path::absolute(base).map_err(|source| FetchError::Io {
        url: parsed.redacted(),
        doing: "finding the current folder".to_owned(),
        source,
    })?;
    Ok(file_url(&base.join(path)))
}

/// The `file:` URL of an absolute path.
pub fn file_url(path: &Path) -> String {
    let mut url = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' | b',' | b'=' | b'@' => {
                url.push(char::from(byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// What of a URL may be shown: no user name, password, query or fragment (signed URLs keep their secret there).
pub fn redact(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let mut shown = match url[..end].find("://") {
        Some(colon) => redact_authority(&url[..colon + 3], &url[colon + 3..end]),
        // `user:password@host` without slashes, as people write proxies.
        None if !url.starts_with("file:") && url[..end].contains('@') => "…".to_owned(),
        None => url[..end].to_owned(),
    };
    if end < url.len() {
        shown.push_str("?…");
    }
    shorten(&shown, 256)
}

/// Redacts every URL in a text that comes from a library or a server, and keeps it short and printable.
#[cfg(feature = "http")]
pub(crate) fn scrub(text: &str) -> String {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| if word.contains("://") || word.contains('?') { redact(word) } else { word.to_owned() })
        .collect();
    shorten(&words.join(" "), 400)
}

impl Scheme {
    /// By its name in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "file" => Self::File,
            "http" => Self::Http,
            "https" => Self::Https,
            "s3" => Self::S3,
            "gs" => Self::Gs,
            "az" => Self::Az,
            _ => return None,
        })
    }

    /// As in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Https => "https",
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }

    /// Whether this build can fetch it.
    pub const fn is_built(self) -> bool {
        match self {
            Self::File => true,
            Self::Http | Self::Https => cfg!(feature = "http"),
            Self::S3 | Self::Gs | Self::Az => cfg!(feature = "object-store"),
        }
    }

    const fn feature(self) -> &'static str {
        match self {
            Self::File | Self::Http | Self::Https => "http",
            Self::S3 | Self::Gs | Self::Az => "object-store",
        }
    }
}

impl SourceUrl {
    /// Parses the outer form; whether the scheme is built or allowed is not looked at.
    ///
    /// # Errors
    /// [`FetchError::BadUrl`].
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let bad = |why: &str| Err(FetchError::BadUrl { url: redact(text), why: why.to_owned() });
        if text.is_empty() {
            return bad("an empty URL; write for example file:input.json or https://host/input.json");
        }
        if text.len() > MAX_URL {
            return bad("longer than 8192 characters");
        }
        let Some((name, rest)) = text.split_once(':') else {
            return bad("no scheme; a file is written file:NAME");
        };
        let Some(scheme) = Scheme::from_name(&name.to_ascii_lowercase()) else {
            return bad("unknown scheme; there are file, http, https, s3, gs and az");
        };
        if text.chars().any(|c| c.is_control() || (c.is_whitespace() && scheme != Scheme::File)) {
            return bad("it has a space or control character; write those percent-encoded, a space as %20");
        }
        if scheme != Scheme::File && !rest.starts_with("//") {
            return bad("two slashes are missing after the scheme's colon");
        }
        Ok(Self { scheme, text: text.to_owned(), rest: name.len() + 1 })
    }

    /// Its scheme.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What may be shown of it.
    pub fn redacted(&self) -> String {
        redact(&self.text)
    }

    /// The whole of it, secrets included.
    #[cfg(feature = "http")]
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The error for a scheme that is not built.
    ///
    /// # Errors
    /// [`FetchError::NotBuilt`].
    pub(crate) fn require_built(&self) -> Result<(), FetchError> {
        if self.scheme.is_built() {
            return Ok(());
        }
        Err(FetchError::NotBuilt { url: self.redacted(), scheme: self.scheme.name(), feature: self.scheme.feature() })
    }

    /// The path of a `file:` URL, percent-decoded: `file:a`, `file:../a`, `file:/a`, `file:///a`, `file://localhost/a`.
    ///
    /// # Errors
    /// [`FetchError::BadUrl`].
    pub fn file_path(&self) -> Result<PathBuf, FetchError> {
        let rest = &self.text[self.rest..];
        let path = match rest.strip_prefix("//") {
            None => rest,
            Some(after) => {
                let slash = after.find('/').unwrap_or(after.len());
                let host = &after[..slash];
                if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                    return Err(
                        self.bad("it names a host; a relative path is written file:NAME, an absolute one file:///PATH")
                    );
                }
                &after[slash..]
            }
        };
        if path.is_empty() {
            return Err(self.bad("no path"));
        }
        if path.contains(['?', '#']) {
            return Err(self.bad("? and # in a file's name are written %3F and %23"));
        }
        let bytes = percent_decode(path).ok_or_else(|| self.bad("a % that two hexadecimal digits don't follow"))?;
        if bytes.contains(&0) {
            return Err(self.bad("a zero byte can't be in a path"));
        }
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    /// Bucket or container and decoded key of an `s3:`, `gs:` or `az:` URL.
    #[cfg(feature = "http")]
    pub(crate) fn bucket_and_key(&self) -> Result<(&str, String), FetchError> {
        let rest = self.text[self.rest..].trim_start_matches("//");
        if rest.contains(['?', '#']) {
            return Err(self.bad("? and # in an object's name are written %3F and %23"));
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
        if bucket.is_empty() || bucket.len() > 222 || !bucket.chars().all(plain) || bucket.contains("..") {
            return Err(self.bad("not a bucket's name; it is written like s3://bucket/path/to/object"));
        }
        let key = percent_decode(key)
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| self.bad("the object's name is not percent-encoded UTF-8"))?;
        if key.is_empty() || key.ends_with('/') || key.chars().any(char::is_control) {
            return Err(self.bad("no object's name after the bucket"));
        }
        if key.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(self.bad("an object's name here has no empty, . or .. segment"));
        }
        Ok((bucket, key))
    }

    pub(crate) fn bad(&self, why: &str) -> FetchError {
        FetchError::BadUrl { url: self.redacted(), why: why.to_owned() }
    }
}

impl std::fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.redacted())
    }
}

fn redact_authority(scheme: &str, rest: &str) -> String {
    let slash = rest.find(['/', '\\']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    if let Some(at) = authority.rfind('@') {
        return format!("{scheme}{}{path}", &authority[at + 1..]);
    }
    // `http://user:pa/ss@host`: an unencoded password that ends the authority early looks like a strange port.
    let port = authority.rsplit(']').next().and_then(|tail| tail.split_once(':')).map_or("", |(_, port)| port);
    if port.chars().all(|c| c.is_ascii_digit()) { format!("{scheme}{rest}") } else { format!("{scheme}…") }
}

/// At most `limit` characters, control characters replaced.
fn shorten(text: &str, limit: usize) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(limit).map(clean).collect();
    if text.chars().nth(limit).is_some() {
        short.push('…');
    }
    short
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let value = |digit: u8| char::from(digit).to_digit(16);
                u8::try_from(value(digits[0])? * 16 + value(digits[1])?).ok()?
            }
            plain => plain,
        });
    }
    Some(decoded)
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
