//! Opening a path that must stay beneath a folder, symbolic links included.
//!
//! `openat2` with RESOLVE_BENEATH does it where the kernel (5.6) and the seccomp profile let it; otherwise the same rules
//! are kept by walking the path component by component on open folders, which no rename can lead astray.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat};
use rustix::io::Errno;

/// As many as the kernel follows.
const MAX_LINKS: u32 = 40;

/// Opens `path` (relative) beneath the open folder `root`. [`Errno::XDEV`] means that it leads out.
pub(crate) fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // The kernel answers EAGAIN when a rename somewhere made it unsure.
    for _ in 0..16 {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Missing, or forbidden by an older container runtime's seccomp profile (which says EPERM; a file without
            // read permission says EACCES).
            Err(Errno::NOSYS | Errno::PERM) => return walk_beneath(root, path, flags),
            result => return result,
        }
    }
    walk_beneath(root, path, flags)
}

/// The same without `openat2`.
fn walk_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Folders entered, outermost first: `..` goes back to one that is held open, never to what the disk says now.
    let mut entered: Vec<OwnedFd> = Vec::new();
    let mut todo: VecDeque<PathBuf> = pieces(path)?;
    let mut links = 0;
    loop {
        let here = entered.last().unwrap_or(root);
        let Some(piece) = todo.pop_front() else {
            // The path ended with a folder: `.`, `..`, or a link to one.
            return openat(here, ".", flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
        };
        if piece.as_os_str() == ".." {
            entered.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let kind = FileType::from_raw_mode(statat(here, &piece, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        if kind == FileType::Symlink {
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(here, &piece, Vec::new())?;
            for piece in pieces(Path::new(&OsString::from_vec(target.into_bytes())))?.into_iter().rev() {
                todo.push_front(piece);
            }
        } else if todo.is_empty() {
            // A link put in its place since gives ELOOP.
            return openat(here, &piece, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
        } else {
            let next = openat(here, &piece, folder, Mode::empty())?;
            entered.push(next);
        }
    }
}

/// The components of a relative path; an absolute one leads out.
fn pieces(path: &Path) -> Result<VecDeque<PathBuf>, Errno> {
    path.components()
        .filter(|component| *component != Component::CurDir)
        .map(|component| match component {
            Component::Normal(_) | Component::ParentDir => Ok(PathBuf::from(component.as_os_str())),
            _ => Err(Errno::XDEV),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(&OwnedFd, &Path, OFlags) -> Result<OwnedFd, Errno>;

    /// Both ways give the same answer everywhere.
    #[test]
    fn links_stay_beneath_by_both_ways() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("a/b/file"), "inside").unwrap();
        std::fs::write(root.join("top"), "inside").unwrap();
        for (target, link) in [
            ("../../secret", "a/out"),
            ("/etc/passwd", "absolute"),
            ("a/b", "folder"),
            ("../../top", "a/b/up"),
            ("../../../secret", "a/b/far"),
            ("loop", "loop"),
            ("..data/file", "projected"),
            ("a/b", "..data"),
            ("../root/top", "around"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let handle = OwnedFd::from(File::open(&root).unwrap());
        for (name, open) in [("openat2", open_beneath as Open), ("walk", walk_beneath as Open)] {
            let read = |path: &str| {
                open(&handle, Path::new(path), OFlags::RDONLY).map(|file| {
                    let mut text = String::new();
                    File::from(file).read_to_string(&mut text).unwrap();
                    text
                })
            };
            for path in ["top", "a/b/file", "./a/./b/file", "folder/file", "a/b/up", "projected", "folder/up"] {
                assert_eq!(read(path).as_deref(), Ok("inside"), "{name}: {path}");
            }
            for path in [
                "a/out",
                "absolute",
                "a/b/far",
                "around",
                "../secret",
                "/etc/passwd",
                "a/../../secret",
                "folder/../../../x",
            ] {
                assert_eq!(read(path), Err(Errno::XDEV), "{name}: {path}");
            }
            assert_eq!(read("loop"), Err(Errno::LOOP), "{name}");
            assert_eq!(read("none"), Err(Errno::NOENT), "{name}");
            assert_eq!(read("top/x"), Err(Errno::NOTDIR), "{name}");
        }
        // Magic links: the walk sees a link with an absolute text, openat2 knows them.
        let process = OwnedFd::from(File::open("/proc/self").unwrap());
        for open in [open_beneath as Open, walk_beneath as Open] {
            let link = open(&process, Path::new("root/etc/passwd"), OFlags::RDONLY);
            assert!(matches!(link, Err(Errno::XDEV | Errno::LOOP)), "{link:?}");
        }
    }
}
