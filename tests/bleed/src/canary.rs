//! Secrets: of sessions, and of this process, which is the engine.
//!
//! A process cannot soundly change its own environment, so it starts itself
//! again with canaries in environment and arguments.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use sha2::{Digest as _, Sha256};

const VARIABLE: &str = "BELLJAR_BLEED_CANARY";
const ARGUMENT: &str = "--canary=";
/// What memory is searched for; the digits after it make it a canary.
const MARK: &str = "BJMQ:";

/// A text that exists nowhere else.
#[derive(Debug, Clone)]
pub(crate) struct Canary(String);

impl Canary {
    pub(crate) fn new() -> io::Result<Self> {
        let mut bits = [0u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut bits)?;
        Ok(Self(hexadecimal(&bits)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Given to whoever looks for it, who must not hold it in plain text.
    pub(crate) fn hidden(&self) -> String {
        let reversed: Vec<u8> = self.0.bytes().rev().collect();
        hexadecimal(&reversed)
    }

    /// Given to whoever looks for it in memory, and must not hold it at all.
    pub(crate) fn digest(&self) -> String {
        hexadecimal(&Sha256::digest(&self.0))
    }
}

/// Canaries in the memory of this process.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) environment: Canary,
    pub(crate) arguments: Canary,
    pub(crate) heap: Canary,
    /// As the memory of a session would show it.
    _planted: Vec<String>,
}

impl Engine {
    /// The canaries, if this process was started with them.
    pub(crate) fn find() -> Option<Self> {
        let plain = |text: String| text.strip_prefix(MARK).map(|digits| Canary(digits.to_owned()));
        let environment = plain(std::env::var(VARIABLE).ok()?)?;
        let last = std::env::args().next_back()?;
        let arguments = plain(last.strip_prefix(ARGUMENT)?.to_owned())?;
        let heap = Canary::new().ok()?;
        let planted = (0..64).map(|_| format!("{MARK}{}", heap.0)).collect();
        Some(Self { environment, arguments, heap, _planted: planted })
    }

    /// The command line without what was added to it.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<_> = std::env::args_os().collect();
        arguments.pop();
        arguments
    }
}

/// Becomes this program again, with canaries. Only returns if that failed.
pub(crate) fn start_again() -> anyhow::Error {
    let started = || -> io::Result<io::Error> {
        let canary = || Canary::new().map(|canary| format!("{MARK}{}", canary.0));
        Ok(Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg(format!("{ARGUMENT}{}", canary()?))
            .env(VARIABLE, canary()?)
            .exec())
    };
    anyhow::Error::from(started().unwrap_or_else(|error| error)).context("cannot start again")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
