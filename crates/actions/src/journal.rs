//! What must be known after the server died: which sandboxes there were, and
//! how those ended that are no more.
//!
//! ```text
//! <state>/sandboxes/<id>.json    one for each sandbox that has not ended
//! <state>/sandboxes/<id>.files   what was saved of a paused one
//! <state>/ended.jsonl            one line for each that has ended
//! ```
//!
//! The jail ends with its engine, so whatever stands in `sandboxes/` when a
//! server starts is gone, unless its files were saved; it is put down as lost.

mod ends;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use belljar_model::{EndReason, SandboxId};
use serde::{Deserialize, Serialize};

use ends::Ends;

use crate::clock::{Moment, now};
use crate::keys::Tenant;
use crate::private;
use crate::sandbox::Facts;
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
}

#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    ends: Ends,
}

/// A sandbox as it is written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) id: SandboxId,
    pub(crate) facts: Facts,
    pub(crate) deadline: Moment,
    pub(crate) template: Reference,
    /// Its files were saved, and it can be resumed from them.
    #[serde(default)]
    pub(crate) saved: bool,
}

impl Journal {
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        let dir = state.join("sandboxes");
        // Records hold tokens.
        private::make_dir(&dir)?;
        Ok(Self { dir, ends: Ends::open(state)? })
    }

    fn path(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Where the files of a paused sandbox are saved.
    pub(crate) fn saved_files(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.files"))
    }

    pub(crate) fn write(&self, written: &Written) -> io::Result<()> {
        let path = self.path(&written.id);
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec(written)?)?;
        fs::rename(new, path)
    }

    /// Puts an end on record.
    pub(crate) fn end(&self, id: &SandboxId, facts: &Facts, reason: EndReason) -> io::Result<()> {
        // A server that was killed between the line and the rest wrote it already.
        if !self.ends.knows(&facts.tenant, id) {
            self.ends.add(Ended {
                id: id.clone(),
                tenant: facts.tenant.clone(),
                template: facts.template.clone(),
                started_at: facts.started_at,
                ended_at: now(),
                reason,
            })?;
        }
        remove(&self.saved_files(id))?;
        remove(&self.path(id))
    }

    /// What the last server left. Whatever belongs to none of it is removed.
    pub(crate) fn left(&self) -> io::Result<Vec<Written>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => {}
                Some("files") if path.with_extension("json").exists() => continue,
                _ => {
                    remove(&path)?;
                    continue;
                }
            }
            match serde_json::from_slice::<Written>(&fs::read(&path)?) {
                Ok(written) => left.push(written),
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "cannot read a record");
                    remove(&path)?;
                    remove(&path.with_extension("files"))?;
                }
            }
        }
        Ok(left)
    }

    /// The last ends, newest first.
    pub(crate) fn ended(&self, tenant: &Tenant, most: usize) -> Vec<Ended> {
        self.ends.newest(tenant, most)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
