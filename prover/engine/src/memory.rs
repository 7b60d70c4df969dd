//! How much memory the engine may take: what the cgroup and the machine leave, less a margin.

use std::fs;
use std::path::{Path, PathBuf};

/// Kept for everything that no budget counts: code, stacks, allocator, page tables.
const MIN_MARGIN: u64 = 512 << 20;

/// A limit at or above this is cgroup v1's way to say none (the largest page-aligned i64).
const UNLIMITED: u64 = 1 << 62;

/// Why the memory could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// `/proc/meminfo` could not be read or understood.
    #[error("cannot tell how much memory there is: {path}: {reason}; give the budget with --memory")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The margin alone is more than there is.
    #[error(
        "only {available} bytes of memory are available, and {margin} are kept as a margin; free memory, raise the \
         container's limit, or give the budget with --memory"
    )]
    TooLittle {
        /// What is there.
        available: u64,
        /// What must stay free.
        margin: u64,
    },
}

/// The budget of this process on this machine.
pub fn detect() -> Result<u64, MemoryError> {
    detect_in(Path::new("/"))
}

/// As [`detect`], with `proc` and `sys` looked up beneath `root`.
pub fn detect_in(root: &Path) -> Result<u64, MemoryError> {
    let available = available(root)?;
    let available = cgroup_limit(root).map_or(available, |limit| limit.min(available));
    let margin = MIN_MARGIN.max(available / 10);
    match available.checked_sub(margin) {
        Some(budget) if budget > 0 => Ok(budget),
        _ => Err(MemoryError::TooLittle { available, margin }),
    }
}

/// `MemAvailable` of `/proc/meminfo`.
fn available(root: &Path) -> Result<u64, MemoryError> {
    let path = root.join("proc/meminfo");
    let unknown = |reason: String| MemoryError::Unknown { path: path.clone(), reason };
    let text = fs::read_to_string(&path).map_err(|error| unknown(error.to_string()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).ok_or_else(|| unknown("it has no MemAvailable line".to_owned()))
}

/// The smallest effective limit of the process's cgroups, v1 and v2.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = own.lines().filter_map(|line| {
        // hierarchy:controllers:path
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        if controllers.is_empty() {
            v2_limit(root, path)
        } else if controllers.split(',').any(|controller| controller == "memory") {
            v1_limit(root, path)
        } else {
            None
        }
    });
    limits.min()
}

/// v2: the least `memory.max` of the cgroup and its visible ancestors. In a container with a cgroup namespace of its own
/// the path is `/`, or may begin with `/..` if the process was moved; the mount's root is then the nearest visible one.
fn v2_limit(root: &Path, path: &str) -> Option<u64> {
    let mounts = [root.join("sys/fs/cgroup"), root.join("sys/fs/cgroup/unified")];
    mounts
        .iter()
        .flat_map(|mount| ancestors(mount, path))
        .filter_map(|folder| limit_in(&folder.join("memory.max")))
        .min()
}

/// v1: `hierarchical_memory_limit` already counts the ancestors. A container sees its own cgroup at the mount's root,
/// while `/proc/self/cgroup` may show the host's path.
fn v1_limit(root: &Path, path: &str) -> Option<u64> {
    let folders = ancestors(&root.join("sys/fs/cgroup/memory"), path);
    let limits = folders.into_iter().filter_map(|folder| {
        let stat = fs::read_to_string(folder.join("memory.stat")).ok();
        let hierarchical = stat.as_deref().and_then(|stat| {
            stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit ")?.trim().parse::<u64>().ok())
        });
        let own = limit_in(&folder.join("memory.limit_in_bytes"));
        [hierarchical, own].into_iter().flatten().filter(|&limit| limit < UNLIMITED).min()
    });
    limits.min()
}

/// The folder of `path` beneath `mount` and all folders above it up to the mount.
fn ancestors(mount: &Path, path: &str) -> Vec<PathBuf> {
    let mut folders = vec![mount.to_owned()];
    let mut folder = mount.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            break;
        }
        folder = folder.join(part);
        folders.push(folder.clone());
    }
    folders
}

/// A number of bytes; `max`, v1's "none" and a missing file are no limit.
fn limit_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse::<u64>().ok().filter(|&limit| limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn mk_root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable:   16777216 kB\n");

    #[test]
    fn without_a_cgroup_the_machine_counts() {
        let root = mk_root(&[MEMINFO]);
        assert_eq!(detect_in(root.path()).unwrap(), 16 * GIB - 16 * GIB / 10);
    }

    #[test]
    fn v2_takes_the_least_of_all_visible_ancestors() {
        let root = mk_root(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/kubepods/pod1/prover\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/kubepods/memory.max", "8589934592\n"),
            ("sys/fs/cgroup/kubepods/pod1/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/kubepods/pod1/prover/memory.max", "max\n"),
        ]);
        assert_eq!(detect_in(root.path()).unwrap(), 4 * GIB - MIN_MARGIN);
    }

    #[test]
    fn v2_in_a_namespace_of_its_own() {
        let root =
            mk_root(&[MEMINFO, ("proc/self/cgroup", "0::/../other\n"), ("sys/fs/cgroup/memory.max", "2147483648\n")]);
        assert_eq!(detect_in(root.path()).unwrap(), 2 * GIB - MIN_MARGIN);
    }

    #[test]
    fn v1_takes_the_hierarchical_limit() {
        let root = mk_root(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.stat", "cache 1\nhierarchical_memory_limit 3221225472\n"),
        ]);
        assert_eq!(detect_in(root.path()).unwrap(), 3 * GIB - MIN_MARGIN);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let root = mk_root(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 9223372036854771712\n"),
        ]);
        assert_eq!(detect_in(root.path()).unwrap(), 16 * GIB - 16 * GIB / 10);
    }

    #[test]
    fn too_little_and_unreadable_are_errors_that_say_what_to_do() {
        let small = mk_root(&[("proc/meminfo", "MemAvailable: 524288 kB\n")]);
        assert!(matches!(detect_in(small.path()), Err(MemoryError::TooLittle { .. })));
        let broken = mk_root(&[("proc/meminfo", "nothing\n")]);
        assert!(detect_in(broken.path()).unwrap_err().to_string().contains("--memory"));
    }

    #[test]
    fn this_machine_has_a_budget() {
        assert!(detect().unwrap() > 0);
    }
}
