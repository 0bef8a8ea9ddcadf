//! Where cassettes are.
//!
//! ```text
//!   <store>/<tenant's digest>/lock                      shared while in use
//!                            /blobs/ab/cdef….zst        content, once
//!                            /unfinished/               blobs and imports on their way
//!                            /unswept                   a sweep is due
//!                            /cassettes/<name>/index.jsonl
//!                                             /lock     held by its recorder
//! ```
//!
//! Tenants share nothing, not even equal content: whether another tenant has
//! recorded something must not show in any way.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use belljar_domain::network::CassetteId;

use crate::blob::{self, Blobs, make_folder};
use crate::index::{Entry, Index};
use crate::{Digest, IndexError, Limits};

/// All cassettes of all tenants of a gateway.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    limits: Limits,
}

/// The cassettes of one tenant. There is no way from here to another's.
#[derive(Debug, Clone)]
pub struct Tenant {
    folder: PathBuf,
    pub(crate) blobs: Blobs,
    pub(crate) limits: Limits,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {attempt} `{path}`")]
    Io { attempt: &'static str, path: PathBuf, source: io::Error },
    #[error("cassette `{0}` is being recorded")]
    Busy(CassetteId),
    #[error("cassette `{name}` cannot be read")]
    Index { name: CassetteId, source: IndexError },
}

/// A tenant's mark that blobs may be there which no cassette names.
const UNSWEPT: &str = "unswept";

/// One cassette, from afar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub name: CassetteId,
    pub exchanges: usize,
    /// Of plain content.
    pub bytes: u64,
}

pub(crate) fn at<'a>(
    attempt: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io { attempt, path: path.to_owned(), source }
}

impl Store {
    pub fn open(folder: impl Into<PathBuf>, limits: Limits) -> Result<Self, StoreError> {
        let folder = folder.into();
        make_folder(&folder).map_err(at("make", &folder))?;
        Ok(Self { folder, limits })
    }

    /// The same cassettes, with other bounds.
    #[must_use]
    pub fn bounded(&self, limits: Limits) -> Self {
        Self { folder: self.folder.clone(), limits }
    }

    pub fn tenant(&self, name: &str) -> Tenant {
        let folder = self.folder.join(Digest::of(name.as_bytes()).to_string());
        Tenant { blobs: Blobs::new(&folder), folder, limits: self.limits }
    }

    /// Sweeps what could not be swept when it was due: something of its tenant was in use. Returns
    /// how many blobs were removed. A tenant whose cassettes cannot be read is left alone.
    pub fn sweep_overdue(&self) -> Result<usize, StoreError> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder).map_err(at("list", &self.folder))? {
            let folder = entry.map_err(at("list", &self.folder))?.path();
            if folder.join(UNSWEPT).exists() {
                let tenant = Tenant { blobs: Blobs::new(&folder), folder, limits: self.limits };
                removed += tenant.sweep().ok().flatten().unwrap_or(0);
            }
        }
        Ok(removed)
    }
}

impl Tenant {
    /// In the order of their names. One that cannot be read is an error: call
    /// [`verify`](Self::verify) to learn more.
    pub fn list(&self) -> Result<Vec<Summary>, StoreError> {
        let mut found = Vec::new();
        for name in self.names()? {
            let index = match self.read(&name) {
                // Made by a recorder that has not finished anything, or just removed.
                Err(StoreError::Index { source: IndexError::Absent, .. }) => continue,
                index => index?,
            };
            let bytes = index.entries.iter().map(crate::Entry::bytes).sum();
            found.push(Summary { name, exchanges: index.entries.len(), bytes });
        }
        Ok(found)
    }

    /// Whether there is a cassette of this name, be it empty.
    pub fn has(&self, name: &CassetteId) -> bool {
        self.cassette(name).is_dir()
    }

    /// Makes an empty cassette, unless there is one.
    pub fn make(&self, name: &CassetteId) -> Result<(), StoreError> {
        let folder = self.cassette(name);
        make_folder(&folder).map_err(at("make", &folder))
    }

    /// What a cassette has, in the order of its recording.
    pub fn entries(&self, name: &CassetteId) -> Result<Vec<Entry>, StoreError> {
        self.read(name).map(|index| index.entries)
    }

    /// Returns false if there was none. Content that no other cassette needs goes with it. While
    /// something of this tenant is in use, it goes with the next [`Store::sweep_overdue`]; if something cannot be
    /// read, with the next [`sweep`](Self::sweep) that can.
    pub fn remove(&self, name: &CassetteId) -> Result<bool, StoreError> {
        let folder = self.cassette(name);
        if !folder.exists() {
            return Ok(false);
        }
        let _lock = self.lock(name)?;
        fs::remove_dir_all(&folder).map_err(at("remove", &folder))?;
        // The cassette is gone, whatever becomes of its content.
        let _ = self.sweep();
        Ok(true)
    }

