//! Multi-scalar multiplication: the sum of scalar times point, as a bag of independent tasks.
//!
//! Signed windows; buckets filled by counting sort and summed as trees (Pippenger's method in the batch-affine form).
//! Witnesses are mostly small: zeros are dropped, ones (and minus ones) become one plain sum, scalars above r/2 are
//! replaced by their negatives, and there are only as many windows as the longest remaining scalar needs.

use core::marker::PhantomData;
use core::ops::Range;

use rayon::prelude::*;

use super::buckets::{Buckets, Idle};
use super::curve::{Affine, CurveField, Xyzz};
use super::digits::{self, Recoding};
use super::field::Field;
use super::limbs::sub_limbs;

/// What is multiplied: points without infinities, and which scalar belongs to which.
#[derive(Clone, Copy, Debug)]
pub struct Bases<'a, F> {
    /// Points of the subgroup of order r, none of them infinite (an infinite one costs time, not correctness).
    pub points: &'a [Affine<F>],
    /// `wires[i]` is the index of the scalar of `points[i]`; without it point i has scalar i.
    pub wires: Option<&'a [u32]>,
}

/// One multi-scalar multiplication over borrowed points.
pub struct Msm<'a, F> {
    points: &'a [Affine<F>],
    plan: Plan<F>,
}

/// The scalars' digits and how the work is cut into tasks; borrows nothing, so that it can be kept beside the points.
/// Memory: about 38 bytes per scalar other than 0, 1 and -1.
pub struct Plan<F> {
    /// Bits per window.
    window: u32,
    windows: u32,
    /// Point indices of the scalars other than 0, 1 and -1.
    index: Vec<u32>,
    /// Their digits: per block of `BLOCK` scalars, `windows` rows.
    digits: Vec<i16>,
    /// Entries (point index << 1 | sign) of the scalars 1 and -1.
    ones: Vec<u32>,
    /// Ranges of blocks; one task per window and chunk.
    chunks: Vec<Range<usize>>,
    of: PhantomData<F>,
}

/// Working memory of tasks; keep one per thread.
pub struct Scratch<F: Field> {
    pub(super) adx: Buckets<F::Adx>,
    pub(super) portable: Buckets<F::Portable>,
}

/// All tasks on the current rayon pool.
///
/// # Panics
/// As [`Plan::new`].
pub fn msm<F: CurveField>(bases: Bases<'_, F>, scalars: &[[u64; 4]], bits: u32) -> Xyzz<F> {
    let job = Msm::new(bases, scalars, bits);
    let idle = Idle::default();
    let parts: Vec<Xyzz<F>> = (0..job.tasks())
        .into_par_iter()
        .with_max_len(1)
        .map(|task| idle.with(|scratch: &mut Scratch<F>| job.run(task, scratch)))
        .collect();
    job.combine(&parts)
}

impl<'a, F: CurveField> Msm<'a, F> {
    /// Extracts the scalars' digits (in parallel on the current rayon pool when there are many).
    ///
    /// # Panics
    /// As [`Plan::new`].
    pub fn new(bases: Bases<'a, F>, scalars: &[[u64; 4]], bits: u32) -> Self {
        Self { points: bases.points, plan: Plan::new(bases.points.len(), bases.wires, scalars, bits) }
    }

    /// How many tasks there are; 0 when all scalars are zero.
    pub fn tasks(&self) -> usize {
        self.plan.tasks()
    }

    /// Runs a task: any order, any thread, at most about 0.15 s.
    ///
    /// # Panics
    /// When `task` is not below [`Self::tasks`].
    pub fn run(&self, task: usize, scratch: &mut Scratch<F>) -> Xyzz<F> {
        self.plan.run(self.points, task, scratch)
    }

    /// The result, from the tasks' results in the order of the tasks.
    pub fn combine(&self, parts: &[Xyzz<F>]) -> Xyzz<F> {
        self.plan.combine(parts)
    }
}

