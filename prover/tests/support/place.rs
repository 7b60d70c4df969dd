//! Running the binary as a user does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Nothing in these tests takes longer, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// The project's root.
pub fn root() -> PathBuf {
    Path::new("..").canonicalize().unwrap()
}

/// The chain fixture's folder for a curve (`bn128` or `bls12381`).
pub fn chain(curve: &str) -> PathBuf {
    root().join("tests/fixtures/circom/chain").join(curve)
}

/// A scratch folder in which the binary runs, with a key cache of its own.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The binary, told to keep everything in this place.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prover"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the binary to its end; panics if it hangs.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments))
    }
}

/// How a run ended.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Asserts the exit code, showing what was printed, and that nothing panicked on the way.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert!(!self.stderr.contains("a fault in the program"), "stderr:\n{}", self.stderr);
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that one of the outputs contains a text.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "{text:?} is missing\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs a command to its end; panics if it hangs.
pub fn finish(mut command: Command) -> Ran {
    let child = command.spawn().unwrap();
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(PATIENCE) {
        Ok(output) => ran(output.unwrap()),
        Err(_) => {
            kill(pid, "KILL");
            panic!("{command:?} hangs");
        }
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn kill(pid: u32, signal: &str) {
    Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
}
