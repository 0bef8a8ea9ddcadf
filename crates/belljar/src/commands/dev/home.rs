//! The directory that holds everything of a `belljar dev`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::cli::Dev;
use crate::config::Config;
use crate::output::{Hint as _, hinted};

#[derive(Debug)]
pub(in crate::commands) struct Home {
    dir: PathBuf,
    /// Held for as long as we run.
    _lock: File,
}

impl Home {
    pub(in crate::commands) fn open(options: &Dev, config: &Config) -> anyhow::Result<Self> {
        let dir = options.data.clone().unwrap_or_else(|| config.data.with_file_name("dev"));
        let made = std::fs::create_dir_all(&dir).and_then(|()| std::fs::canonicalize(&dir));
        let dir = made
            .with_context(|| format!("cannot create `{}`", dir.display()))
            .hint("choose a writable directory with --data")?;
        let lock = File::create(dir.join("lock")).context("cannot create the lock file")?;
        if lock.try_lock().is_err() {
            let error = anyhow::anyhow!("another `belljar dev` is running in `{}`", dir.display());
            bail!(hinted(error, "stop it first, or choose another directory with --data"));
        }
        let home = Self { dir, _lock: lock };
        // Logs may say what tenants do.
        let logs = home.path("logs");
        DirBuilder::new().recursive(true).mode(0o700).create(&logs).context("cannot create it")?;
        Ok(home)
    }

    pub(in crate::commands) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(in crate::commands) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps something that only this user may read.
    pub(in crate::commands) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write `{}`", path.display()))
    }

    pub(in crate::commands) fn read(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}