impl<F: CurveField> Plan<F> {
    /// A plan for `points` points. Scalars are plain integers; they should be canonical and below 2^`bits` (any value is
    /// handled, more bits cost more windows).
    ///
    /// # Panics
    /// When `wires` has another length than `points`, or a point has no scalar.
    pub fn new(points: usize, wires: Option<&[u32]>, scalars: &[[u64; 4]], bits: u32) -> Self {
        assert!(wires.is_none_or(|w| w.len() == points), "one wire per point");
        assert!(points < 1 << 31, "at most 2^31 points");
        let scalar = |i: u32| &scalars[wires.map_or(i, |w| w[i as usize]) as usize];
        let minus_one = sub_limbs(&F::ORDER, &[1, 0, 0, 0]).0;
        let mut index = Vec::with_capacity(points);
        let mut ones = Vec::new();
        let mut any_bit = [0; 4];
        for i in 0..points as u32 {
            let s = scalar(i);
            if s[1] | s[2] | s[3] == 0 && s[0] <= 1 {
                if s[0] == 1 {
                    ones.push(i << 1);
                }
            } else if *s == minus_one {
                ones.push(i << 1 | 1);
            } else {
                index.push(i);
                let (s, _) = digits::shorter::<F>(s);
                any_bit.iter_mut().zip(&s).for_each(|(a, s)| *a |= s);
            }
        }
        let used = (0..4).rev().find(|&i| any_bit[i] != 0).map_or(0, |i| 64 * i as u32 + any_bit[i].ilog2() + 1);
        debug_assert!(used <= bits, "scalars are below 2^bits");
        let window = best_window(index.len(), used);
        let recoding = Recoding::new(window, used);
        let windows = if index.is_empty() { 0 } else { recoding.windows };
        let mut digits = vec![0; index.len() * windows as usize];
        let fill = |(block, rows): (usize, &mut [i16])| {
            let members = &index[block * BLOCK..index.len().min((block + 1) * BLOCK)];
            for (k, &i) in members.iter().enumerate() {
                let (s, negative) = digits::shorter::<F>(scalar(i));
                for (w, d) in recoding.digits(&s).enumerate() {
                    rows[w * members.len() + k] = if negative { -d } else { d };
                }
            }
        };
        let rows = (BLOCK * windows as usize).max(1);
        if index.len() > 4 * BLOCK {
            digits.par_chunks_mut(rows).enumerate().for_each(fill);
        } else {
            digits.chunks_mut(rows).enumerate().for_each(fill);
        }
        let chunks = cut(index.len().div_ceil(BLOCK), (max_entries::<F>() / BLOCK).max(1));
        Self { window, windows, index, digits, ones, chunks, of: PhantomData }
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.windows as usize * self.chunks.len() + self.ones.len().div_ceil(max_entries::<F>())
    }

    /// Runs a task over the points that the plan was made for.
    ///
    /// # Panics
    /// When `task` is not below [`Self::tasks`], or there are fewer points than were planned for.
    pub fn run(&self, points: &[Affine<F>], task: usize, scratch: &mut Scratch<F>) -> Xyzz<F> {
        F::msm_task(self, points, task, scratch)
    }

    /// The result, from the tasks' results in the order of the tasks.
    pub fn combine(&self, parts: &[Xyzz<F>]) -> Xyzz<F> {
        let (windows, ones) = parts.split_at(self.windows as usize * self.chunks.len());
        let mut r = Xyzz::INFINITY;
        for window in windows.chunks(self.chunks.len().max(1)).rev() {
            for _ in 0..self.window {
                r = r.double();
            }
            r = window.iter().fold(r, |r, part| r.add(part));
        }
        ones.iter().fold(r, |r, part| r.add(part))
    }

    /// On the backend `G` of `F`.
    pub(super) fn run_on<G: Field>(&self, points: &[Affine<G>], task: usize, buckets: &mut Buckets<G>) -> Xyzz<G> {
        let window_tasks = self.windows as usize * self.chunks.len();
        if task >= window_tasks {
            let from = (task - window_tasks) * max_entries::<F>();
            let to = self.ones.len().min(from + max_entries::<F>());
            return Xyzz::from_affine(&buckets.sum(points, &self.ones[from..to]));
        }
        let (window, chunk) = (task / self.chunks.len(), task % self.chunks.len());
        let blocks = self.chunks[chunk].clone();
        buckets.weighted_sum(points, 1 << (self.window - 1), || {
            blocks.clone().flat_map(|block| {
                let members = &self.index[block * BLOCK..self.index.len().min((block + 1) * BLOCK)];
                let at = block * BLOCK * self.windows as usize + window * members.len();
                self.digits[at..at + members.len()].iter().zip(members).map(|(&d, &i)| (d as i32, i))
            })
        })
    }
}

impl<F: Field> Default for Scratch<F> {
    fn default() -> Self {
        Self { adx: Buckets::default(), portable: Buckets::default() }
    }
}

/// Scalars whose digits lie together, window by window.
const BLOCK: usize = 4096;
/// Nanoseconds that a task should take at most.
const TASK_NS: usize = 120_000_000;

fn max_entries<F: CurveField>() -> usize {
    (TASK_NS / F::ADD_NS) & !(BLOCK - 1)
}

/// `n` blocks in as few equal ranges of at most `most` as possible.
fn cut(n: usize, most: usize) -> Vec<Range<usize>> {
    let parts = n.div_ceil(most);
    (0..parts).map(|i| i * n / parts..(i + 1) * n / parts).collect()
}

/// The window with the least additions: one per scalar and window, and for the reduction about 1.9 per bucket (2.5 as
/// running sums, which pay no batches' overhead up to 512 buckets).
fn best_window(scalars: usize, bits: u32) -> u32 {
    let cost = |c: u32| {
        let buckets = 1usize << (c - 1);
        let reduction = if buckets <= 512 { buckets * 5 / 2 } else { buckets * 19 / 10 };
        (bits + 1).div_ceil(c) as usize * (scalars + reduction)
    };
    (2..=digits::MAX_WINDOW).min_by_key(|&c| cost(c)).unwrap_or(digits::MAX_WINDOW)
}
