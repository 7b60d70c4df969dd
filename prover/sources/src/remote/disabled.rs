//! A build without feature `http`: nothing but files.

use crate::error::FetchError;
use crate::policy::Policy;
use crate::sink::Sink;
use crate::url::SourceUrl;

/// Nothing.
pub(crate) struct Remote;

impl Remote {
    pub(crate) fn new(_policy: &Policy) -> Result<Self, FetchError> {
        Ok(Self)
    }

    pub(crate) fn check(&self, url: &SourceUrl) -> Result<(), FetchError> {
        url.require_built()
    }

    pub(crate) fn fetch(
        &self,
        url: &SourceUrl,
        _sink: &mut Sink,
        _cancel: &dyn Fn() -> bool,
        _progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<(), FetchError> {
        url.require_built()
    }
}
