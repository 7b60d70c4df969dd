//! The source read once, front to back, hashed on the way: what is imported is what the digest stands for.

use sha2::{Digest, Sha256};

use super::{ImportControl, ImportError};
use crate::format::source::ReadAt;

/// Bytes that one step of the import works on, about. The subgroup's test is cheaper for many points at once.
pub(super) const STEP: usize = 8 << 20;

/// Sequential, hashed reading with progress and cancellation.
pub(super) struct Stream<'a> {
    source: &'a dyn ReadAt,
    control: &'a ImportControl<'a>,
    position: u64,
    hasher: Sha256,
}

impl<'a> Stream<'a> {
    pub(super) fn new(source: &'a dyn ReadAt, control: &'a ImportControl<'a>) -> Self {
        Self { source, control, position: 0, hasher: Sha256::new() }
    }

    /// The next bytes.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<(), ImportError> {
        self.control.check()?;
        self.source.read_exact_at(buffer, self.position)?;
        self.hasher.update(&*buffer);
        self.position += buffer.len() as u64;
        (self.control.progress)(self.position, self.source.len());
        Ok(())
    }

    /// The next `length` bytes, which nothing needs but the digest.
    pub(super) fn skip(&mut self, length: u64) -> Result<(), ImportError> {
        let mut left = length;
        let mut buffer = vec![0; left.min(STEP as u64) as usize];
        while left > 0 {
            let take = left.min(STEP as u64);
            self.read(&mut buffer[..take as usize])?;
            left -= take;
        }
        Ok(())
    }

    /// The next bytes must be these, which were read before.
    pub(super) fn expect(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        let mut found = vec![0; bytes.len()];
        self.read(&mut found)?;
        if found == bytes { Ok(()) } else { Err(ImportError::SourceChanged) }
    }

    /// Calls `work` with the next `items` items of `size` bytes, a step at a time, with the first item's number. The next
    /// step is read and hashed while one is worked on.
    pub(super) fn for_each_step<T: bytemuck::Pod + Send + Sync>(
        &mut self,
        items: u64,
        size: usize,
        mut work: impl FnMut(u64, &[T]) -> Result<(), ImportError> + Send,
    ) -> Result<(), ImportError> {
        let per_step = (STEP / size).max(1) as u64;
        let elements = size / size_of::<T>().max(1);
        let allocate = |count: u64| vec![T::zeroed(); count.min(per_step).min(items) as usize * elements];
        let (mut current, mut next): (Vec<T>, Vec<T>) = (allocate(items), allocate(items.saturating_sub(per_step)));
        let mut done = 0;
        let mut have = items.min(per_step);
        self.read(bytemuck::cast_slice_mut(&mut current[..have as usize * elements]))?;
        while have > 0 {
            let ready = &current[..have as usize * elements];
            let upcoming = (items - done - have).min(per_step);
            let filled = &mut next[..upcoming as usize * elements];
            let (worked, read) = rayon::join(
                || work(done, ready),
                || if filled.is_empty() { Ok(()) } else { self.read(bytemuck::cast_slice_mut(filled)) },
            );
            worked.and(read)?;
            done += have;
            have = upcoming;
            std::mem::swap(&mut current, &mut next);
            if next.len() < current.len() {
                next.resize(current.len(), T::zeroed());
            }
        }
        Ok(())
    }

    /// The digest of all that was read.
    pub(super) fn finish(self) -> [u8; 32] {
        self.hasher.finalize().into()
    }
}
