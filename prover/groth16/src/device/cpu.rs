//! The CPU as a device: one lease over a pool of N threads.
//!
//! | module | what |
//! |---|---|
//! | `start` | a partition on its way: the steps of `prove_start` |
//! | `group` | multi-scalar multiplications whose tasks share steps |
//! | `cache` | working memory and tables kept between partitions |
//!
//! Limit: on few threads a step takes longer than [`super::MAX_STEP`] from a domain of about 2^23 on, where the products of
//! evaluations and the digits of one multiplication's scalars are one step each. Between partitions the pool keeps its
//! threads' working memory, a few MB each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::ThreadPool;

use super::{Blinding, Device, DeviceError, ProveStart, StartOutput, WorkingSet};
use crate::assignment::{Assignment, Groth16Assignment};
use crate::curve::{Bls12381, Bn254, Suite};
use crate::key::view::KeyView;
use crate::key::{CircuitKey, ProvingKey};
use crate::proof::Proof;
use crate::prove::{self, PartialSums, Sums};
use cache::Cache;
use start::Start;

mod cache;
mod group;
mod start;

/// The CPU. Clones share one pool of threads.
#[derive(Clone)]
pub struct CpuDevice(Arc<Inner>);

struct Inner {
    id: String,
    pool: ThreadPool,
    clocks: Clocks,
    bn254: Cache<Bn254>,
    bls12381: Cache<Bls12381>,
}

/// The CPU clocks of the pool's threads.
type Clocks = Arc<Mutex<Vec<libc::clockid_t>>>;

/// A key of suite `S` that a partition holds while it is proved.
pub trait HeldKey<S: Suite>: Send + Sync {
    /// The key's slices; `None` if it is of another curve.
    fn view(&self) -> Option<KeyView<'_, S>>;
}

/// A suite that the CPU device has working memory for: both curves.
pub trait CpuSuite: Suite + sealed::HasCache {}

mod sealed {
    use super::cache::Cache;
    use super::{CpuDevice, PartialSums, Suite, Sums};

    /// Where a suite's things are in types that know both.
    pub trait HasCache: Suite {
        fn cache(device: &CpuDevice) -> &Cache<Self>;
        fn sums(sums: Sums<Self>) -> PartialSums;
    }
}

impl CpuDevice {
    /// A pool of `threads` threads called `prove-N`. The error is the system's, when it gives no threads.
    pub fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let clocks = Clocks::default();
        let started = Arc::clone(&clocks);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|index| format!("prove-{index}"))
            .start_handler(move |_| {
                started.lock().unwrap_or_else(PoisonError::into_inner).extend(own_cpu_clock());
            })
            .build()?;
        Ok(Self(Arc::new(Inner {
            id: "cpu".into(),
            pool,
            clocks,
            bn254: Cache::default(),
            bls12381: Cache::default(),
        })))
    }

    /// How many threads the pool has.
    pub fn threads(&self) -> usize {
        self.0.pool.current_num_threads()
    }

    /// [`Device::prepare`] for a key that is not in a file.
    pub fn prepare_held<S: CpuSuite>(
        &self,
        key: Arc<dyn HeldKey<S>>,
        assignment: Groth16Assignment,
        blinding: &Blinding,
    ) -> Result<Box<dyn ProveStart>, DeviceError> {
        Ok(Box::new(Start::<S>::new(self.clone(), key, assignment, blinding)?))
    }

    /// Runs `work` on the pool; a panic in it (there should be none) is a fault of the device, never the process's end.
    fn guarded<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, DeviceError> {
        catch_unwind(AssertUnwindSafe(|| self.0.pool.install(work)))
            .map_err(|panic| self.fault(&panic_message(&*panic)))
    }

    fn fault(&self, message: &str) -> DeviceError {
        DeviceError::Fault { device: self.0.id.clone(), message: message.to_owned() }
    }

    fn mismatch(&self, message: &str) -> DeviceError {
        DeviceError::Mismatch { device: self.0.id.clone(), message: message.to_owned() }
    }
}

impl Device for CpuDevice {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn memory(&self) -> Option<u64> {
        None
    }

