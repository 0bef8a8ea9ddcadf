//! A container runtime of our own making, where the engine looks for `runc`.
//!
//! The engine takes the place of a runtime from its environment, and a process
//! cannot safely change its own: the suite starts itself anew with another.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::{env, fs, io};

use anyhow::Context as _;

/// Who names the runtime to the engine.
const VARIABLE: &str = "BELLJAR_RUNC";
/// Who names the same to us: that the variable is set is not yet our doing.
const OURS: &str = "BELLJAR_TENANTS_PLANTED";

/// Removed at the end, with what lies in it.
#[derive(Debug)]
pub(crate) struct Planted {
    directory: PathBuf,
}

/// With these the C library gives freed memory back at once. What it keeps for later would look
/// like a leak.
const EXACT_MEMORY: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
];

impl Planted {
    /// The place for it; the first time, by starting this program anew.
    pub(crate) fn take() -> anyhow::Result<Self> {
        if let Some(directory) = env::var_os(OURS) {
            return Ok(Self { directory: directory.into() });
        }
        let directory = tempfile::Builder::new().prefix("belljar-tenants-").tempdir()?.keep();
        let program = env::current_exe().context("cannot find this program")?;
        let error = std::process::Command::new(program)
            .args(env::args_os().skip(1))
            .env(VARIABLE, directory.join("runc"))
            .env(OURS, &directory)
            .envs(EXACT_MEMORY)
            .exec();
        let _ = fs::remove_dir_all(directory);
        Err(error).context("cannot start this program anew")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("runc")
    }

    /// Puts a runtime there, in place of the one before.
    pub(crate) fn plant(&self, content: &[u8], mode: u32) -> io::Result<()> {
        self.clear()?;
        let beside = self.directory.join("new");
        fs::write(&beside, content)?;
        fs::set_permissions(&beside, fs::Permissions::from_mode(mode))?;
        fs::rename(beside, self.path())
    }

    pub(crate) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
