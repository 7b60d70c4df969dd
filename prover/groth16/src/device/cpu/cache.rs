//! What outlives a partition: working memory of the threads, tables of the domains used last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proofmill_kernels::msm::Scratch;

use crate::curve::{Reduction, Suite};
use crate::reduction::{ReductionError, Transform};

/// Domains whose tables are kept.
const TABLES: usize = 2;

/// Of one suite.
pub struct Cache<S: Suite> {
    /// In G1.
    pub g1: Pool<Scratch<S::Fq>>,
    /// In G2.
    pub g2: Pool<Scratch<S::Fq2>>,
    /// Latest last.
    tables: Mutex<Vec<Table<S>>>,
}

struct Table<S: Suite> {
    reduction: Reduction,
    log: u32,
    transform: Arc<Transform<S>>,
}

/// Things that are lent, given back and lent again.
pub struct Pool<T>(Mutex<Vec<T>>);

impl<S: Suite> Cache<S> {
    /// The tables for a domain, from the cache or new.
    pub fn transform(&self, reduction: Reduction, log: u32) -> Result<Arc<Transform<S>>, ReductionError> {
        let known = |tables: &MutexGuard<'_, Vec<Table<S>>>| {
            tables.iter().position(|table| (table.reduction, table.log) == (reduction, log))
        };
        {
            let mut tables = lock(&self.tables);
            if let Some(place) = known(&tables) {
                let table = tables.remove(place);
                let transform = Arc::clone(&table.transform);
                tables.push(table);
                return Ok(transform);
            }
        }
        // Made outside the lock: it takes milliseconds. Two at once make it twice, which harms nothing.
        let transform = Arc::new(Transform::new(reduction, log)?);
        let mut tables = lock(&self.tables);
        if known(&tables).is_none() {
            if tables.len() >= TABLES {
                tables.remove(0);
            }
            tables.push(Table { reduction, log, transform: Arc::clone(&transform) });
        }
        Ok(transform)
    }
}

impl<S: Suite> Default for Cache<S> {
    fn default() -> Self {
        Self { g1: Pool::default(), g2: Pool::default(), tables: Mutex::default() }
    }
}

impl<T: Default> Pool<T> {
    /// Lends one to `work`. If that panics, the one lent is dropped with whatever state it is in.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut thing = lock(&self.0).pop().unwrap_or_default();
        let result = work(&mut thing);
        lock(&self.0).push(thing);
        result
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
