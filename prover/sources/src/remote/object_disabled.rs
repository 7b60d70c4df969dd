//! A build without feature `object-store`.

use std::sync::Arc;

use super::client::Connections;
use super::{Failed, Opened};
use crate::error::FetchError;
use crate::policy::Policy;
use crate::url::SourceUrl;

pub(super) struct ObjectSources;

/// Never made.
pub(super) enum ObjectOrigin {}

impl ObjectSources {
    pub(super) fn new(_policy: &Policy, _connections: Arc<Connections>) -> Result<Self, FetchError> {
        Ok(Self)
    }

    pub(super) fn check(&self, url: &SourceUrl) -> Result<(), FetchError> {
        url.require_built()
    }

    pub(super) fn origin(&self, url: &SourceUrl) -> Result<ObjectOrigin, FetchError> {
        Err(url.require_built().err().unwrap_or_else(|| url.bad("not an object's URL")))
    }
}

impl ObjectOrigin {
    pub(super) async fn open(&mut self, _offset: u64) -> Result<Opened, Failed> {
        match *self {}
    }
}