    /// Removes blobs that no cassette names. None: something of this tenant is in use, and it is
    /// noted that a sweep is due.
    pub fn sweep(&self) -> Result<Option<usize>, StoreError> {
        let lock = self.folder_lock()?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mark = self.folder.join(UNSWEPT);
                fs::write(&mark, []).map_err(at("write", &mark))?;
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(at("lock", &self.folder)(error)),
            Ok(()) => {}
        }
        // Before anything is read: what becomes due meanwhile is noted again.
        let mark = self.folder.join(UNSWEPT);
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at("remove", &mark)(error));
            }
            _ => {}
        }
        let mut needed = HashSet::new();
        for name in self.names()? {
            match self.read(&name) {
                Err(StoreError::Index { source: IndexError::Absent, .. }) => {}
                // One that cannot be read may name anything: nothing is removed.
                index => needed.extend(
                    index?.entries.iter().flat_map(|entry| entry.blobs().map(|blob| blob.sha256)),
                ),
            }
        }
        let unfinished = self.blobs.unfinished();
        match fs::remove_dir_all(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at("remove", unfinished)(error));
            }
            _ => {}
        }
        let all = blob::all(&self.blobs).map_err(at("list", self.blobs.folder()))?;
        let mut removed = 0;
        for digest in all.iter().filter(|digest| !needed.contains(digest)) {
            let path = self.blobs.path(digest);
            fs::remove_file(&path).map_err(at("remove", &path))?;
            removed += 1;
        }
        Ok(Some(removed))
    }

    /// Bytes of the disk that all of this tenant takes, with what is on its way.
    pub(crate) fn stored_bytes(&self) -> Result<u64, StoreError> {
        bytes_below(&self.folder).map_err(at("list", &self.folder))
    }

    pub(crate) fn names(&self) -> Result<Vec<CassetteId>, StoreError> {
        let folder = self.folder.join("cassettes");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            entries => entries.map_err(at("list", &folder))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(at("list", &folder))?;
            names.extend(
                entry.file_name().to_str().and_then(|name| name.parse::<CassetteId>().ok()),
            );
        }
        names.sort();
        Ok(names)
    }

    pub(crate) fn cassette(&self, name: &CassetteId) -> PathBuf {
        self.folder.join("cassettes").join(name.as_str())
    }

    pub(crate) fn index(&self, name: &CassetteId) -> PathBuf {
        self.cassette(name).join("index.jsonl")
    }

    pub(crate) fn read(&self, name: &CassetteId) -> Result<Index, StoreError> {
        Index::read(&self.index(name))
            .map_err(|source| StoreError::Index { name: name.clone(), source })
    }

    /// While it is held, no blob of this tenant is removed.
    pub(crate) fn hold(&self) -> Result<File, StoreError> {
        let lock = self.folder_lock()?;
        lock.lock_shared().map_err(at("lock", &self.folder))?;
        Ok(lock)
    }

    fn folder_lock(&self) -> Result<File, StoreError> {
        make_folder(&self.folder).map_err(at("make", &self.folder))?;
        open_lock(&self.folder.join("lock"))
    }

    /// While it is held, nobody else changes the cassette. Makes its folder.
    pub(crate) fn lock(&self, name: &CassetteId) -> Result<File, StoreError> {
        let folder = self.cassette(name);
        make_folder(&folder).map_err(at("make", &folder))?;
        let path = folder.join("lock");
        let lock = open_lock(&path)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy(name.clone())),
            Err(TryLockError::Error(error)) => return Err(at("lock", &path)(error)),
            Ok(()) => {}
        }
        // It may have been removed between opening and locking: then the file
        // that is locked is not the one that the next recorder will lock.
        let held = lock.metadata().map_err(at("read", &path))?;
        match fs::metadata(&path) {
            Ok(there) if there.dev() == held.dev() && there.ino() == held.ino() => Ok(lock),
            _ => Err(StoreError::Busy(name.clone())),
        }
    }
}

/// Files that go away meanwhile are not counted.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0_u64;
    for entry in entries {
        let entry = entry?;
        let more = match entry.metadata() {
            Err(error) if is_gone(&error) => 0,
            Err(error) => return Err(error),
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path())?,
            Ok(metadata) => metadata.len(),
        };
        bytes = bytes.saturating_add(more);
    }
    Ok(bytes)
}

fn open_lock(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).map_err(at("open", path))
}
