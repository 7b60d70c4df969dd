//! The binary and files that are broken, replaced under its hands, or have no room: it says so in one line and with the
//! right exit code, within bounds of time and memory.
#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod disk;
mod files;
#[path = "../support/manifest.rs"]
mod manifest;
mod manifests;
#[path = "../support/place.rs"]
mod place;
mod races;

use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use place::{Place, Ran, finish};

/// Address space of a process, in bytes: room for threads and a key of 2 MB many times over, none for what a corrupt count
/// asks for.
const ADDRESS_SPACE: u64 = 16 << 30;
/// CPU seconds of a process: each of these takes less than one.
const SECONDS: u32 = 60;
/// What no process may ever have held in memory, in KiB.
const RESIDENT: i64 = 512 << 10;

/// Runs the binary under limits of address space and time.
fn limited(place: &Place, arguments: &[&str]) -> Ran {
    let plain = place.command(arguments);
    let mut command = Command::new("prlimit");
    command
        .args([format!("--as={ADDRESS_SPACE}"), format!("--cpu={SECONDS}"), "--core=0".into(), "--".into()])
        .arg(plain.get_program())
        .args(arguments)
        .current_dir(place.path())
        .env_clear()
        .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command)
}

/// Runs the binary under limits; it must end with `code`, say `words`, and that in one line.
#[track_caller]
fn refuses(place: &Place, name: &str, arguments: &[&str], code: i32, words: &str) {
    let ran = limited(place, arguments);
    let said = format!("{name}: {arguments:?}\n{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, Some(code), "{said}");
    assert_eq!(ran.stderr.lines().count(), 1, "{said}");
    assert!(ran.stderr.starts_with("prover: ") && ran.stderr.len() < 1000, "{said}");
    assert!(ran.stderr.contains(words), "{words:?} is missing: {said}");
    assert!(!ran.stderr.contains("a fault in the program"), "{said}");
    bounded(name);
}

/// No process of these tests has taken more memory than it may.
#[track_caller]
fn bounded(name: &str) {
    let most = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    assert!(most < RESIDENT, "{name}: a process held {most} KiB");
}
