//! `file:` URLs of every good and bad sort.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proofmill_sources::policy::FileAccess;
use proofmill_sources::{ErrorClass, FetchError, Fetched, Fetcher, Policy, resolve};

const ABC: [u8; 32] = [
    0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61,
    0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
];

fn run(base: &Path) -> Fetcher {
    Fetcher::new(Policy::run(base)).unwrap()
}

fn serve(root: &Path) -> Fetcher {
    Fetcher::new(Policy::serve(Some(root.to_owned()))).unwrap()
}

fn get(fetcher: &Fetcher, url: &str) -> Result<Vec<u8>, FetchError> {
    fetcher.fetch_bytes(url, None, 1 << 20, &|| false, &|_, _| {})
}

fn file(fetcher: &Fetcher, url: &str, limit: u64) -> Result<Fetched, FetchError> {
    fetcher.fetch_file(url, None, limit, Path::new("/nowhere"), &|| false, &|_, _| {})
}

/// The same refusal by every call, at once.
fn refused(fetcher: &Fetcher, url: &str) -> FetchError {
    let start = Instant::now();
    let error = get(fetcher, url).expect_err(url);
    assert_eq!(file(fetcher, url, 1 << 20).expect_err(url).to_string(), error.to_string());
    assert_eq!(fetcher.open_local(url).expect_err(url).to_string(), error.to_string());
    assert!(start.elapsed() < Duration::from_secs(2), "{url}: {:?}", start.elapsed());
    error
}

#[test]
fn a_manifests_own_files_are_read_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("a job%");
    std::fs::create_dir(&jobs).unwrap();
    std::fs::write(jobs.join("in put.json"), "abc").unwrap();
    std::fs::write(dir.path().join("up"), "up").unwrap();
    let fetcher = run(&jobs);
    assert_eq!(get(&fetcher, "file:in%20put.json").unwrap(), b"abc");
    assert_eq!(get(&fetcher, "file:../up").unwrap(), b"up");
    assert_eq!(get(&fetcher, &resolve("file:in put.json", &jobs).unwrap()).unwrap(), b"abc");
    // Another base does not matter once resolved.
    assert_eq!(get(&run(Path::new("/")), &resolve("file:../up", &jobs).unwrap()).unwrap(), b"up");
    symlink("../up", jobs.join("link")).unwrap();
    assert_eq!(get(&fetcher, "file:link").unwrap(), b"up");
    assert!(fetcher.is_local("file:x") && !fetcher.is_local("https://h/x"));
}

#[test]
fn digests_are_checked_and_both_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("abc"), "abc").unwrap();
    let fetcher = serve(dir.path());
    let bytes = fetcher.fetch_bytes("file:abc", Some(ABC), 3, &|| false, &|_, _| {}).unwrap();
    assert_eq!(bytes, b"abc");
    let mut fetched =
        fetcher.fetch_file("file:abc", Some(ABC), 3, Path::new("/nowhere"), &|| false, &|_, _| {}).unwrap();
    let mut text = String::new();
    fetched.file.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), fetched.sha256, fetched.len, fetched.in_place), ("abc", ABC, 3, true));
    let error = fetcher.fetch_bytes("file:abc", Some([7; 32]), 3, &|| false, &|_, _| {}).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Content);
    let text = error.to_string();
    assert!(text.contains("ba7816bf8f01cfea") && text.contains("0707070707"), "{text}");
}

