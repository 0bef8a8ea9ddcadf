//! Where cassettes are.
//!
//! ```text
//!   <store>/<tenant's digest>/lock                      shared while in use
//!                            /blobs/ab/cdef….zst        content, once
//!                            /unfinished/               blobs on their way
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

use belljar_model::network::CassetteId;

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

    /// Whether there was one. What no other cassette needs goes with it, unless
    /// something of this tenant is in use or cannot be read; then
    /// [`sweep`](Self::sweep) later.
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

    /// Removes blobs that no cassette names. None: something of this tenant is
    /// in use, and nothing was done.
    pub fn sweep(&self) -> Result<Option<usize>, StoreError> {
        let lock = self.folder_lock()?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(at("lock", &self.folder)(error)),
            Ok(()) => {}
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

fn open_lock(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).map_err(at("open", path))
}
