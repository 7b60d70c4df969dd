//! What the operating system says of this process.

/// Resident memory in bytes; `None` where /proc is not there or not as expected.
pub(crate) fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The `VmRSS` line of /proc/PID/status, which is in kB of 1024 bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t    4096 kB\n"), Some(4 << 20));
        assert_eq!(resident("Name:\tx\n"), None);
        assert_eq!(resident("VmRSS:\tmany kB\n"), None);
    }

    #[test]
    fn this_process_has_some() {
        let block = vec![1u8; 64 << 20];
        let with = resident_bytes().unwrap();
        assert!(with > 64 << 20, "{with}");
        drop(std::hint::black_box(block));
    }
}
