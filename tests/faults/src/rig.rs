//! What faults happen to: processes, networks, disks, all of our own making, and
//! all removed at the end.

pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod disk;
pub(crate) mod host;
pub(crate) mod net;
pub(crate) mod oracle;
pub(crate) mod postgres;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod record;
pub(crate) mod server;
pub(crate) mod templates;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};

use self::record::{Kind, Record};

/// A place for one fault, gone with it.
#[derive(Debug, Clone)]
pub(crate) struct Rig {
    pub(crate) record: Arc<Record>,
    pub(crate) dir: PathBuf,
    /// The executable that is tested.
    pub(crate) belljar: PathBuf,
    /// Templates, none of them warm: what is tested starts at once.
    pub(crate) store: PathBuf,
}

impl Rig {
    pub(crate) fn new(belljar: &Path) -> anyhow::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let record = Arc::new(Record::open(number)?);
        let dir = std::env::temp_dir().join(format!("bjf-{}-{number}", std::process::id()));
        record.note(Kind::Directory, &dir.display().to_string())?;
        std::fs::create_dir_all(&dir)?;
        // The user ids of sandboxes must be able to pass through.
        open_up(&dir)?;
        let store = templates::make(&dir)?;
        Ok(Self { record, dir, belljar: belljar.to_owned(), store })
    }

    /// Ends and removes everything; what could not be removed, in words.
    pub(crate) fn clear(&self) -> Vec<String> {
        self.record.undo()
    }
}

pub(crate) fn open_up(dir: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711))?;
    Ok(())
}

/// Runs a tool of the host, and answers what it printed.
pub(crate) fn run(program: &str, words: &[&str]) -> anyhow::Result<String> {
    let done = Command::new(program).args(words).output();
    let done = done.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{program} {}: {said}", words.join(" "));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The same, without a word when it fails: what is to be removed may be gone.
pub(crate) fn try_run(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|done| done.status.success())
}
