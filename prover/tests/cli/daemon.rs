//! A daemon as a process, and waiting for what it does.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{Place, kill};

/// Nothing that is waited for takes longer, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon with a unix socket in a place of its own.
pub struct Daemon {
    child: Child,
    http: String,
}

impl Daemon {
    pub fn start(place: &Place, more: &[&str]) -> Self {
        let mut arguments =
            vec!["serve", "--listen", "unix:engine.sock", "--http", "127.0.0.1:0", "--file-root", "data"];
        arguments.extend(more);
        std::fs::create_dir_all(place.path().join("data")).unwrap();
        let mut child = place.command(&arguments).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.next().expect("the daemon says where it listens").unwrap();
        let http = first.split("HTTP at ").nth(1).unwrap_or_else(|| panic!("{first}")).trim().to_owned();
        // Keep reading, so that the daemon never blocks on its log.
        std::thread::spawn(move || lines.for_each(drop));
        let daemon = Self { child, http };
        eventually("the daemon is ready", || daemon.get("/readyz").0 == 200);
        daemon
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let url = format!("{}{path}", self.http);
        let output = Command::new("curl").args(["-s", "-w", "\n%{http_code}", &url]).output().expect("curl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = text.rsplit_once('\n').unwrap_or(("", "0"));
        (code.parse().unwrap_or(0), body.to_owned())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit code, once it has ended.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub fn stop(self, signal: &str) -> Option<i32> {
        kill(self.pid(), signal);
        self.wait()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Gone already after `stop`.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
