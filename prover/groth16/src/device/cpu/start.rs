//! `prove_start` on the CPU: first the transforms, then the multi-scalar multiplications, freeing each input as soon as its
//! last reader is done. The largest inputs go first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_kernels::curve::{Affine, Xyzz};
use proofmill_kernels::field::PrimeField;

use super::group::{Group, STEP, Wanted};
use super::{CpuDevice, CpuSuite, HeldKey};
use crate::assignment::Groth16Assignment;
use crate::curve::Suite;
use crate::device::{Blinding, DeviceError, Phase, ProveStart, StartOutput, StepReport, WorkingSet};
use crate::key::view::KeyView;
use crate::prove::Sums;
use crate::prove::blinding::BlindingScalars;
use crate::reduction::{Evaluations, Pass, Transform};

/// A partition on its way.
pub(super) struct Start<S: CpuSuite> {
    device: CpuDevice,
    key: Arc<dyn HeldKey<S>>,
    transform: Arc<Transform<S>>,
    evaluations: Evaluations<S::Fr>,
    witness: Vec<[u64; 4]>,
    work: VecDeque<Work>,
    g1: Option<Group<S::Fq>>,
    g2: Option<Group<S::Fq2>>,
    sums: Sums<S>,
    /// What a step failed with: nothing can follow.
    failed: Option<DeviceError>,
}

/// What is left to do, in order; a multiplication may take several steps.
enum Work {
    Passes(Vec<Pass>),
    G1(Vec<Sum>),
    G2,
}

/// The multi-scalar multiplications in G1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    H,
    A,
    B1,
    C,
}

/// Nanoseconds per point and stage of a transform on one thread.
const NTT_NS: u64 = 6;
/// Up to this domain all multiplications in G1 share steps: fewer ends of steps, where threads wait for each other. Beyond
/// it the digits of all of them at once would be more memory than that is worth.
const SHARED_LOG: u32 = 16;
/// Up to this domain the multiplications with the witness share steps. Beyond it the plan for all of them would take
/// longer than a step.
const WITNESS_LOG: u32 = 20;
/// Bytes of digits and index per scalar, see [`proofmill_kernels::msm::Plan`].
const DIGIT_BYTES: u64 = 38;
/// Working memory of a thread, of G1 and G2 together.
const SCRATCH_BYTES: u64 = 12 << 20;

impl<S: CpuSuite> Start<S> {
    /// Checks that key and assignment fit and plans the steps.
    pub fn new(
        device: CpuDevice,
        key: Arc<dyn HeldKey<S>>,
        assignment: Groth16Assignment,
        blinding: &Blinding,
    ) -> Result<Self, DeviceError> {
        let view = key.view().ok_or_else(|| device.mismatch("the key is of another curve"))?;
        check(&view, &assignment).map_err(|message| device.mismatch(message))?;
        let transform = S::cache(&device)
            .transform(view.reduction, view.domain_log)
            .map_err(|error| device.mismatch(&error.to_string()))?;
        let blinding = BlindingScalars::draw::<S>(blinding)
            .map_err(|error| device.fault(&format!("the system's random generator failed: {error}")))?;
        let work = plan(&transform, view.domain_log, device.threads());
        let Groth16Assignment { witness, a, b } = assignment;
        let evaluations =
            Evaluations { a: bytemuck::cast_vec(a), b: bytemuck::cast_vec(b), c: Vec::new(), h: Vec::new() };
        let sums = Sums {
            a: Xyzz::INFINITY,
            b1: Xyzz::INFINITY,
            b2: Xyzz::INFINITY,
            c: Xyzz::INFINITY,
            h: Xyzz::INFINITY,
            blinding,
        };
        Ok(Self {
            device,
            key,
            transform,
            evaluations,
            witness: witness.values,
            work,
            g1: None,
            g2: None,
            sums,
            failed: None,
        })
    }

    /// Runs one step; true if the front of the work is done with it.
    fn advance(&mut self) -> bool {
        let Some(view) = self.key.view() else { return true };
        match self.work.front() {
            None => true,
            Some(Work::Passes(passes)) => {
                for pass in passes {
                    self.transform.run(*pass, &mut self.evaluations);
                }
                true
            }
            Some(Work::G1(members)) => {
                let begin = Instant::now();
                let group = self.g1.get_or_insert_with(|| {
                    let wanted: Vec<_> =
                        members.iter().map(|sum| sum.wanted(&view, &self.witness, &self.evaluations.h)).collect();
                    Group::plan(&wanted)
                });
                if members.contains(&Sum::H) {
                    self.evaluations.h = Vec::new();
                }
                let points: Vec<_> = members.iter().map(|sum| sum.points(&view)).collect();
                group.step(&points, &S::cache(&self.device).g1, STEP.saturating_sub(begin.elapsed()));
                if !group.is_done() {
                    return false;
                }
                let results = self.g1.take().map(Group::results).unwrap_or_default();
                for (sum, result) in members.iter().zip(results) {
                    *sum.place(&mut self.sums) = result;
                }
                true
            }
            Some(Work::G2) => {
                let begin = Instant::now();
                let group = self.g2.get_or_insert_with(|| {
                    let scalars = std::mem::take(&mut self.witness);
                    let (points, wires) = (view.b2.points.len(), Some(view.b2.wires));
                    Group::plan(&[Wanted { points, wires, scalars: &scalars, bits: bits::<S>() }])
                });
                group.step(&[view.b2.points], &S::cache(&self.device).g2, STEP.saturating_sub(begin.elapsed()));
                if !group.is_done() {
                    return false;
                }
                if let Some(result) = self.g2.take().and_then(|group| group.results().pop()) {
                    self.sums.b2 = result;
                }
                true
            }
        }
    }
}

