//! What was made, written down before it is made.
//!
//! Whoever is killed cannot tidy up: the next run does, from this record. A record
//! lies in a directory named by the process that wrote it and by when that
//! process began, so that a later one with its number is not taken for it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context as _;

use super::{host, try_run};

const RECORDS: &str = "/run/belljar-faults";

/// What can be undone. In a record, a word and its value in each line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `PID START`
    Process,
    /// The name of our cgroups below every hierarchy.
    Groups,
    Namespace,
    Link,
    Mount,
    Directory,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Process, Self::Groups, Self::Namespace, Self::Link, Self::Mount, Self::Directory];

    fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Groups => "groups",
            Self::Namespace => "namespace",
            Self::Link => "link",
            Self::Mount => "mount",
            Self::Directory => "directory",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
    writing: Mutex<()>,
}

impl Record {
    pub(crate) fn open(number: u32) -> anyhow::Result<Self> {
        fs::create_dir_all(RECORDS)?;
        let own = std::process::id();
        let start = host::start_of(own).context("this process has no start")?;
        let path = Path::new(RECORDS).join(format!("{own}-{start}-{number}"));
        fs::write(&path, "")?;
        Ok(Self { path, writing: Mutex::new(()) })
    }

    /// Before it is made.
    pub(crate) fn note(&self, kind: Kind, value: &str) -> anyhow::Result<()> {
        let _writing = self.writing.lock();
        let mut file = fs::OpenOptions::new().append(true).open(&self.path)?;
        Ok(writeln!(file, "{} {value}", kind.word())?)
    }

    /// Undoes all of it, and forgets it. Answers what is still there.
    pub(crate) fn undo(&self) -> Vec<String> {
        undo(&self.path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        undo(&self.path);
    }
}

/// Removes what runs left that ended before they could.
pub(crate) fn sweep() -> Vec<String> {
    let mut left = Vec::new();
    for entry in fs::read_dir(RECORDS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut parts = name.split('-');
        let owner = (parts.next().and_then(|pid| pid.parse().ok()), parts.next());
        let (Some(pid), Some(start)) = owner else { continue };
        let lives = host::start_of(pid).is_some_and(|now| now.to_string() == start);
        if !lives {
            left.extend(undo(&entry.path()));
        }
    }
    left
}

fn undo(path: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(path) else { return Vec::new() };
    let mut left = Vec::new();
    // Processes first, for they hold everything else; the newest first within.
    for kind in Kind::ALL {
        for line in text.lines().rev() {
            let Some((word, value)) = line.split_once(' ') else { continue };
            if word == kind.word() {
                left.extend(undo_one(kind, value));
            }
        }
    }
    let _ = fs::remove_file(path);
    left
}

fn undo_one(kind: Kind, value: &str) -> Option<String> {
    match kind {
        Kind::Process => {
            let (pid, start) = value.split_once(' ')?;
            let (pid, start) = (pid.parse().ok()?, start.parse().ok()?);
            host::end(pid, start).then(|| format!("process {pid} cannot be ended"))
        }
        Kind::Groups => host::remove_groups(value).then(|| format!("cgroups of {value} are left")),
        Kind::Namespace => {
            try_run("ip", &["netns", "del", value]);
            None
        }
        Kind::Link => {
            try_run("ip", &["link", "del", value]);
            None
        }
        Kind::Mount => {
            while try_run("umount", &["-l", value]) {}
            None
        }
        Kind::Directory => {
            let _ = fs::remove_dir_all(value);
            Path::new(value).exists().then(|| format!("{value} cannot be removed"))
        }
    }
}
