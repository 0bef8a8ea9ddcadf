//! Finds the host's container runtimes and judges them by their versions.
//!
//! A runtime with a known escape is refused, by the number of the hole. The
//! version of a distribution's package counts as the release it was made from:
//! what was mended in it besides cannot be told from the outside. Whoever knows
//! better can force it, and is told so each time.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use belljar_domain::Runtime;

use crate::version::{self, Version};

/// Where runtimes are looked for, and whether their flaws are forgiven.
#[derive(Debug, Clone, Default)]
pub struct Runtimes {
    /// Directories, in the manner of `PATH`.
    pub path: OsString,
    pub crun: Option<PathBuf>,
    pub runc: Option<PathBuf>,
    pub runsc: Option<PathBuf>,
    /// Run versions that are known to be unsafe.
    pub force: bool,
}

impl Runtimes {
    /// As the environment says: `PATH`, `BELLJAR_CRUN`, `BELLJAR_RUNC`,
    /// `BELLJAR_RUNSC`, and `BELLJAR_FORCE_RUNTIME`.
    pub fn from_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            path: set("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into()),
            crun: set("BELLJAR_CRUN").map(PathBuf::from),
            runc: set("BELLJAR_RUNC").map(PathBuf::from),
            runsc: set("BELLJAR_RUNSC").map(PathBuf::from),
            force: set("BELLJAR_FORCE_RUNTIME").is_some_and(|value| value == "1"),
        }
    }

    fn find(&self, runtime: Runtime) -> Option<PathBuf> {
        let named = match runtime {
            Runtime::Crun => &self.crun,
            Runtime::Runc => &self.runc,
            Runtime::Runsc => &self.runsc,
        };
        if let Some(named) = named {
            return std::fs::canonicalize(named).ok();
        }
        let dirs = std::env::split_paths(&self.path).filter(|dir| dir.is_absolute());
        dirs.map(|dir| dir.join(runtime.program()))
            .find(|program| rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok())
            .and_then(|program| std::fs::canonicalize(program).ok())
    }
}

/// A runtime that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub program: PathBuf,
    /// What it says it is.
    pub version: String,
    /// Why it would have been refused, had nobody forced it.
    pub forgiven: Option<String>,
}

/// Finds runtimes and remembers what it thinks of them for as long as their
/// files stay the same.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    runtimes: Runtimes,
    known: Mutex<Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    runtime: Runtime,
    mark: Mark,
    judged: Result<Judged, String>,
}

/// What tells that a program was replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    program: PathBuf,
    file: (u64, u64, u64, i64, i64),
}

impl Mark {
    fn of(program: PathBuf) -> io::Result<Self> {
        let found = std::fs::metadata(&program)?;
        let file = (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        Ok(Self { program, file })
    }
}

impl Judge {
    pub(crate) fn new(runtimes: Runtimes) -> Self {
        Self { runtimes, known: Mutex::default() }
    }

    /// The program of `runtime`, or why it cannot be used.
    pub(crate) async fn judge(&self, runtime: Runtime) -> Result<Judged, String> {
        let name = runtime.program();
        let missing = || {
            let variable = format!("BELLJAR_{}", name.to_uppercase());
            format!("`{name}` is not on the PATH, and {variable} is not set")
        };
        let program = self.runtimes.find(runtime).ok_or_else(missing)?;
        let mark = Mark::of(program).map_err(|error| format!("`{name}`: {error}"))?;
        if let Some(known) = self.remembered(runtime, &mark) {
            return known;
        }
        let judged = look_at(runtime, &mark.program, self.runtimes.force).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.runtime != runtime);
        known.push(Known { runtime, mark, judged: judged.clone() });
        judged
    }

    fn remembered(&self, runtime: Runtime, mark: &Mark) -> Option<Result<Judged, String>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|known| known.runtime == runtime && known.mark == *mark);
        found.map(|known| known.judged.clone())
    }
}

async fn look_at(runtime: Runtime, program: &Path, force: bool) -> Result<Judged, String> {
    let name = program.display();
    let said = version_text(program).await.map_err(|error| format!("`{name}`: {error}"))?;
    let version = Version::read(runtime, &said);
    let version = match (version, runtime) {
        (Version::Unknown, Runtime::Runsc) => {
            let program = program.to_owned();
            let read = move || version::build_of(&program);
            tokio::task::spawn_blocking(read).await.unwrap_or(Version::Unknown)
        }
        (version, _) => version,
    };
    let flaws = version::flaws(runtime, &version);
    let judged =
        |forgiven| Judged { program: program.to_owned(), version: version.to_string(), forgiven };
    if flaws.is_empty() {
        return Ok(judged(None));
    }
    let why = version::complaint(&format!("`{}` {version}", runtime.program()), &flaws);
    if force { Ok(judged(Some(why))) } else { Err(why) }
}

async fn version_text(program: &Path) -> io::Result<String> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").env_clear().current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let late = std::time::Duration::from_secs(10);
    let output = tokio::time::timeout(late, command.output()).await;
    let output = output.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    if !output.status.success() {
        return Err(io::Error::other("it prints no version"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
