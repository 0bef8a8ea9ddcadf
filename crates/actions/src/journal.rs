//! What must be known after the server died: which sandboxes there were, and
//! how those ended that are no more.
//!
//! ```text
//! <state>/sandboxes/<id>.json    one for each sandbox that has not ended
//! <state>/ended.jsonl            one line for each that has
//! ```
//!
//! The jail ends with its engine, so whatever stands in `sandboxes/` when a
//! server starts is gone, unless its files were saved; it is put down as lost.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use belljar_model::{EndReason, SandboxId};
use serde::{Deserialize, Serialize};

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
    ended: PathBuf,
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
        Ok(Self { dir, ended: state.join("ended.jsonl") })
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
        let ended = Ended {
            id: id.clone(),
            tenant: facts.tenant.clone(),
            template: facts.template.clone(),
            started_at: facts.started_at,
            ended_at: now(),
            reason,
        };
        let mut line = serde_json::to_vec(&ended)?;
        line.push(b'\n');
        let mut file = OpenOptions::new().append(true).create(true).open(&self.ended)?;
        file.write_all(&line)?;
        for path in [self.path(id), self.saved_files(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// What the last server left. A record that cannot be read is removed.
    pub(crate) fn left(&self) -> io::Result<Vec<Written>> {
        let mut left = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json") => {}
                Some("files") => continue,
                _ => {
                    fs::remove_file(path)?;
                    continue;
                }
            }
            match fs::read(&path).map(|text| serde_json::from_slice::<Written>(&text)) {
                Ok(Ok(written)) => left.push(written),
                Ok(Err(_)) | Err(_) => fs::remove_file(path)?,
            }
        }
        Ok(left)
    }

    /// The last ends, newest first.
    pub(crate) fn ended(&self, tenant: &Tenant, most: usize) -> Vec<Ended> {
        let text = fs::read_to_string(&self.ended).unwrap_or_default();
        let lines = text.lines().rev();
        let parsed = lines.filter_map(|line| serde_json::from_str::<Ended>(line).ok());
        parsed.filter(|ended| ended.tenant == *tenant).take(most).collect()
    }
}
