//! How a runtime is started: its arguments, and the directory in which it keeps
//! what it knows about one container.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use belljar_domain::{Runtime, SandboxId};
use serde_json::Value;

use super::Order;

/// The directory of one container on the host.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    dir: PathBuf,
}

impl Desk {
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Makes the directory with its bundle.
    pub(crate) fn lay(&self, config: &Value) -> io::Result<()> {
        for dir in [&self.dir, &self.root()] {
            fs::DirBuilder::new().mode(0o700).create(dir)?;
        }
        fs::write(self.dir.join("config.json"), serde_json::to_vec(config)?)
    }

    /// Where the runtime keeps its own state.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.join("pid")
    }

    /// The container's first process, as the runtime tells it.
    pub(crate) fn pid(&self) -> io::Result<i32> {
        let text = fs::read_to_string(self.pid_file())?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The command line that starts the container, or restores it.
    pub(crate) fn argv(&self, runtime: Runtime, order: &Order, id: &SandboxId) -> Vec<CString> {
        let mut words: Vec<PathBuf> = vec![order.program.clone()];
        let mut say = |word: &str| words.push(word.into());
        for flag in global_flags(runtime) {
            say(flag);
        }
        if order.from.is_some() {
            // Both specs are of our making, and differ in the range of user ids:
            // the saved one has its own numbers for them.
            say("--restore-spec-validation=ignore");
        }
        say("--root");
        words.push(self.root());
        let mut say = |word: &str| words.push(word.into());
        match &order.from {
            Some(from) => {
                say("restore");
                say("--image-path");
                words.push(from.clone());
            }
            None => say("run"),
        }
        words.extend(["--detach".into(), "--bundle".into(), self.dir.clone()]);
        words.extend(["--pid-file".into(), self.pid_file(), id.as_str().into()]);
        words.iter().map(|word| to_c(word)).collect()
    }
}

/// What each runtime is told before its command. All of runsc's are ours: none
/// of those that open the host to a sandbox is ever among them.
pub(crate) fn global_flags(runtime: Runtime) -> &'static [&'static str] {
    match runtime {
        Runtime::Crun => &["--cgroup-manager=disabled"],
        Runtime::Runc => &[],
        Runtime::Runsc => &[
            "--network=none",
            "--ignore-cgroups",
            "--overlay2=none",
            "--platform=systrap",
            "--host-uds=none",
            "--host-fifo=none",
            // Nobody else changes what is mounted, so its kernel may cache it.
            "--file-access-mounts=exclusive",
        ],
    }
}

fn to_c(word: &Path) -> CString {
    // Paths come from the kernel or from our own settings: no zero byte.
    CString::new(word.as_os_str().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