#[test]
fn serve_stays_beneath_its_root() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(dir.path().join("secret"), "secret").unwrap();
    std::fs::write(root.join("sub/fine"), "fine").unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("sub/fine", root.join("in")).unwrap();
    symlink("/proc/self/root/etc/passwd", root.join("magic")).unwrap();
    let fetcher = serve(&root);
    assert_eq!(get(&fetcher, "file:sub/fine").unwrap(), b"fine");
    assert_eq!(get(&fetcher, "file:in").unwrap(), b"fine");
    for url in [
        "file:../secret",
        "file:%2e%2e/secret",
        "file:sub/../../secret",
        "file:sub/../sub/fine",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "file:%2Fetc/passwd",
        "file:out",
        "file:absolute",
        "file:up/secret",
        "file:magic",
    ] {
        let error = refused(&fetcher, url);
        assert!(matches!(error, FetchError::OutsideRoot { .. }), "{url}: {error:?}");
        assert_eq!(error.class(), ErrorClass::Request);
    }
    assert!(matches!(refused(&fetcher, "file:none"), FetchError::NotFound { .. }));
    let none = Fetcher::new(Policy::serve(None)).unwrap();
    assert!(matches!(refused(&none, "file:x"), FetchError::FilesDenied { .. }));
    let gone = serve(&dir.path().join("gone"));
    assert!(matches!(refused(&gone, "file:x"), FetchError::Settings(_)));
}

#[test]
fn special_files_are_refused_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    symlink("fifo", dir.path().join("link")).unwrap();
    for fetcher in [run(dir.path()), serve(dir.path())] {
        for (url, word) in [
            ("file:fifo", "fifo"),
            ("file:link", "fifo"),
            ("file:socket", "socket"),
            ("file:folder", "folder"),
            ("file:.", "folder"),
        ] {
            let error = refused(&fetcher, url);
            assert!(matches!(error, FetchError::NotAFile { .. }) && error.to_string().contains(word), "{url}: {error}");
        }
    }
    let fetcher = run(dir.path());
    for (url, word) in [
        ("file:///dev/zero", "device"),
        ("file:///dev/full", "device"),
        ("file:///dev/tty", "device"),
        ("file:///proc/self/environ", "kernel"),
        ("file:///proc/self/status", "kernel"),
        ("file:///proc/kmsg", "kernel"),
        ("file:///sys/kernel/notes", "kernel"),
        ("file:///", "folder"),
    ] {
        let error = refused(&fetcher, url);
        assert!(matches!(error, FetchError::NotAFile { .. }) && error.to_string().contains(word), "{url}: {error}");
    }
}

#[test]
fn a_huge_sparse_file_is_too_large_at_once() {
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("sparse")).unwrap().set_len(1 << 42).unwrap();
    std::fs::write(dir.path().join("five"), "12345").unwrap();
    for fetcher in [run(dir.path()), serve(dir.path())] {
        let error = get(&fetcher, "file:sparse").unwrap_err();
        assert!(matches!(error, FetchError::TooLarge { size: Some(size), .. } if size == 1 << 42), "{error:?}");
        assert!(matches!(file(&fetcher, "file:sparse", 1 << 40), Err(FetchError::TooLarge { .. })));
        assert!(matches!(file(&fetcher, "file:five", 4), Err(FetchError::TooLarge { size: Some(5), limit: 4, .. })));
        assert_eq!(file(&fetcher, "file:five", 5).unwrap().len, 5);
        // A file that is only opened may be of any size.
        fetcher.open_local("file:sparse").unwrap();
    }
    let small = Fetcher::new(Policy { max_bytes: 4, ..Policy::run(dir.path()) }).unwrap();
    assert!(matches!(get(&small, "file:five"), Err(FetchError::TooLarge { limit: 4, .. })));
}

#[test]
fn missing_and_forbidden_files_say_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "x").unwrap();
    let fetcher = run(dir.path());
    let error = refused(&fetcher, "file:none");
    assert!(error.to_string().contains(&*dir.path().join("none").to_string_lossy()), "{error}");
    assert!(matches!(refused(&fetcher, "file:plain/x"), FetchError::NotFound { .. }));
    symlink("dangling-target", dir.path().join("dangling")).unwrap();
    assert!(matches!(refused(&fetcher, "file:dangling"), FetchError::NotFound { .. }));
    symlink("loop", dir.path().join("loop")).unwrap();
    assert!(matches!(refused(&fetcher, "file:loop"), FetchError::Io { .. }));
    let long = format!("file:{}", "n".repeat(300));
    assert!(matches!(refused(&fetcher, &long), FetchError::Io { .. }));
}

