//! Runs the built executable with a store and a state of its own.

#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The executable under test.
pub(crate) const BELLJAR: &str = env!("CARGO_BIN_EXE_belljar");

/// Whether sandboxes can be made here. Says so when they cannot.
#[track_caller]
pub(crate) fn can_jail() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let at = std::panic::Location::caller();
    eprintln!("SKIPPED {}:{}: this test needs root", at.file(), at.line());
    false
}

/// Returns true if sandboxes of a template can be made here. Says so when they cannot.
#[track_caller]
pub(crate) fn can_use(template: &str) -> bool {
    let Some(lacking) = belljar_testkit::lacking(template) else { return true };
    let at = std::panic::Location::caller();
    eprintln!("SKIPPED {}:{}: this test needs {lacking}", at.file(), at.line());
    false
}

/// A throw-away directory to run in.
pub(crate) struct Place(tempfile::TempDir);

/// What one run of belljar gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path().join(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BELLJAR);
        command.args(args).current_dir(self.path()).env("BELLJAR_STORE", self.path().join("store"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        Ran::from(command.stdin(Stdio::null()).output().unwrap())
    }

    /// As [`Self::run`], with the templates of this host.
    pub(crate) fn run_with_templates(&self, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.env("BELLJAR_STORE", belljar_testkit::store());
        command.env("BELLJAR_DATA", self.path().join("data"));
        Ran::from(command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeding = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        // A program that does not read its input closes the pipe early.
        let _ = feeding.join().unwrap();
        Ran::from(output)
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect_status(&self, status: i32) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn expect_text(&self, text: &str) -> &Self {
        assert_eq!(String::from_utf8_lossy(&self.stdout), text, "{self:?}");
        self
    }

    /// Standard error holds each of these.
    #[track_caller]
    pub(crate) fn expect_words(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {:?}", self.stderr);
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
