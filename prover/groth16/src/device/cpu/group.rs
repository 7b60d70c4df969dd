//! Multi-scalar multiplications whose tasks share steps: a bag of tasks, taken in batches by all threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use proofmill_kernels::curve::{Affine, CurveField, Xyzz};
use proofmill_kernels::msm::{Plan, Scratch};
use rayon::prelude::*;

use super::cache::Pool;

/// What a step should take: short enough that a Critical partition waits little (its limit is
/// [`crate::device::MAX_STEP`]), long enough that the end of a step, where threads wait for the last one, costs little.
pub(super) const STEP: Duration = Duration::from_millis(120);

/// Planned multi-scalar multiplications over points of one group.
pub(super) struct Group<F> {
    members: Vec<Member<F>>,
    /// Tasks run so far; tasks are numbered through the members.
    done: usize,
    /// How much longer tasks take than estimated, from the batches so far.
    pace: f64,
}

struct Member<F> {
    plan: Plan<F>,
    /// Results of the tasks run so far, in order.
    parts: Vec<Xyzz<F>>,
    /// Estimate of one task.
    task: Duration,
}

/// One multiplication to be planned: which scalar belongs to which point.
pub(super) struct Wanted<'a> {
    /// Number of points.
    pub points: usize,
    /// See [`proofmill_kernels::msm::Bases`].
    pub wires: Option<&'a [u32]>,
    /// Plain scalars.
    pub scalars: &'a [[u64; 4]],
    /// Bits of the scalar field's modulus.
    pub bits: u32,
}

impl<F: CurveField> Group<F> {
    /// Extracts the scalars' digits, in parallel on the current rayon pool.
    pub fn plan(wanted: &[Wanted<'_>]) -> Self {
        let member = |wanted: &Wanted<'_>| {
            let plan = Plan::new(wanted.points, wanted.wires, wanted.scalars, wanted.bits);
            let task = estimate::<F>(wanted.points) / plan.tasks().max(1) as u32;
            Member { parts: Vec::with_capacity(plan.tasks()), plan, task }
        };
        Self { members: wanted.par_iter().with_max_len(1).map(member).collect(), done: 0, pace: 1.0 }
    }

    /// Tasks in all.
    pub fn tasks(&self) -> usize {
        self.members.iter().map(|member| member.plan.tasks()).sum()
    }

    /// Whether all tasks have run.
    pub fn is_done(&self) -> bool {
        self.done == self.tasks()
    }

    /// Steps that remain, by estimate.
    pub fn steps(&self, threads: usize) -> usize {
        let tasks = self.members.iter().map(|member| member.task * (member.plan.tasks() - member.parts.len()) as u32);
        let left = tasks.sum::<Duration>().mul_f64(self.pace) / threads as u32;
        usize::from(!self.is_done()).max(left.div_duration_f64(STEP).round() as usize)
    }

    /// Runs as many tasks as fit a step, on the current rayon pool, whose threads take them one by one.
    pub fn step(&mut self, points: &[&[Affine<F>]], scratch: &Pool<Scratch<F>>) {
        let threads = rayon::current_num_threads();
        let (batch, estimate) = self.next_batch(threads);
        let begin = Instant::now();
        let next = AtomicUsize::new(0);
        let run = || {
            scratch.with(|scratch| {
                let mut parts = Vec::new();
                while let Some((at, &(member, task))) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| batch.get(at).map(|entry| (at, entry)))
                {
                    parts.push((at, self.members[member].plan.run(points[member], task, scratch)));
                }
                parts
            })
        };
        let mut parts: Vec<_> = rayon::broadcast(|_| run()).into_iter().flatten().collect();
        parts.sort_unstable_by_key(|(at, _)| *at);
        for ((_, part), (member, _)) in parts.into_iter().zip(&batch) {
            self.members[*member].parts.push(part);
        }
        self.done += batch.len();
        if !estimate.is_zero() {
            self.pace = begin.elapsed().div_duration_f64(estimate).clamp(0.1, 10.0);
        }
    }

    /// The results, in the order in which they were wanted.
    pub fn results(self) -> Vec<Xyzz<F>> {
        self.members.into_iter().map(|member| member.plan.combine(&member.parts)).collect()
    }

    /// The next tasks as (member, task), and their estimated wall time at a pace of 1. A batch is a number of tasks that the
    /// threads share evenly, so that they end together; what is hardly more than a step is not cut.
    fn next_batch(&self, threads: usize) -> (Vec<(usize, usize)>, Duration) {
        let whole = self.steps(threads) == 1;
        let mut batch = Vec::new();
        let mut work = Duration::ZERO;
        for (index, member) in self.members.iter().enumerate() {
            for task in member.parts.len()..member.plan.tasks() {
                let round_more = (work / threads as u32 + member.task).mul_f64(self.pace);
                if !whole && !batch.is_empty() && batch.len() % threads == 0 && round_more > STEP {
                    return (batch, work / threads as u32);
                }
                batch.push((index, task));
                work += member.task;
            }
        }
        (batch, work / threads as u32)
    }
}

/// CPU time of a multiplication with dense scalars, as if on one thread: about 19 windows' additions for each point.
fn estimate<F: CurveField>(points: usize) -> Duration {
    Duration::from_nanos((points * 20 * F::ADD_NS) as u64)
}
