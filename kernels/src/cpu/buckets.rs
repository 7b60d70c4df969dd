//! Sums of many points per bucket: a counting sort of entries (index << 1 | sign) by bucket, then every bucket summed as
//! a tree of batched affine additions.
//!
//! Pairs of one round never share an operand, whatever the scalars are: there are no conflicts to schedule, and a bucket
//! that gets most of the points (scalars 0/1) runs at full speed too.

use core::ops::Range;
use std::sync::Mutex;

use super::aligned::AlignedVec;
use super::curve::{Affine, Xyzz};
use super::field::Field;
use super::pairs::{Direct, Gather, Pair, PairScratch, Source, add_pairs};

/// Bucket sums and the working memory to make them, kept between calls.
pub struct Buckets<F> {
    /// Entries at once: the points of two rounds should stay in the second-level cache (1 MiB each).
    tile: usize,
    /// Pairs per inversion: their operands should stay in the second-level cache for the second pass.
    batch: usize,
    start: Vec<u32>,
    entries: Vec<u32>,
    /// Bucket and number of entries left, per bucket of the tile.
    counts: Vec<(u32, u32)>,
    pairs: Vec<Pair>,
    pair_scratch: PairScratch<F>,
    current: AlignedVec<Affine<F>>,
    next: AlignedVec<Affine<F>>,
    sums: AlignedVec<Affine<F>>,
}

/// Working memory that tasks on several threads lend each other.
pub struct Idle<S>(Mutex<Vec<S>>);

impl<F: Field> Default for Buckets<F> {
    /// Measured best: tiles of 16384 entries with 1024 pairs a batch for BN254 G1, half of both for its G2.
    fn default() -> Self {
        let tile = 1 << ((1usize << 20) / size_of::<Affine<F>>()).ilog2();
        Self::with_sizes(tile, if size_of::<Affine<F>>() < 128 { 1024 } else { 512 })
    }
}

impl<F: Field> Buckets<F> {
    pub fn with_sizes(tile: usize, batch: usize) -> Self {
        Self {
            tile,
            batch,
            start: Vec::new(),
            entries: Vec::new(),
            counts: Vec::new(),
            pairs: Vec::new(),
            pair_scratch: PairScratch::default(),
            current: AlignedVec::default(),
            next: AlignedVec::default(),
            sums: AlignedVec::default(),
        }
    }

    /// The sum of digit * table\[index\] over the items (digit, index) with |digit| - 1 in `range`; others are left out.
    pub fn weighted_sum<I: Iterator<Item = (i32, u32)>>(
        &mut self,
        table: &[Affine<F>],
        range: Range<usize>,
        items: impl Fn() -> I,
    ) -> Xyzz<F> {
        let below = range.start;
        self.sort(range.clone(), items);
        self.accumulate(table, range.len());
        self.reduce(below)
    }

    /// Per bucket 1..=`buckets` the sum of its signed points: sum b comes at index b - 1. Bucket 0 is dropped.
    pub fn bucket_sums<I: Iterator<Item = (i32, u32)>>(
        &mut self,
        table: &[Affine<F>],
        buckets: usize,
        items: impl Fn() -> I,
    ) -> &[Affine<F>] {
        self.sort(0..buckets, items);
        self.accumulate(table, buckets);
        self.sums.as_slice()
    }

    /// The sum of the points that the entries (index << 1 | sign) name.
    pub fn sum(&mut self, table: &[Affine<F>], entries: &[u32]) -> Affine<F> {
        self.begin_groups();
        self.push_group(entries.iter().copied());
        self.group_sums(table)[0]
    }

    /// Starts a list of groups of entries, each of which becomes one sum.
    pub fn begin_groups(&mut self) {
        self.entries.clear();
        self.start.clear();
        self.start.push(0);
    }

    /// Adds a group of entries (index << 1 | sign), which may be empty.
    pub fn push_group(&mut self, entries: impl Iterator<Item = u32>) {
        self.entries.extend(entries);
        self.start.push(self.entries.len() as u32);
    }

    /// The sums of the groups, in their order.
    pub fn group_sums(&mut self, table: &[Affine<F>]) -> &[Affine<F>] {
        self.accumulate(table, self.start.len() - 1);
        self.sums.as_slice()
    }

    /// Counting sort of the items' entries by |digit|; afterwards the entries of |digit| = `range.start` + b are
    /// `start[b - 1]..start[b]`.
    fn sort<I: Iterator<Item = (i32, u32)>>(&mut self, range: Range<usize>, items: impl Fn() -> I) {
        let n = range.len();
        // Bucket 0 is what is out of the range: taken along without a branch, which random digits would often mispredict.
        let bucket = |digit: i32| {
            let b = (digit.unsigned_abs() as usize).wrapping_sub(range.start);
            if b <= n { b } else { 0 }
        };
        self.start.clear();
        self.start.resize(n + 2, 0);
        let start = &mut self.start;
        // start[b + 1] counts bucket b.
        items().for_each(|(d, _)| start[bucket(d) + 1] += 1);
        start[1] = 0;
        for b in 1..=n + 1 {
            start[b] += start[b - 1];
        }
        let total = start[n + 1];
        // What is out of the range goes to a place beyond the end.
        start[0] = total;
        self.entries.clear();
        self.entries.resize(total as usize + 1, 0);
        let entries = &mut self.entries;
        items().for_each(|(d, index)| {
            let b = bucket(d);
            let at = &mut start[b];
            entries[*at as usize] = index << 1 | (d < 0) as u32;
            *at += (b != 0) as u32;
        });
        start[0] = 0;
        entries.truncate(total as usize);
    }

