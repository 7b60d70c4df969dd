//! Room for what is fetched: asked for before the bytes come, in all as soon as their number is known, else a step ahead
//! of them. A refusal stops the fetch.

use std::cell::{Cell, RefCell};

/// Room that a fetch has, and how it gets more.
pub struct Room<'a, E> {
    step: u64,
    reserve: &'a dyn Fn(u64) -> Result<(), E>,
    have: Cell<u64>,
    refused: RefCell<Option<E>>,
}

impl<'a, E> Room<'a, E> {
    /// None yet. `reserve` is called with the bytes that are needed in all; `step` is how far ahead that goes while the
    /// length is not known.
    pub const fn new(step: u64, reserve: &'a dyn Fn(u64) -> Result<(), E>) -> Self {
        Self { step, reserve, have: Cell::new(0), refused: RefCell::new(None) }
    }

    /// A fetch's progress: (bytes so far, bytes in all if known).
    pub fn expect(&self, done: u64, total: Option<u64>) {
        let need = match total {
            Some(total) => total.max(done),
            None if done.saturating_add(self.step / 2) > self.have.get() => done.saturating_add(self.step),
            None => return,
        };
        if need <= self.have.get() || self.is_refused() {
            return;
        }
        match (self.reserve)(need) {
            Ok(()) => self.have.set(need),
            Err(refusal) => *self.refused.borrow_mut() = Some(refusal),
        }
    }

    /// Whether the fetch must stop.
    pub fn is_refused(&self) -> bool {
        self.refused.borrow().is_some()
    }

    /// The refusal, if there was one.
    pub fn granted(self) -> Result<(), E> {
        self.refused.into_inner().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_length_is_asked_for_once_and_an_unknown_one_ahead_of_the_bytes() {
        let asked = RefCell::new(Vec::new());
        let reserve = |bytes| -> Result<(), ()> {
            asked.borrow_mut().push(bytes);
            Ok(())
        };
        let room = Room::new(100, &reserve);
        for done in [0, 10, 500, 1000] {
            room.expect(done, Some(1000));
        }
        assert_eq!(*asked.borrow(), [1000]);
        asked.borrow_mut().clear();
        let room = Room::new(100, &reserve);
        for done in [0, 20, 40, 60, 80, 100, 120, 140, 160, 180] {
            room.expect(done, None);
        }
        room.expect(180, Some(180));
        assert_eq!(*asked.borrow(), [100, 160, 220, 280]);
    }

    #[test]
    fn a_refusal_is_kept_and_not_asked_for_again() {
        let asked = Cell::new(0);
        let reserve = |bytes| {
            asked.set(asked.get() + 1);
            if bytes > 50 { Err(bytes) } else { Ok(()) }
        };
        let room = Room::new(10, &reserve);
        room.expect(0, None);
        room.expect(0, Some(60));
        assert!(room.is_refused());
        room.expect(30, Some(70));
        assert_eq!((asked.get(), room.granted()), (2, Err(60)));
    }
}
