//! Multi-scalar multiplications whose tasks share steps: a bag of tasks, taken in batches by all threads.

use std::cmp::Reverse;
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
    /// All members' tasks as (member, task), the longest first: threads that take one after the other end together.
    tasks: Vec<(usize, usize)>,
    /// Tasks run so far.
    done: usize,
    /// How much longer tasks take than estimated, from the batches so far.
    pace: f64,
}

struct Member<F> {
    plan: Plan<F>,
    /// Results of the tasks run so far.
    parts: Vec<Xyzz<F>>,
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
            Member { parts: vec![Xyzz::INFINITY; plan.tasks()], plan }
        };
        let members: Vec<Member<F>> = wanted.par_iter().with_max_len(1).map(member).collect();
        let numbered = members.iter().enumerate();
        let mut tasks: Vec<_> =
            numbered.flat_map(|(at, member)| (0..member.plan.tasks()).map(move |t| (at, t))).collect();
        tasks.sort_by_key(|(member, task)| Reverse(members[*member].plan.additions(*task)));
        Self { members, tasks, done: 0, pace: 1.0 }
    }

    /// Whether all tasks have run.
    pub fn is_done(&self) -> bool {
        self.done == self.tasks.len()
    }

    /// Steps that remain, by estimate.
    pub fn steps(&self, threads: usize) -> usize {
        let left = self.estimate(&self.tasks[self.done..], threads).mul_f64(self.pace);
        usize::from(!self.is_done()).max(left.div_duration_f64(STEP).round() as usize)
    }

    /// Runs as many tasks as fit `time` but at least one a thread, on the current rayon pool, whose threads take them one by
    /// one.
    pub fn step(&mut self, points: &[&[Affine<F>]], scratch: &Pool<Scratch<F>>, time: Duration) {
        let threads = rayon::current_num_threads();
        let batch = self.done..self.batch_end(threads, time);
        let estimate = self.estimate(&self.tasks[batch.clone()], threads);
        let begin = Instant::now();
        let next = AtomicUsize::new(batch.start);
        let run = || {
            scratch.with(|scratch| {
                let mut parts = Vec::new();
                let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| batch.contains(at));
                while let Some((member, task)) = take().map(|at| self.tasks[at]) {
                    parts.push((member, task, self.members[member].plan.run(points[member], task, scratch)));
                }
                parts
            })
        };
        let parts = rayon::broadcast(|_| run());
        for (member, task, part) in parts.into_iter().flatten() {
            self.members[member].parts[task] = part;
        }
        self.done = batch.end;
        if !estimate.is_zero() {
            self.pace = begin.elapsed().div_duration_f64(estimate).clamp(0.1, 10.0);
        }
    }

    /// The results, in the order in which they were wanted.
    pub fn results(self) -> Vec<Xyzz<F>> {
        self.members.into_iter().map(|member| member.plan.combine(&member.parts)).collect()
    }

    /// Where the tasks end that are to run next, in `time`. Threads share them evenly; what is hardly more than a step is
    /// not cut.
    fn batch_end(&self, threads: usize, time: Duration) -> usize {
        if self.steps(threads) == 1 && time > STEP / 2 {
            return self.tasks.len();
        }
        let mut end = self.done;
        let mut work = Duration::ZERO;
        for round in self.tasks[self.done..].chunks(threads) {
            work += self.estimate(round, threads);
            if end > self.done && work.mul_f64(self.pace) > time {
                break;
            }
            end += round.len();
        }
        end
    }

    /// Wall time of tasks at a pace of 1.
    fn estimate(&self, tasks: &[(usize, usize)], threads: usize) -> Duration {
        let additions: usize = tasks.iter().map(|(member, task)| self.members[*member].plan.additions(*task)).sum();
        Duration::from_nanos((additions * F::ADD_NS / threads) as u64)
    }
}
