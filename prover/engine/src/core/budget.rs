//! The byte budget: keys, working sets and inputs out of one fixed sum, never exceeded.
//!
//! An eighth is set aside for inputs, so that queued inputs can never keep a partition from its working set (and the
//! reverse): whoever waits for memory waits only for partitions that will end by themselves.

/// The share of the budget that inputs may take.
const INPUT_SHARE: u64 = 8;

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// Resident circuits.
    Keys,
    /// Assignments, scratch memory, partial sums.
    WorkingSets,
    /// Fetched and inline inputs.
    Inputs,
}

/// Bytes taken from the budget. It is not `Clone`: whoever holds it gives it back exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Grant {
    area: Area,
    bytes: u64,
    critical: bool,
}

impl Grant {
    /// Its size.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its size if it is of keys or working sets, which share one part of the budget.
    pub fn work_bytes(&self) -> u64 {
        if self.area == Area::Inputs { 0 } else { self.bytes }
    }
}

/// What a partition or a circuit held. It counts as taken until its memory has been dropped.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Holdings {
    /// Of the host's memory.
    pub grants: Vec<Grant>,
    /// Of a device's own memory: the device's index, bytes.
    pub device: Option<(usize, u64)>,
}

impl Holdings {
    /// Bytes of the host's memory.
    pub fn bytes(&self) -> u64 {
        self.grants.iter().map(Grant::bytes).sum()
    }

    /// Bytes of keys and working sets.
    pub fn work_bytes(&self) -> u64 {
        self.grants.iter().map(Grant::work_bytes).sum()
    }
}

/// The budget of host memory.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    reserve_critical: u64,
    keys: u64,
    working_sets: u64,
    inputs: u64,
    /// Of keys and working sets, what Critical partitions took.
    critical: u64,
}

impl Budget {
    /// A budget of `limit` bytes, of which `reserve_critical` only Critical partitions can use.
    pub fn new(limit: u64, reserve_critical: u64) -> Self {
        let reserve_critical = reserve_critical.min(limit - limit / INPUT_SHARE);
        Self { limit, reserve_critical, keys: 0, working_sets: 0, inputs: 0, critical: 0 }
    }

    /// The whole budget.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that inputs may take together.
    pub const fn input_limit(&self) -> u64 {
        self.limit / INPUT_SHARE
    }

    /// Bytes that a key and one partition's working set may take together.
    pub const fn work_limit(&self, critical: bool) -> u64 {
        let work = self.limit - self.input_limit();
        if critical { work } else { work - self.reserve_critical }
    }

    /// Bytes taken in `area`.
    pub const fn used(&self, area: Area) -> u64 {
        match area {
            Area::Keys => self.keys,
            Area::WorkingSets => self.working_sets,
            Area::Inputs => self.inputs,
        }
    }

    /// Bytes taken in all.
    pub const fn total(&self) -> u64 {
        self.keys + self.working_sets + self.inputs
    }

    /// Bytes that are missing for a request, 0 if it fits.
    pub fn missing(&self, area: Area, bytes: u64, critical: bool) -> u64 {
        let (used, limit) = match area {
            Area::Inputs => (self.inputs, self.input_limit()),
            Area::Keys | Area::WorkingSets if critical => (self.keys + self.working_sets, self.work_limit(true)),
            // What Critical partitions took counts against their reserve first.
            Area::Keys | Area::WorkingSets => {
                let reserved = self.critical.min(self.reserve_critical);
                (self.keys + self.working_sets - reserved, self.work_limit(false))
            }
        };
        used.saturating_add(bytes).saturating_sub(limit)
    }

    /// Takes `bytes`, or nothing.
    pub fn take(&mut self, area: Area, bytes: u64, critical: bool) -> Option<Grant> {
        let [grant] = self.take_all(area, [bytes], critical)?;
        Some(grant)
    }

    /// Takes several amounts, or nothing.
    pub fn take_all<const N: usize>(&mut self, area: Area, bytes: [u64; N], critical: bool) -> Option<[Grant; N]> {
        let sum = bytes.iter().fold(0_u64, |sum, &bytes| sum.saturating_add(bytes));
        if self.missing(area, sum, critical) > 0 {
            return None;
        }
        *self.area(area) += sum;
        if critical && area != Area::Inputs {
            self.critical += sum;
        }
        Some(bytes.map(|bytes| Grant { area, bytes, critical }))
    }

    /// Makes a grant larger, or leaves it as it is; whether it has `bytes` now.
    #[must_use]
    pub fn grow(&mut self, grant: &mut Grant, bytes: u64) -> bool {
        let more = bytes.saturating_sub(grant.bytes);
        let Some(added) = self.take(grant.area, more, grant.critical) else { return false };
        grant.bytes += added.bytes;
        true
    }

    /// Gives a grant back.
    pub fn give(&mut self, grant: Grant) {
        let Grant { area, bytes, critical } = grant;
        *self.area(area) -= bytes;
        if critical && area != Area::Inputs {
            self.critical -= bytes;
        }
    }

    const fn area(&mut self, area: Area) -> &mut u64 {
        match area {
            Area::Keys => &mut self.keys,
            Area::WorkingSets => &mut self.working_sets,
            Area::Inputs => &mut self.inputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_for_critical_partitions_alone() {
        let mut budget = Budget::new(800, 200);
        assert_eq!(budget.input_limit(), 100);
        assert_eq!(budget.work_limit(false), 500);
        let normal = budget.take(Area::WorkingSets, 500, false).unwrap();
        assert!(budget.take(Area::Keys, 1, false).is_none());
        let critical = budget.take(Area::WorkingSets, 200, true).unwrap();
        assert_eq!(budget.missing(Area::WorkingSets, 7, true), 7);
        budget.give(normal);
        // The Critical partition uses the reserve, so others have all of their own share again.
        let again = budget.take(Area::WorkingSets, 500, false).unwrap();
        budget.give(critical);
        assert!(budget.take(Area::WorkingSets, 1, false).is_none());
        budget.give(again);
        assert_eq!(budget.total(), 0);
    }

    #[test]
    fn inputs_have_their_own_share() {
        let mut budget = Budget::new(800, 0);
        let input = budget.take(Area::Inputs, 100, false).unwrap();
        assert!(budget.take(Area::Inputs, 1, true).is_none());
        let [a, b] = budget.take_all(Area::WorkingSets, [300, 400], false).unwrap();
        assert!(budget.take_all(Area::WorkingSets, [1, 0], false).is_none());
        assert_eq!(budget.total(), 800);
        for grant in [input, a, b] {
            budget.give(grant);
        }
    }

    #[test]
    fn a_huge_request_does_not_wrap() {
        let mut budget = Budget::new(800, 0);
        assert!(budget.take_all(Area::WorkingSets, [u64::MAX, u64::MAX], false).is_none());
    }
}
