//! What a thread used between two points: CPU time, time on the run queue, page faults.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// What one thread used, and a device's own threads on its behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, user and system.
    pub cpu: Duration,
    /// CPU time of the device's own threads meanwhile; only a step of `prove_start` has it, and only on the CPU.
    pub pool: Duration,
    /// Time in which the thread was runnable and did not run: the CPU was taken by others.
    pub run_queue: Duration,
    /// Page faults, minor and major.
    pub page_faults: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.pool += other.pool;
        self.run_queue += other.run_queue;
        self.page_faults += other.page_faults;
    }
}

/// Reads the calling thread's usage. Make one per thread, on that thread.
#[derive(Debug)]
pub struct Meter {
    /// `/proc/thread-self/schedstat`, opened once; a kernel without it gives no run-queue times.
    schedstat: Option<File>,
}

impl Meter {
    /// The meter of the calling thread.
    pub fn new() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Totals since the thread's begin.
    pub fn read(&self) -> Usage {
        let run_queue = self.run_queue().unwrap_or_default();
        Usage { cpu: thread_cpu(), pool: Duration::ZERO, run_queue, page_faults: page_faults() }
    }

    /// What was used since `begin`.
    pub fn since(&self, begin: Usage) -> Usage {
        let end = self.read();
        Usage {
            cpu: end.cpu.saturating_sub(begin.cpu),
            pool: Duration::ZERO,
            run_queue: end.run_queue.saturating_sub(begin.run_queue),
            page_faults: end.page_faults.saturating_sub(begin.page_faults),
        }
    }

    /// schedstat holds: nanoseconds on the CPU, nanoseconds on the run queue, time slices.
    fn run_queue(&self) -> Option<Duration> {
        let mut text = [0_u8; 96];
        let read = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..read)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

/// Lowers the calling thread's scheduling priority, so that helpers do not take the CPU from the device. A refusal is
/// of no consequence.
pub fn lower_priority(nice: i32) {
    // SAFETY: setpriority takes no pointers; on Linux `who` 0 with PRIO_PROCESS is the calling thread.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
}

/// Gives free heap memory back to the system.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes no pointers and may be called from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    let ok = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } == 0;
    if !ok {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn page_faults() -> u64 {
    // SAFETY: rusage is plain data; all zeros is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage that outlives the call.
    let ok = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } == 0;
    if ok { u64::try_from(usage.ru_minflt + usage.ru_majflt).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_touched_memory_show() {
        let meter = Meter::new();
        let begin = meter.read();
        let mut memory = vec![0_u8; 64 << 20];
        for page in memory.chunks_mut(4096) {
            page[0] = 1;
        }
        let mut sum = std::hint::black_box(memory).iter().map(|&byte| u64::from(byte)).sum::<u64>();
        while meter.since(begin).cpu < Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_mul(3));
        }
        let used = meter.since(begin);
        assert!(used.cpu >= Duration::from_millis(5));
        assert!(used.page_faults > 0, "touching 64 MiB of fresh memory faults");
    }
}
