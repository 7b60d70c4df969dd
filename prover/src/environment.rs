//! The environment variables that the binary honours, read once, in `main`.

use std::path::PathBuf;

/// What was found.
#[derive(Clone, Default)]
pub struct Environment {
    /// RUST_LOG.
    pub rust_log: Option<String>,
    /// $XDG_CACHE_HOME/proofmill, else ~/.cache/proofmill.
    pub cache: Option<PathBuf>,
    /// HTTPS_PROXY, for https URLs.
    pub https_proxy: Option<String>,
    /// HTTP_PROXY, for http URLs.
    pub http_proxy: Option<String>,
    /// NO_PROXY.
    pub no_proxy: Option<String>,
    /// Credentials and settings of object stores: AWS_*, GOOGLE_*, AZURE_* as their own tools read them.
    pub object_store: Vec<(String, String)>,
}

impl Environment {
    /// Reads the process's environment.
    pub fn read() -> Self {
        // Proxies are honoured in both spellings; the lower-case one is curl's.
        let either = |name: &str| non_empty(name).or_else(|| non_empty(&name.to_lowercase()));
        let cache = non_empty("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| non_empty("HOME").map(|home| PathBuf::from(home).join(".cache")))
            .map(|folder| folder.join("proofmill"));
        Self {
            rust_log: non_empty("RUST_LOG"),
            cache,
            https_proxy: either("HTTPS_PROXY"),
            http_proxy: either("HTTP_PROXY"),
            no_proxy: either("NO_PROXY"),
            object_store: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .filter(|(name, _)| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix)))
                .collect(),
        }
    }
}

fn non_empty(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