    /// Sums every bucket 1..=n of the sorted entries into `sums[b - 1]`.
    fn accumulate(&mut self, table: &[Affine<F>], n: usize) {
        self.sums.resize(0);
        self.sums.resize(n);
        let mut bucket = 1;
        let mut at = 0;
        let total = self.entries.len();
        while at < total {
            let end = (at + self.tile).min(total);
            self.counts.clear();
            let mut p = at;
            while p < end {
                while self.start[bucket] as usize <= p {
                    bucket += 1;
                }
                let stop = (self.start[bucket] as usize).min(end);
                self.counts.push((bucket as u32, (stop - p) as u32));
                p = stop;
            }
            self.sum_tile(table, at, end);
            at = end;
        }
    }

    /// Round by round, all neighbouring pairs inside each bucket are added, until one point a bucket is left.
    fn sum_tile(&mut self, table: &[Affine<F>], at: usize, end: usize) {
        let gather = Gather { table, entries: &self.entries[at..end] };
        if self.current.as_slice().len() < end - at {
            self.current.resize(end - at);
            self.next.resize(end - at);
        }
        let mut first = true;
        loop {
            let (current, next) = (self.current.as_slice(), self.next.as_mut_slice());
            self.pairs.clear();
            let (mut from, mut to) = (0, 0);
            for (_, m) in &mut self.counts {
                let half = *m / 2;
                self.pairs.extend((0..half).map(|k| Pair { a: from + 2 * k, b: from + 2 * k + 1, to: to + k }));
                if *m % 2 == 1 {
                    let last = from + *m - 1;
                    next[(to + half) as usize] = if first { gather.get(last) } else { current[last as usize] };
                }
                from += *m;
                *m = m.div_ceil(2);
                to += *m;
            }
            let done = self.pairs.is_empty();
            for batch in self.pairs.chunks(self.batch) {
                if first {
                    add_pairs(&gather, next, batch, &mut self.pair_scratch);
                } else {
                    add_pairs(&Direct(current), next, batch, &mut self.pair_scratch);
                }
            }
            first = false;
            std::mem::swap(&mut self.current, &mut self.next);
            if done {
                break;
            }
        }
        let sums = self.sums.as_mut_slice();
        for (&(bucket, _), sum) in self.counts.iter().zip(self.current.as_slice()) {
            let slot = &mut sums[bucket as usize - 1];
            *slot = if slot.is_infinity() {
                *sum
            } else {
                // A bucket cut by a tile's border.
                Xyzz::from_affine(slot).add_affine(sum).to_affine()
            };
        }
    }

    /// The sum of (`below` + b) * `sums[b - 1]`.
    fn reduce(&mut self, below: usize) -> Xyzz<F> {
        let n = self.sums.as_slice().iter().rposition(|b| !b.is_infinity()).map_or(0, |i| i + 1);
        if n <= RUNNING_SUMS {
            let mut run = Xyzz::INFINITY;
            let mut sum = Xyzz::INFINITY;
            for b in self.sums.as_slice()[..n].iter().rev() {
                run = run.add_affine(b);
                sum = sum.add(&run);
            }
            return if below == 0 { sum } else { sum.add(&run.mul(&[below as u64, 0, 0, 0])) };
        }
        // The same problem with small scalars: two windows of half the bits, the lower one signed.
        let width = (below + n).ilog2() / 2 + 1;
        let half = 1i32 << (width - 1);
        let table = std::mem::take(&mut self.sums);
        let used = &table.as_slice()[..n];
        let mask = (1i32 << width) - 1;
        let top = ((below + n) as i32 + half) >> width;
        // Every bucket's weight with half of the lower window added, and its place.
        let items = || (0..n).filter(|&i| !used[i].is_infinity()).map(|i| ((below + i + 1) as i32 + half, i as u32));
        let upper = self.weighted_sum(used, 0..top as usize, || items().map(|(b, i)| (b >> width, i)));
        let lower = self.weighted_sum(used, 0..half as usize, || items().map(|(b, i)| ((b & mask) - half, i)));
        self.sums = table;
        (0..width).fold(upper, |x, _| x.double()).add(&lower)
    }
}

impl<S: Default> Idle<S> {
    pub fn with<R>(&self, f: impl FnOnce(&mut S) -> R) -> R {
        let kept = self.0.lock().map(|mut idle| idle.pop()).unwrap_or_default();
        let mut scratch = kept.unwrap_or_default();
        let r = f(&mut scratch);
        if let Ok(mut idle) = self.0.lock() {
            idle.push(scratch);
        }
        r
    }
}

impl<S> Default for Idle<S> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

/// Up to here running sums are as fast as batches.
const RUNNING_SUMS: usize = 512;
