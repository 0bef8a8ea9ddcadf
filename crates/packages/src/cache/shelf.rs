//! Where the files lie: `files/<scope>/<algorithm>/<first two digits>/<digits>`.
//!
//! All names are made from a digest. A file that is being written is in `tmp`
//! under a number, and gets its name in one step, when it was found right.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2};

use super::{Key, Scope};
use crate::digest::Digest;

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot {what} `{path}`")]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` is in use by another process")]
    InUse(PathBuf),
}

#[derive(Debug)]
pub(super) struct Shelf {
    path: PathBuf,
    root: OwnedFd,
    next: AtomicU64,
    /// Holds the lock while the cache is open.
    _lock: File,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Temporary {
    pub(super) file: File,
    path: PathBuf,
}

impl Shelf {
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let at = |what: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| OpenError::Io { what, path, source }
        };
        for directory in [path.to_owned(), path.join("files"), path.join("tmp")] {
            make(&directory).map_err(at("make", &directory))?;
        }
        let lock_path = path.join("lock");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&lock_path).map_err(at("open", &lock_path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| OpenError::InUse(path.to_owned()))?;
        // Nobody else writes here: what is left over is of a process that died.
        let tmp = path.join("tmp");
        for entry in fs::read_dir(&tmp).map_err(at("list", &tmp))?.flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| at("open", path)(error.into()))?;
        Ok(Self { path: path.to_owned(), root, next: AtomicU64::new(0), _lock: lock })
    }

    /// What is there, the least recently used first. What has another name than
    /// we would give it is left alone.
    pub(super) fn scan(&self) -> Result<Vec<(Key, u64)>, OpenError> {
        let mut found: Vec<(SystemTime, Key, u64)> = Vec::new();
        for (scope_name, scope_path) in directories(&self.path.join("files")) {
            let Some(scope) = scope_of(&scope_name) else { continue };
            for (algorithm, path) in directories(&scope_path) {
                for (front, path) in directories(&path) {
                    for (name, facts) in files(&path) {
                        let Some(digest) = Digest::from_hex(&algorithm, &name) else { continue };
                        if digest.hex() == name && name.starts_with(&front) && front.len() == 2 {
                            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                            found.push((used, Key { scope, digest }, facts.len()));
                        }
                    }
                }
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, key, size)| (key, size)).collect())
    }

    pub(super) fn temporary(&self) -> io::Result<Temporary> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join("tmp").join(number.to_string());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Temporary { file, path })
    }

    /// Gives a finished file its name. The bytes reach the disk before the name.
    pub(super) fn put(&self, key: &Key, temporary: &Temporary) -> io::Result<()> {
        let path = self.path.join(relative(key));
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        fs::rename(&temporary.path, path)
    }

    /// Opens a file for reading; links are not followed, wherever they are.
    pub(super) fn get(&self, key: &Key) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = File::from(openat2(&self.root, relative(key), flags, Mode::empty(), resolve)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// A file that cannot be removed is one that will not be found either.
    pub(super) fn remove(&self, key: &Key) {
        let _ = fs::remove_file(self.path.join(relative(key)));
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing left under this name.
        let _ = fs::remove_file(&self.path);
    }
}

pub(super) fn relative(key: &Key) -> PathBuf {
    let scope = match key.scope {
        Scope::Shared => "shared".to_owned(),
        Scope::Tenant(name) => format!("tenant-{}", Digest::Sha256(name).hex()),
    };
    let digits = key.digest.hex();
    let folder = digits.get(..2).unwrap_or_default();
    Path::new("files").join(scope).join(key.digest.algorithm()).join(folder).join(&digits)
}

fn scope_of(name: &str) -> Option<Scope> {
    if name == "shared" {
        return Some(Scope::Shared);
    }
    match Digest::from_hex("sha256", name.strip_prefix("tenant-")?)? {
        Digest::Sha256(name) => Some(Scope::Tenant(name)),
        _ => None,
    }
}

fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

fn directories(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directory = |entry: fs::DirEntry| {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        Some((entry.file_name().into_string().ok()?, entry.path())).filter(|_| is_directory)
    };
    entries.filter_map(directory).collect()
}

fn files(path: &Path) -> Vec<(String, fs::Metadata)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        // This is of the entry itself: a link is not a file.
        let facts = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((entry.file_name().into_string().ok()?, facts))
    };
    entries.filter_map(file).collect()
}
