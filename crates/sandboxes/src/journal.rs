//! What must be known after the server died: which sandboxes there were, and
//! how those ended that are no more.
//!
//! ```text
//! <state>/sandboxes/<id>.json    one for each sandbox that has not ended
//! <state>/sandboxes/<id>.files   what was saved of a paused one: its files
//! <state>/sandboxes/<id>.memory/ or all of it
//! <state>/sandboxes/<id>.calls   its calls that bear keys, if it is on disk
//! <state>/sandboxes/unreadable/  the same of those whose record could not be read
//! <state>/ended.jsonl            one line for each that has ended
//! <state>/connections/<id>.jsonl what one reached, as long as its end is remembered
//! ```
//!
//! Sandboxes end with their engine, so whatever stands in `sandboxes/` when a
//! server starts is gone, unless it was put on disk; it is put down as lost.

mod ends;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_domain::{EndReason, SandboxId, Tier};
use serde::{Deserialize, Serialize};

use ends::Ends;

use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::network::Network;
use crate::once::WrittenCalls;
use crate::private::{self, remove};
use crate::quarantine;
use crate::sandbox::{Facts, Paused, State, first_tier};
use crate::template::Reference;

/// How a sandbox ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ended {
    pub id: SandboxId,
    pub tenant: Tenant,
    pub template: String,
    pub started_at: Moment,
    pub ended_at: Moment,
    pub reason: EndReason,
    /// What it was kept in.
    #[serde(default = "first_tier")]
    pub tier: Tier,
}

#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    rows: PathBuf,
    ends: Ends,
    /// Ends that could not be put on record yet.
    owed: Mutex<Vec<Ended>>,
}

/// The version of records of sandboxes. Raise it when an older server must not take over what
/// this one wrote.
pub(crate) const RECORD_VERSION: u32 = 1;

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("the record has version {0}; this server reads versions up to {RECORD_VERSION}")]
    Newer(u32),
    #[error("the record is damaged or has another version: {0}")]
    Damaged(serde_json::Error),
}

/// What every version of a record has.
#[derive(Debug, Deserialize)]
struct Versioned {
    #[serde(default)]
    version: u32,
}

/// A sandbox as it is written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Records of the first servers say none.
    #[serde(default)]
    pub(crate) version: u32,
    pub(crate) id: SandboxId,
    pub(crate) facts: Facts,
    pub(crate) deadline: Moment,
    pub(crate) template: Reference,
    /// Its files were saved, and it can be resumed from them.
    #[serde(default)]
    pub(crate) saved: bool,
    /// All of it was put on disk, and it goes on from there.
    #[serde(default)]
    pub(crate) suspended: bool,
    #[serde(default)]
    pub(crate) network: Network,
    /// How long it had run by then.
    #[serde(default)]
    pub(crate) ran: Duration,
    /// The highest generation that anybody had asked with.
    #[serde(default)]
    pub(crate) generation: Option<u64>,
}

impl Written {
    fn read(text: &[u8]) -> Result<Self, Unreadable> {
        let Versioned { version } = serde_json::from_slice(text).map_err(Unreadable::Damaged)?;
        if version > RECORD_VERSION {
            return Err(Unreadable::Newer(version));
        }
        serde_json::from_slice(text).map_err(Unreadable::Damaged)
    }

    /// Where it can be resumed from, if that is still there.
    pub(crate) fn paused(&self, journal: &Journal) -> Option<Paused> {
        let (files, memory) = (journal.saved_files(&self.id), journal.memory(&self.id));
        match (self.suspended, self.saved) {
            (true, _) if memory.is_dir() => Some(Paused::Suspended(memory)),
            (false, true) if files.exists() => Some(Paused::Saved(files)),
            _ => None,
        }
    }
}

/// What lies on disk of one.
const EXTENSIONS: [&str; 4] = ["json", "files", "memory", "calls"];

/// Whether a sandbox is there again after a restart.
pub(crate) fn outlives_the_server(state: &State) -> bool {
    matches!(state, State::Paused(Paused::Saved(_) | Paused::Suspended(_)))
}

