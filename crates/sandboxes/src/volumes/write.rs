//! Files on their way into a volume.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::entry::VolumeEntry;
use super::tree::{Measure, Path as Inside, VolumeOwner};
use super::{Kind, Problem, Secret, Volume, full};

/// A file that is being written. Nobody sees it before it is whole; dropped
/// before that, it leaves nothing.
#[derive(Debug)]
pub struct Incoming {
    volume: Arc<Volume>,
    path: Inside,
    owner: VolumeOwner,
    replace: bool,
    file: File,
    /// Where it is until then.
    at: PathBuf,
    size: u64,
    /// Whether it has its place, or the room that it takes is to be given back.
    is_kept: bool,
}

impl Volume {
    /// Begins a file. Directories that are missing on the way to it are made.
    pub fn write(
        self: &Arc<Self>,
        path: &str,
        owner: VolumeOwner,
        replace: bool,
    ) -> Result<Incoming, Problem> {
        let path = Inside::parse(path)?;
        owner.check()?;
        if !replace && self.tree.stat(&path).is_ok() {
            let message = format!("{:?} already exists", path.shown());
            return Err(Problem::new(Kind::Conflict, "path_exists", message)
                .hint("use force to replace it"));
        }
        self.take_room(Measure { bytes: 0, entries: 1 })?;
        let begun = self.begin(path, owner, replace);
        if begun.is_err() {
            self.count(Measure::default(), Measure { bytes: 0, entries: 1 });
        }
        begun
    }

    fn begin(
        self: &Arc<Self>,
        path: Inside,
        owner: VolumeOwner,
        replace: bool,
    ) -> Result<Incoming, Problem> {
        let cannot = |error: std::io::Error| Problem::internal("write to the volume", &error);
        let random = Secret::random().map_err(cannot)?;
        let at = self.dir.join("moving").join(random.expose());
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&at).map_err(cannot)?;
        let volume = self.clone();
        Ok(Incoming { volume, path, owner, replace, file, at, size: 0, is_kept: false })
    }
}

impl Incoming {
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.volume.take_room(Measure { bytes: more, entries: 0 })?;
        self.size += more;
        let written = self.file.write_all(bytes);
        written.map_err(|error| match error.kind() {
            std::io::ErrorKind::StorageFull => full("the free disk space of the server"),
            _ => Problem::internal("write to the volume", &error),
        })
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<VolumeEntry, Problem> {
        let volume = self.volume.clone();
        self.owner.or(0o644).apply(&self.file, &self.path.shown())?;
        let synced = self.file.sync_all();
        synced.map_err(|error| Problem::internal("write to the volume", &error))?;
        let (parents, _) = self.path.split()?;
        let entries = volume.tree.make_parents(&parents, self.owner)?;
        volume.count(Measure { bytes: 0, entries }, Measure::default());
        let replaced = volume.tree.size_of(&self.path).filter(|_| self.replace);
        volume.tree.put_in(&self.at, &self.path, self.replace)?;
        self.is_kept = true;
        if let Some(bytes) = replaced {
            volume.count(Measure::default(), Measure { bytes, entries: 1 });
        }
        volume.tree.stat(&self.path)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_kept {
            let less = Measure { bytes: self.size, entries: 1 };
            self.volume.count(Measure::default(), less);
            // A volume that was removed meanwhile has taken it along.
            let _ = std::fs::remove_file(&self.at);
        }
    }
}
