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
    /// The longest first: threads that take one after the other end together.
    tasks: Vec<Task>,
    of: PhantomData<F>,
}

struct Task {
    part: Part,
    additions: usize,
}

/// What a task sums.
enum Part {
    /// Some of the ones, plainly.
    Ones(Range<usize>),
    /// Some blocks' digits of one window, as far as they fall into a range of its buckets.
    Window { window: u32, blocks: Range<usize>, buckets: Range<usize> },
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

    /// Runs a task: any order, any thread, about 10 ms; at most about 0.15 s, if nearly all scalars are alike.
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
        Self::with_task_additions(points, wires, scalars, bits, TASK_NS / F::ADD_NS)
    }

    /// [`Self::new`] with tasks of about so many additions, as far as the scalars allow it.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn with_task_additions(
        points: usize,
        wires: Option<&[u32]>,
        scalars: &[[u64; 4]],
        bits: u32,
        additions: usize,
    ) -> Self {
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
        let fill = |(block, (rows, counts)): (usize, (&mut [i16], &mut [[u32; SLICES]]))| {
            let members = &index[block * BLOCK..index.len().min((block + 1) * BLOCK)];
            for (k, &i) in members.iter().enumerate() {
                let (s, negative) = digits::shorter::<F>(scalar(i));
                for (w, d) in recoding.digits(&s).enumerate() {
                    rows[w * members.len() + k] = if negative { -d } else { d };
                }
            }
            for (row, counts) in rows.chunks_exact(members.len()).zip(counts) {
                for d in row.iter().filter(|d| **d != 0) {
                    counts[slice_of(*d, window)] += 1;
                }
            }
        };
        let rows = (BLOCK * windows as usize).max(1);
        let mut counts = vec![[0; SLICES]; index.len().div_ceil(BLOCK) * windows as usize];
        let blocks = digits.par_chunks_mut(rows).zip(counts.par_chunks_mut(windows.max(1) as usize)).enumerate();
        // A few blocks are filled faster than threads are woken.
        blocks.with_min_len(4).for_each(fill);
        let mut tasks = ones_tasks(ones.len(), additions);
        for blocks in cut(index.len().div_ceil(BLOCK), (max_entries::<F>() / BLOCK).max(1)) {
            for w in 0..windows {
                let mut slices = [0; SLICES];
                for block in blocks.clone() {
                    let counts = &counts[block * windows as usize + w as usize];
                    slices.iter_mut().zip(counts).for_each(|(sum, n)| *sum += *n as usize);
                }
                tasks.extend(window_tasks(w, &blocks, &slices, window, additions));
            }
        }
        tasks.sort_by_key(|task| core::cmp::Reverse(task.additions));
        Self { window, windows, index, digits, ones, tasks, of: PhantomData }
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// About how many additions of points a task takes. Tasks are in descending order of it.
    ///
    /// # Panics
    /// When `task` is not below [`Self::tasks`].
    pub fn additions(&self, task: usize) -> usize {
        self.tasks[task].additions
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
        let mut sums = vec![Xyzz::INFINITY; self.windows as usize];
        let mut ones = Xyzz::INFINITY;
        for (task, part) in self.tasks.iter().zip(parts) {
            let sum = match task.part {
                Part::Ones(_) => &mut ones,
                Part::Window { window, .. } => &mut sums[window as usize],
            };
            *sum = sum.add(part);
        }
        let shifted = |r: Xyzz<F>| (0..self.window).fold(r, |r, _| r.double());
        sums.iter().rev().fold(Xyzz::INFINITY, |r, sum| shifted(r).add(sum)).add(&ones)
    }

    /// On the backend `G` of `F`.
    pub(super) fn run_on<G: Field>(&self, points: &[Affine<G>], task: usize, sums: &mut Buckets<G>) -> Xyzz<G> {
        match &self.tasks[task].part {
            Part::Ones(range) => Xyzz::from_affine(&sums.sum(points, &self.ones[range.clone()])),
            Part::Window { window, blocks, buckets } => sums.weighted_sum(points, buckets.clone(), || {
                blocks.clone().flat_map(|block| {
                    let members = &self.index[block * BLOCK..self.index.len().min((block + 1) * BLOCK)];
                    let at = block * BLOCK * self.windows as usize + *window as usize * members.len();
                    self.digits[at..at + members.len()].iter().zip(members).map(|(&d, &i)| (d as i32, i))
                })
            }),
        }
    }
}

impl<F: Field> Default for Scratch<F> {
    fn default() -> Self {
        Self { adx: Buckets::default(), portable: Buckets::default() }
    }
}

/// Scalars whose digits lie together, window by window.
const BLOCK: usize = 4096;
/// A window's buckets are counted, and shared out among tasks, in this many equal slices.
const SLICES: usize = 4;
/// Nanoseconds of one chunk of scalars in one window: more chunks cost more reductions of buckets.
const CHUNK_NS: usize = 120_000_000;
/// Nanoseconds that a task should take: long enough that passing over the digits of other tasks costs nothing beside it.
const TASK_NS: usize = 12_000_000;

fn max_entries<F: CurveField>() -> usize {
    (CHUNK_NS / F::ADD_NS) & !(BLOCK - 1)
}

/// Which slice of its window's buckets a digit other than 0 falls into.
fn slice_of(digit: i16, window: u32) -> usize {
    ((digit.unsigned_abs() as usize - 1) * SLICES) >> (window - 1)
}

/// Tasks that sum `n` ones.
fn ones_tasks(n: usize, task: usize) -> Vec<Task> {
    let ranges = cut(n, task.max(1)).into_iter();
    ranges.map(|range| Task { additions: range.len(), part: Part::Ones(range) }).collect()
}

/// Tasks of about `task` additions that sum some blocks' digits of one window, from the number of them in each slice of its
/// buckets.
fn window_tasks(window: u32, blocks: &Range<usize>, slices: &[usize; SLICES], bits: u32, task: usize) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    // The first bucket whose slice_of is `slice` or above.
    let border = |slice: usize| (slice << (bits - 1)).div_ceil(SLICES);
    for (slice, entries) in slices.iter().enumerate().filter(|(_, entries)| **entries > 0) {
        let additions = entries + reduction(border(slice + 1) - border(slice)).min(2 * entries);
        match tasks.last_mut() {
            Some(Task { part: Part::Window { buckets, .. }, additions: sum }) if *sum + additions <= task => {
                buckets.end = border(slice + 1);
                *sum += additions;
            }
            _ => {
                let buckets = border(slice)..border(slice + 1);
                tasks.push(Task { part: Part::Window { window, blocks: blocks.clone(), buckets }, additions });
            }
        }
    }
    tasks
}

/// `n` blocks in as few equal ranges of at most `most` as possible.
fn cut(n: usize, most: usize) -> Vec<Range<usize>> {
    let parts = n.div_ceil(most);
    (0..parts).map(|i| i * n / parts..(i + 1) * n / parts).collect()
}

/// The window with the least additions.
fn best_window(scalars: usize, bits: u32) -> u32 {
    let cost = |c: u32| (bits + 1).div_ceil(c) as usize * (scalars + reduction(1 << (c - 1)));
    (2..=digits::MAX_WINDOW).min_by_key(|&c| cost(c)).unwrap_or(digits::MAX_WINDOW)
}

/// Additions that the weighted sum of buckets takes: about 1.9 per bucket (2.5 as running sums, which pay no batches'
/// overhead up to 512 buckets).
fn reduction(buckets: usize) -> usize {
    if buckets <= 512 { buckets * 5 / 2 } else { buckets * 19 / 10 }
}