impl Journal {
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let dir = state.join("sandboxes");
        // Records hold tokens.
        private::make_dir(&dir)?;
        let rows = state.join("connections");
        private::make_dir(&rows)?;
        Ok(Self { dir, rows, ends: Ends::open(state)?, owed: Mutex::default() })
    }

    fn path(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Where it is written what a sandbox reached.
    pub(crate) fn rows(&self, id: &SandboxId) -> PathBuf {
        self.rows.join(format!("{id}.jsonl"))
    }

    /// Where the files of a paused sandbox are saved.
    pub(crate) fn saved_files(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.files"))
    }

    /// The directory of a sandbox that was put on disk with its memory.
    pub(crate) fn memory(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.memory"))
    }

    /// Removes what is on disk of a sandbox that runs.
    pub(crate) fn forget_saved(&self, id: &SandboxId) -> io::Result<()> {
        remove(&self.saved_files(id))?;
        remove(&self.calls(id))?;
        remove(&self.memory(id))
    }

    /// Where the calls of a sandbox that is on disk are written down.
    fn calls(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.calls"))
    }

    pub(crate) fn write_calls(&self, id: &SandboxId, calls: &WrittenCalls) -> io::Result<()> {
        let path = self.calls(id);
        if calls.is_empty() {
            return remove(&path);
        }
        private::write_by(&path.with_extension("calls-new"), &path, calls)
    }

    /// Those of a sandbox that was on disk when the last server ended.
    pub(crate) fn read_calls(&self, id: &SandboxId) -> io::Result<WrittenCalls> {
        match fs::read(self.calls(id)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(WrittenCalls::default()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(&self, written: &Written) -> io::Result<()> {
        let path = self.path(&written.id);
        let new = path.with_extension("new");
        let done =
            fs::write(&new, serde_json::to_vec(written)?).and_then(|()| fs::rename(&new, path));
        if done.is_err() {
            let _ = fs::remove_file(new);
        }
        done
    }

    /// Puts an end on record. If that fails, as on a full disk, it is owed: what
    /// was written of the sandbox stays until [`Self::pay`] has done it.
    pub(crate) fn end(&self, id: &SandboxId, facts: &Facts, reason: EndReason) -> io::Result<()> {
        let ended = Ended {
            id: id.clone(),
            tenant: facts.tenant.clone(),
            template: facts.template.clone(),
            started_at: facts.started_at,
            ended_at: now(),
            reason,
            tier: facts.tier,
        };
        let done = self.put_down(&ended);
        if done.is_err() {
            self.owed().push(ended);
        }
        done
    }

    /// Puts on record what could not be before. Answers how many are still owed.
    pub(crate) fn pay(&self) -> usize {
        let owed = std::mem::take(&mut *self.owed());
        let left =
            owed.into_iter().filter(|ended| self.put_down(ended).is_err()).collect::<Vec<_>>();
        let mut owed = self.owed();
        owed.extend(left);
        owed.len()
    }

    fn owed(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_down(&self, ended: &Ended) -> io::Result<()> {
        let id = &ended.id;
        // A server that was killed between the line and the rest wrote it already.
        if !self.ends.knows(&ended.tenant, id) {
            let forgotten = self.ends.add(ended.clone())?;
            if let Some(forgotten) = forgotten {
                remove(&self.rows(&forgotten))?;
            }
        }
        self.forget_saved(id)?;
        remove(&self.path(id))
    }

    /// Sets aside all that is on disk of a sandbox.
    pub(crate) fn set_aside(&self, id: &SandboxId, why: &dyn fmt::Display) -> io::Result<()> {
        quarantine::set_aside(quarantine::Kind::Sandbox, &self.path(id), &EXTENSIONS, why)
    }

    /// What the last server left. Whatever belongs to none of it is removed; what cannot be read
    /// is set aside.
    pub(crate) fn left(&self) -> io::Result<Vec<Written>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if quarantine::is_dir(&path) {
                continue;
            }
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => {}
                Some("files" | "memory" | "calls") if path.with_extension("json").exists() => {
                    continue;
                }
                _ => {
                    remove(&path)?;
                    continue;
                }
            }
            match Written::read(&fs::read(&path)?) {
                Ok(written) => left.push(written),
                Err(why) => {
                    quarantine::set_aside(quarantine::Kind::Sandbox, &path, &EXTENSIONS, &why)?;
                }
            }
        }
        Ok(left)
    }

    /// Whether this sandbox of the tenant's is among those that ended last.
    pub(crate) fn has_ended(&self, tenant: &Tenant, id: &SandboxId) -> bool {
        self.ends.knows(tenant, id)
    }

    /// How this sandbox of the tenant's ended, if it is among those that ended last.
    pub(crate) fn ended_sandbox(&self, tenant: &Tenant, id: &SandboxId) -> Option<Ended> {
        self.ends.find(tenant, id)
    }

    /// Removes what sandboxes reached that nobody remembers: a server that was
    /// killed may have left it.
    pub(crate) fn forget_rows(&self, left: &[Written]) -> io::Result<()> {
        for entry in fs::read_dir(&self.rows)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse::<SandboxId>().ok());
            let known = id.is_some_and(|id| {
                left.iter().any(|written| written.id == id)
                    || self.ends.remembers(&id)
                    || self.dir.join(quarantine::DIR).join(format!("{id}.json")).exists()
            });
            if !known {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The last ends, newest first.
    pub(crate) fn ended(&self, tenant: &Tenant, most: usize) -> Vec<Ended> {
        self.ends.newest(tenant, most)
    }
}

#[cfg(test)]
mod tests;