impl<S: CpuSuite> ProveStart for Start<S> {
    fn next_phase(&self) -> Option<Phase> {
        self.work.front().map(Work::phase)
    }

    /// By estimate: what a multiplication takes is known once its scalars are.
    fn remaining(&self) -> usize {
        let threads = self.device.threads();
        let begun = self.g1.as_ref().map(|group| group.steps(threads));
        let begun = begun.or(self.g2.as_ref().map(|group| group.steps(threads)));
        match begun {
            Some(steps) => steps + self.work.len() - 1,
            None => self.work.len(),
        }
    }

    fn step(&mut self) -> Result<StepReport, DeviceError> {
        let Some(phase) = self.next_phase() else { return Ok(StepReport::Spans(Vec::new())) };
        let device = self.device.clone();
        match device.guarded(|| self.advance()) {
            Ok(done) => {
                if done {
                    self.work.pop_front();
                }
                Ok(StepReport::Busy(phase))
            }
            Err(error) => {
                // Whatever state it left must not become a proof.
                self.work.clear();
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    fn into_output(self: Box<Self>) -> Result<StartOutput, DeviceError> {
        match self.failed {
            Some(error) => Err(error),
            None if !self.work.is_empty() => Err(self.device.mismatch("not all steps have run")),
            None => Ok(StartOutput::Groth16(Box::new(S::sums(self.sums)))),
        }
    }
}

impl Work {
    const fn phase(&self) -> Phase {
        match self {
            Self::Passes(_) => Phase::Ntt,
            Self::G1(_) => Phase::MsmG1,
            Self::G2 => Phase::MsmG2,
        }
    }
}

impl Sum {
    fn points<'a, S: Suite>(self, key: &KeyView<'a, S>) -> &'a [Affine<S::Fq>] {
        match self {
            Self::H => key.h,
            Self::A => key.a.points,
            Self::B1 => key.b1.points,
            Self::C => key.c.points,
        }
    }

    fn wanted<'a, S: Suite>(
        self,
        key: &KeyView<'a, S>,
        witness: &'a [[u64; 4]],
        quotient: &'a [[u64; 4]],
    ) -> Wanted<'a> {
        let wires = match self {
            Self::H => None,
            Self::A => Some(key.a.wires),
            Self::B1 => Some(key.b1.wires),
            Self::C => Some(key.c.wires),
        };
        let scalars = if self == Self::H { quotient } else { witness };
        Wanted { points: self.points(key).len(), wires, scalars, bits: bits::<S>() }
    }

    fn place<S: Suite>(self, sums: &mut Sums<S>) -> &mut Xyzz<S::Fq> {
        match self {
            Self::H => &mut sums.h,
            Self::A => &mut sums.a,
            Self::B1 => &mut sums.b1,
            Self::C => &mut sums.c,
        }
    }
}

/// What a partition takes. Digits count only as far as they exceed the evaluations, whose memory is free by then.
pub(super) fn working_set<S: Suite>(key: &KeyView<'_, S>, threads: usize) -> WorkingSet {
    let domain = 1u64 << key.domain_log;
    let evaluations = 3 * 32 * domain;
    let witness_sums = (key.a.points.len() + key.b1.points.len() + key.c.points.len()) as u64;
    let digits =
        DIGIT_BYTES * if key.domain_log <= SHARED_LOG { domain + witness_sums } else { domain.max(witness_sums) };
    let host = 32 * key.variables as u64
        + Transform::<S>::table_bytes(key.domain_log)
        + digits.saturating_sub(evaluations)
        + SCRATCH_BYTES * threads as u64;
    WorkingSet { evaluations, host, device: 0 }
}

/// Why an assignment cannot be the key's.
fn check<S: Suite>(key: &KeyView<'_, S>, assignment: &Groth16Assignment) -> Result<(), &'static str> {
    let domain = 1usize << key.domain_log;
    if assignment.witness.values.len() != key.variables {
        return Err("the witness has another number of values than the key has wires");
    }
    if assignment.a.len() != domain || assignment.b.len() != domain || key.h.len() != domain {
        return Err("the assignment was made for another domain than the key's");
    }
    Ok(())
}

/// The steps: as few as possible with none much above [`STEP`].
fn plan<S: Suite>(transform: &Transform<S>, log: u32, threads: usize) -> VecDeque<Work> {
    let mut work = VecDeque::new();
    let mut passes = Vec::new();
    let mut time = Duration::ZERO;
    for pass in transform.passes() {
        let stage = Duration::from_nanos(NTT_NS << log) / threads as u32;
        let cost = stage.mul_f64(transform.stages(pass));
        if !passes.is_empty() && time + cost > STEP {
            work.push_back(Work::Passes(std::mem::take(&mut passes)));
            time = Duration::ZERO;
        }
        passes.push(pass);
        time += cost;
    }
    work.push_back(Work::Passes(passes));
    let groups: &[&[Sum]] = if log <= SHARED_LOG {
        &[&[Sum::H, Sum::A, Sum::C, Sum::B1]]
    } else if log <= WITNESS_LOG {
        &[&[Sum::H], &[Sum::A, Sum::C, Sum::B1]]
    } else {
        &[&[Sum::H], &[Sum::A], &[Sum::C], &[Sum::B1]]
    };
    work.extend(groups.iter().map(|group| Work::G1(group.to_vec())));
    work.push_back(Work::G2);
    work
}

/// Bits of the scalar field's modulus.
fn bits<S: Suite>() -> u32 {
    256 - S::Fr::MODULUS[3].leading_zeros()
}
