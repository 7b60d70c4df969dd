//! The first constraint with a property, searched by all threads of the current rayon pool: a batch is read while the
//! one before is searched, so two batches are in memory and no more.

use rayon::prelude::*;

use super::{Constraint, R1cs, R1csError, Reader};
use crate::format::source::ReadAt;

/// Constraints of a batch: about a millisecond of work, so that cancelling is prompt.
const CONSTRAINTS: usize = 1 << 13;
/// Terms of a batch at most (2.5 MiB), but for one constraint that alone has more.
const TERMS: usize = 1 << 16;
/// Constraints that a thread takes at once.
const PIECE: usize = 64;

/// Some constraints in a row. The places are used again, so that a batch allocates next to nothing.
#[derive(Default)]
struct Batch {
    first: u32,
    count: usize,
    places: Vec<Constraint>,
}

impl<R: ReadAt> R1cs<R> {
    /// What `find` says of the first constraint of which it says anything. `cancelled` is asked between batches.
    pub fn find_first<T: Send>(
        &self,
        cancelled: &dyn Fn() -> bool,
        find: impl Fn(u32, &Constraint) -> Option<T> + Sync,
    ) -> Result<Option<T>, R1csError> {
        let mut reader = Reader::new(self);
        let (mut current, mut next) = (Batch::default(), Batch::default());
        current.fill(&mut reader)?;
        while current.count > 0 {
            if cancelled() {
                return Err(R1csError::Cancelled);
            }
            let (filled, found) = rayon::join(|| next.fill(&mut reader), || current.find_first(&find));
            if found.is_some() {
                return Ok(found);
            }
            filled?;
            std::mem::swap(&mut current, &mut next);
        }
        Ok(None)
    }
}

impl Batch {
    /// Reads the next constraints; none are left if there are none after it.
    fn fill<R: ReadAt>(&mut self, reader: &mut Reader<'_, R>) -> Result<(), R1csError> {
        (self.first, self.count) = (reader.next, 0);
        let mut terms = 0;
        while self.count < CONSTRAINTS && terms < TERMS {
            if self.count == self.places.len() {
                self.places.push(Constraint::default());
            }
            let place = &mut self.places[self.count];
            if reader.read(place)?.is_none() {
                break;
            }
            terms += place.a.len() + place.b.len() + place.c.len();
            self.count += 1;
        }
        Ok(())
    }

    fn find_first<T: Send>(&self, find: impl Fn(u32, &Constraint) -> Option<T> + Sync) -> Option<T> {
        let constraints = self.places[..self.count].par_iter().enumerate().with_min_len(PIECE);
        constraints.find_map_first(|(index, constraint)| find(self.first + index as u32, constraint))
    }
}