    fn working_set(&self, key: &CircuitKey) -> WorkingSet {
        let CircuitKey::Groth16(key) = key else { return WorkingSet::default() };
        match &**key {
            ProvingKey::Bn254(key) => start::working_set(&key.view(), self.threads()),
            ProvingKey::Bls12381(key) => start::working_set(&key.view(), self.threads()),
        }
    }

    fn cpu_time(&self) -> Option<Duration> {
        let clocks = self.0.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        Some(clocks.iter().map(|&clock| read_clock(clock)).sum())
    }

    fn prepare(
        &self,
        key: &CircuitKey,
        assignment: Assignment,
        blinding: Blinding,
    ) -> Result<Box<dyn ProveStart>, DeviceError> {
        let (CircuitKey::Groth16(key), Assignment::Groth16(assignment)) = (key, assignment) else {
            return Err(self.mismatch("it proves Groth16 circuits; simulated ones need `--device simulated`"));
        };
        match &**key {
            ProvingKey::Bn254(_) => self.prepare_held::<Bn254>(Arc::clone(key) as _, assignment, &blinding),
            ProvingKey::Bls12381(_) => self.prepare_held::<Bls12381>(Arc::clone(key) as _, assignment, &blinding),
        }
    }

    fn prove_finish(&self, key: &CircuitKey, output: StartOutput) -> Result<Proof, DeviceError> {
        let (CircuitKey::Groth16(key), StartOutput::Groth16(sums)) = (key, output) else {
            return Err(self.mismatch("it finishes Groth16 proofs only"));
        };
        // On the caller's thread: this needs no lease, so it must not wait for the pool.
        let points = catch_unwind(AssertUnwindSafe(|| match (&**key, &*sums) {
            (ProvingKey::Bn254(key), PartialSums::Bn254(sums)) => Some(prove::finish(&key.view(), sums).to_proof()),
            (ProvingKey::Bls12381(key), PartialSums::Bls12381(sums)) => {
                Some(prove::finish(&key.view(), sums).to_proof())
            }
            _ => None,
        }));
        match points {
            Ok(Some(proof)) => Ok(proof),
            Ok(None) => Err(self.mismatch("key and sums are of different curves")),
            Err(panic) => Err(self.fault(&panic_message(&*panic))),
        }
    }
}

macro_rules! suite {
    ($suite:ident, $field:ident) => {
        impl HeldKey<$suite> for ProvingKey {
            fn view(&self) -> Option<KeyView<'_, $suite>> {
                match self {
                    Self::$suite(key) => Some(key.view()),
                    _ => None,
                }
            }
        }

        impl sealed::HasCache for $suite {
            fn cache(device: &CpuDevice) -> &Cache<Self> {
                &device.0.$field
            }

            fn sums(sums: Sums<Self>) -> PartialSums {
                PartialSums::$suite(sums)
            }
        }

        impl CpuSuite for $suite {}
    };
}
suite!(Bn254, bn254);
suite!(Bls12381, bls12381);

/// The clock of the calling thread's CPU time, readable by the whole process while the thread lives.
fn own_cpu_clock() -> Option<libc::clockid_t> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the calling thread lives, and `clock` is a valid place for its clock's number.
    let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } != 0;
    (!failed).then_some(clock)
}

/// A clock's time; zero for one whose thread is gone.
fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call; a clock that is no more is an error, not a fault.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) } != 0;
    if failed {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// What a panic said, if it said anything.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("a computation stopped without a message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_cpu_time_is_that_of_all_its_threads() {
        let device = CpuDevice::new(2).unwrap();
        let before = device.cpu_time().unwrap();
        let burn = Duration::from_millis(20);
        device.0.pool.broadcast(|_| {
            let clock = own_cpu_clock().unwrap();
            let begin = read_clock(clock);
            let mut number = 1_u64;
            while read_clock(clock) - begin < burn {
                number = std::hint::black_box(number.wrapping_mul(3));
            }
        });
        let used = device.cpu_time().unwrap() - before;
        assert!(used >= 2 * burn, "both threads count: {used:?}");
    }
}
