//! `file:` URLs: opened in place, regular files only, never blocking on a fifo or waking a device.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, fstatfs, openat};
use rustix::io::Errno;

use crate::beneath::open_beneath;
use crate::error::FetchError;
use crate::policy::FileAccess;
use crate::sink::Sink;
use crate::url::SourceUrl;

/// Bytes read between two looks at the cancel flag.
const CHUNK: usize = 1 << 20;

/// File systems whose files are made by the kernel as they are read: no size, or no end.
const KERNEL_FILE_SYSTEMS: [u64; 7] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x6367_7270, // cgroup2
    0x0027_e0eb, // cgroup
    0x7363_6673, // securityfs
];

/// Opens what a `file:` URL names, if the policy allows it and it is a regular file.
pub(crate) fn open(access: &FileAccess, url: &SourceUrl) -> Result<File, FetchError> {
    let path = url.file_path()?;
    let root;
    let open: Box<dyn Fn(OFlags) -> Result<OwnedFd, Errno>> = match access {
        FileAccess::Denied => return Err(FetchError::FilesDenied { url: url.redacted() }),
        FileAccess::Manifest { base } => {
            let full = base.join(&path);
            root = None;
            Box::new(move |flags| openat(CWD, &full, flags | OFlags::CLOEXEC, Mode::empty()))
        }
        FileAccess::Root(folder) => {
            refuse_leading_out(folder, &path, url)?;
            let handle = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| FetchError::Settings(format!("the file root {}: {errno}", folder.display())))?;
            root = Some(folder);
            let path = path.clone();
            Box::new(move |flags| open_beneath(&handle, &path, flags))
        }
    };
    let explain = |errno| match (errno, root) {
        (Errno::XDEV, Some(root)) => outside(root, url, "it, or a symbolic link on the way, leads out"),
        _ => explain(errno, url, access, &path),
    };
    // First without access, because merely opening a device can act (rewind a tape, start a watchdog) ...
    check_regular(&open(OFlags::PATH).map_err(explain)?, url)?;
    // ... then for real, and looked at again, since another file may stand there now.
    let file = open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(explain)?;
    check_regular(&file, url)?;
    Ok(File::from(file))
}

/// Reads an open file to its end into `sink`.
pub(crate) fn read(
    file: &File,
    url: &SourceUrl,
    sink: &mut Sink,
    step: &dyn Fn(u64, u64) -> bool,
) -> Result<(), FetchError> {
    let io = |source| FetchError::Io { url: url.redacted(), doing: "reading".to_owned(), source };
    let before = fstat(file).map_err(|errno| io(errno.into()))?;
    let length = u64::try_from(before.st_size).unwrap_or(0);
    sink.expect(Some(length))?;
    let mut buffer = vec![0; CHUNK.min(usize::try_from(length).unwrap_or(CHUNK).saturating_add(1))];
    let mut reader = file;
    loop {
        if step(sink.len(), length) {
            return Err(FetchError::Cancelled { url: url.redacted() });
        }
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => sink.push(&buffer[..count])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(io(error)),
        }
    }
    let after = fstat(file).map_err(|errno| io(errno.into()))?;
    let state = |stat: &rustix::fs::Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    if sink.len() != length || state(&before) != state(&after) {
        return Err(FetchError::Changed { url: url.redacted() });
    }
    Ok(())
}

fn refuse_leading_out(root: &Path, path: &Path, url: &SourceUrl) -> Result<(), FetchError> {
    for component in path.components() {
        match component {
            Component::RootDir | Component::Prefix(_) => {
                return Err(outside(root, url, "it is absolute; write it relative to that folder, as in file:NAME"));
            }
            Component::ParentDir => return Err(outside(root, url, "it contains ..")),
            Component::CurDir | Component::Normal(_) => {}
        }
    }
    Ok(())
}

fn check_regular(file: &OwnedFd, url: &SourceUrl) -> Result<(), FetchError> {
    let failed =
        |errno: Errno| FetchError::Io { url: url.redacted(), doing: "looking at it".to_owned(), source: errno.into() };
    let kind = match FileType::from_raw_mode(fstat(file).map_err(failed)?.st_mode) {
        FileType::RegularFile => {
            let magic = u64::try_from(fstatfs(file).map_err(failed)?.f_type).unwrap_or(0);
            if !KERNEL_FILE_SYSTEMS.contains(&magic) {
                return Ok(());
            }
            "a file of the kernel (such as those in /proc)"
        }
        FileType::Directory => "a folder",
        FileType::Fifo => "a fifo",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "a special file",
    };
    Err(FetchError::NotAFile { url: url.redacted(), kind })
}

fn outside(root: &Path, url: &SourceUrl, why: &'static str) -> FetchError {
    FetchError::OutsideRoot { url: url.redacted(), root: root.to_owned(), why }
}

fn explain(errno: Errno, url: &SourceUrl, access: &FileAccess, path: &Path) -> FetchError {
    let url = url.redacted();
    match errno {
        Errno::NOENT | Errno::NOTDIR => {
            let hint = match access {
                FileAccess::Manifest { base } if path.is_relative() => {
                    format!(": no file {}", base.join(path).display())
                }
                FileAccess::Manifest { .. } | FileAccess::Denied => format!(": no file {}", path.display()),
                FileAccess::Root(root) => format!(": no such file beneath the file root {}", root.display()),
            };
            FetchError::NotFound { url, hint }
        }
        Errno::ACCESS | Errno::PERM => FetchError::PermissionDenied {
            url,
            advice: "the user that runs this prover needs read access to the file and search access to its folders"
                .to_owned(),
        },
        errno => FetchError::Io { url, doing: "opening".to_owned(), source: errno.into() },
    }
}
