//! Fetching inputs and keys by URL: files, HTTP and object stores.
//!
//! A [`Fetcher`] is made once from a [`Policy`] and called on threads that may block; it owns whatever it needs (connection
//! pools, a small runtime), reads no environment variable and keeps nothing global.
//!
//! - [`policy`]: what is allowed, and how patient to be; [`Policy::run`] and [`Policy::serve`] are the two starting points.
//! - [`url`]: what URLs look like, how relative `file:` URLs are resolved, what of a URL may be shown.
//! - [`error`]: what can go wrong, in words for the one who has to mend it.
//! - `local`, `beneath`: `file:` URLs, opened in place.
//! - `address`, `allow`: where requests for others may go: no internal addresses, only listed prefixes.
//! - `sink`: where fetched bytes go (memory or a private file), counted and digested on the way.
//! - `remote`: `http:` and `https:` (feature `http`), `s3:`, `gs:` and `az:` (feature `object-store`), with resume and retries.
//!
//! URL → [`url::SourceUrl`] → allow-list → origin → sink → digest check → bytes or file.

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod allow;
mod beneath;
pub mod error;
mod fetcher;
mod local;
pub mod policy;
#[cfg(feature = "http")]
mod remote;
#[cfg(not(feature = "http"))]
#[path = "remote/disabled.rs"]
mod remote;
mod sink;
pub mod url;

pub use error::{ErrorClass, FetchError};
pub use fetcher::{Fetched, Fetcher};
pub use policy::Policy;
pub use url::resolve;

/// Whether URLs of this scheme (`file`, `http`, `https`, `s3`, `gs`, `az`) can be fetched by this build.
pub fn is_built(scheme: &str) -> bool {
    url::Scheme::from_name(scheme).is_some_and(url::Scheme::is_built)
}