/// Root may read everything, so the question is asked by a child that is nobody.
#[test]
fn permission_denied() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let path = dir.path().join("private");
    std::fs::write(&path, "x").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    if let Ok(url) = std::env::var("PROOFMILL_TEST_AS_NOBODY") {
        for fetcher in [run(Path::new("/")), serve(Path::new(&url).parent().unwrap())] {
            let url = match fetcher.policy().files {
                FileAccess::Root(_) => "file:private".to_owned(),
                _ => format!("file://{url}"),
            };
            let error = refused(&fetcher, &url);
            assert!(matches!(error, FetchError::PermissionDenied { .. }), "{error:?}");
        }
        return;
    }
    let me = std::env::current_exe().unwrap();
    let child_program = dir.path().join("child");
    std::fs::copy(me, &child_program).unwrap();
    let mut child = if rustix_is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&child_program);
        command
    } else {
        Command::new(&child_program)
    };
    child.args(["--exact", "permission_denied"]).env("PROOFMILL_TEST_AS_NOBODY", &path);
    match child.current_dir("/").output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => println!("SKIPPED permission_denied: setpriv does not start ({error})"),
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changing");
    let fetcher = serve(dir.path());
    for (name, change) in [
        ("truncated", (|file: &File| file.set_len(1 << 20).unwrap()) as fn(&File)),
        ("grown", |file: &File| file.set_len(5 << 20).unwrap()),
        ("written", |mut file: &File| file.write_all(b"other").unwrap()),
    ] {
        std::fs::write(&path, vec![1; 4 << 20]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let changed = std::cell::Cell::new(false);
        let error = fetcher
            .fetch_bytes("file:changing", None, 1 << 30, &|| false, &|done, _| {
                if done >= 2 << 20 && !changed.replace(true) {
                    change(&File::options().write(true).open(&path).unwrap());
                }
            })
            .expect_err(name);
        assert!(matches!(error, FetchError::Changed { .. }), "{name}: {error:?}");
    }
}

#[test]
fn a_read_is_cancelled_and_reports_progress() {
    let dir = tempfile::tempdir().unwrap();
    File::create(dir.path().join("big")).unwrap().set_len(1 << 36).unwrap();
    let fetcher = run(dir.path());
    let start = Instant::now();
    let flag = || start.elapsed() > Duration::from_millis(300);
    let error = fetcher.fetch_file("file:big", None, 1 << 40, Path::new("/"), &flag, &|_, _| {}).unwrap_err();
    assert!(matches!(error, FetchError::Cancelled { .. }) && start.elapsed() < Duration::from_millis(1300));
    assert_eq!(error.class(), ErrorClass::Cancelled);
    std::fs::write(dir.path().join("small"), vec![1; 3 << 20]).unwrap();
    let seen = std::cell::RefCell::new(Vec::new());
    fetcher
        .fetch_bytes("file:small", None, 1 << 30, &|| false, &|done, total| seen.borrow_mut().push((done, total)))
        .unwrap();
    let seen = seen.into_inner();
    assert!(seen.is_sorted() && seen.len() > 2, "{seen:?}");
    assert_eq!(seen.last(), Some(&(3 << 20, Some(3 << 20))));
}

#[test]
fn schemes_left_out_say_which_feature_has_them() {
    for (url, scheme, feature) in [
        ("http://h/x", "http", "http"),
        ("https://h/x?s=1", "https", "http"),
        ("s3://b/x", "s3", "object-store"),
        ("gs://b/x", "gs", "object-store"),
        ("az://c/x", "az", "object-store"),
    ] {
        if proofmill_sources::is_built(scheme) {
            continue;
        }
        let error = Fetcher::new(Policy::run("/")).unwrap().check(url).unwrap_err().to_string();
        assert!(error.contains("built without") && error.contains(&format!("--features {feature}`")), "{error}");
    }
    assert!(proofmill_sources::is_built("file") && !proofmill_sources::is_built("ftp"));
}

fn rustix_is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}
