//! Files that sandboxes are shown, kept under their digests on this host.
//!
//! ```text
//! <root>/<sha256>/<sha256>    a file, alone in its directory
//!        .new-…               on its way
//! ```
//!
//! A file here is one of the shelf's own, also if it came from the same disk:
//! whoever changes what it was made of changes nothing here. Where the file system
//! can share the content of two files, that costs nothing. Anybody may read the
//! files and nobody but their owner gets to them: the root is closed, and
//! sandboxes are shown files without the way there.
//!
//! Invariant: what is handed out was read whole since it last changed, through
//! the descriptor that tells which file it is, and had the digest that it is
//! named by.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use belljar_domain::data::{Data, Identity, Shown, Unfit};
use rustix::fs::{Mode, OFlags, ioctl_ficlone};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::digest::Digest;

/// Why a file is not kept, or cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot keep files in `{}`", root.display())]
    Keep { root: PathBuf, source: io::Error },
    #[error("there is no dataset {0}")]
    Absent(Digest),
    #[error("the dataset {0} is not what it was")]
    Changed(Digest),
    #[error("these datasets cannot be shown")]
    Unfit(#[source] Unfit),
}

/// A handle to the shelf in a directory; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shelf {
    root: Arc<Path>,
    /// What was found to be right, and has not changed since.
    proven: Arc<Mutex<HashMap<Digest, Identity>>>,
}

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub digest: Digest,
    pub identity: Identity,
    /// Where it can be read. Whoever mounts it says which file is meant.
    pub path: PathBuf,
}

const PIECE: usize = 1 << 20;
/// How names begin of what is on its way.
const NEW: &str = ".new-";

impl Shelf {
    pub fn new(root: PathBuf) -> Self {
        Self { root: root.into(), proven: Arc::default() }
    }

    /// Keeps what a file holds now.
    pub fn put_file(&self, path: &Path) -> Result<Kept, ShelfError> {
        let cannot_read = |source| ShelfError::Read { path: path.to_owned(), source };
        let mut source = File::open(path).map_err(cannot_read)?;
        let mut fresh = self.fresh()?;
        if ioctl_ficlone(fresh.as_file(), &source).is_ok() {
            return self.take(fresh);
        }
        let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
        loop {
            match source.read(&mut piece).map_err(cannot_read)? {
                0 => return self.place(fresh, Digest::from_hash(hash)),
                count => {
                    hash.update(&piece[..count]);
                    fresh.write_all(&piece[..count]).map_err(|error| self.cannot(error))?;
                }
            }
        }
    }

    /// Keeps what an open file holds from where it stands.
    pub fn put(&self, content: &mut File) -> Result<Kept, ShelfError> {
        let mut fresh = self.fresh()?;
        let copied = io::copy(content, fresh.as_file_mut());
        copied.map_err(|error| self.cannot(error))?;
        self.take(fresh)
    }

    /// A file to be written and [taken](Self::take). It is gone if nobody takes it.
    pub fn fresh(&self) -> Result<NamedTempFile, ShelfError> {
        let make = || {
            fs::create_dir_all(&self.root)?;
            fs::set_permissions(&self.root, Permissions::from_mode(0o700))?;
            tempfile::Builder::new().prefix(NEW).tempfile_in(&self.root)
        };
        make().map_err(|error| self.cannot(error))
    }

    /// Keeps a file that is written.
    pub fn take(&self, mut fresh: NamedTempFile) -> Result<Kept, ShelfError> {
        let hashed = fresh.rewind().and_then(|()| digest(fresh.as_file()));
        let digest = hashed.map_err(|error| self.cannot(error))?;
        self.place(fresh, digest)
    }

    /// Gives a file its name. One that is there already stays, if it is the same:
    /// somebody may be shown it.
    fn place(&self, mut fresh: NamedTempFile, digest: Digest) -> Result<Kept, ShelfError> {
        let place = || {
            let path = self.path(&digest);
            if let Some(identity) = same(&path, fresh.as_file_mut())? {
                return Ok(Kept { digest, identity, path });
            }
            let (name, target) = (digest.to_string(), self.root.join(digest.to_string()));
            let dir = tempfile::Builder::new().prefix(NEW).tempdir_in(&self.root)?;
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
            fresh.as_file().set_permissions(Permissions::from_mode(0o444))?;
            let file = fresh.persist(dir.path().join(name)).map_err(|error| error.error)?;
            remove(&target)?;
            fs::rename(dir.path(), &target)?;
            Ok(Kept { digest, identity: identity(&file)?, path })
        };
        let kept = place().map_err(|error| self.cannot(error))?;
        self.proven().insert(digest, kept.identity);
        Ok(kept)
    }

    /// Finds a file, and proves that it still is what it was.
    pub fn find(&self, digest: &Digest) -> Result<Kept, ShelfError> {
        let (_, identity) = self.prove(digest)?;
        Ok(Kept { digest: *digest, identity, path: self.path(digest) })
    }

    /// The same file, to be read from its beginning.
    pub fn open(&self, digest: &Digest) -> Result<File, ShelfError> {
        self.prove(digest).map(|(file, _)| file)
    }

    fn prove(&self, digest: &Digest) -> Result<(File, Identity), ShelfError> {
        let path = self.path(digest);
        let cannot_read = |source| ShelfError::Read { path: path.clone(), source };
        let mut file = open(&path).map_err(cannot_read)?.ok_or(ShelfError::Absent(*digest))?;
        let identity = identity(&file).map_err(cannot_read)?;
        if self.proven().get(digest) == Some(&identity) {
            return Ok((file, identity));
        }
        let found = self::digest(&file).map_err(cannot_read)?;
        let after = self::identity(&file).map_err(cannot_read)?;
        if found != *digest || after != identity {
            return Err(ShelfError::Changed(*digest));
        }
        file.rewind().map_err(cannot_read)?;
        self.proven().insert(*digest, identity);
        Ok((file, identity))
    }

    /// What a sandbox is to be shown, each file under a name of its own.
    pub fn show(&self, files: &[(String, Digest)]) -> Result<Data, ShelfError> {
        let show = |(name, digest): &(String, Digest)| {
            let Kept { digest, identity, .. } = self.find(digest)?;
            Ok(Shown { name: name.clone(), content: digest.to_string(), identity })
        };
        let files = files.iter().map(show).collect::<Result<Vec<_>, _>>()?;
        let root = std::path::absolute(&self.root).map_err(|error| self.cannot(error))?;
        Data::new(root, files).map_err(ShelfError::Unfit)
    }

    /// Finds a file, and notes that it is wanted now.
    pub fn touch(&self, digest: &Digest) -> Result<Kept, ShelfError> {
        let kept = self.find(digest)?;
        // Of the directory: the file's own times are part of its identity.
        let noted = File::open(self.directory(digest));
        let noted = noted.and_then(|directory| directory.set_modified(SystemTime::now()));
        noted.map_err(|error| self.cannot(error))?;
        Ok(kept)
    }

    /// The digests of all files that are kept.
    pub fn list(&self) -> Result<Vec<Digest>, ShelfError> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| self.cannot(error))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| self.cannot(error))?.file_name();
            found.extend(name.to_str().and_then(|name| name.parse::<Digest>().ok()));
        }
        Ok(found)
    }

    /// Removes a file that was last [wanted](Self::touch) so long ago; answers whether it did. No
    /// sandbox may have mounted it: one that was paused could not mount it again.
    pub fn remove_unused(&self, digest: &Digest, age: Duration) -> Result<bool, ShelfError> {
        let directory = self.directory(digest);
        let wanted = match fs::symlink_metadata(&directory).and_then(|about| about.modified()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            wanted => wanted.map_err(|error| self.cannot(error))?,
        };
        if wanted.elapsed().is_ok_and(|elapsed| elapsed >= age) {
            self.proven().remove(digest);
            remove(&directory).map_err(|error| self.cannot(error))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The directory in which a file is alone.
    fn directory(&self, digest: &Digest) -> PathBuf {
        self.root.join(digest.to_string())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join(&name).join(&name)
    }

    fn proven(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Identity>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cannot(&self, source: io::Error) -> ShelfError {
        ShelfError::Keep { root: self.root.to_path_buf(), source }
    }
}

/// Opens a file, and nothing else; none: there is none.
fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => {
            let file = File::from(file);
            Ok(file.metadata()?.is_file().then_some(file))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn identity(file: &File) -> io::Result<Identity> {
    let about = file.metadata()?;
    Ok(Identity {
        inode: about.ino(),
        bytes: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

/// Reads a file from where it stands.
fn digest(mut file: &File) -> io::Result<Digest> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Digest::from_hash(hash)),
            count => hash.update(&piece[..count]),
        }
    }
}

/// Which file is at `path`, if it holds what `fresh` holds. To compare is several
/// times as fast as to hash.
fn same(path: &Path, fresh: &mut File) -> io::Result<Option<Identity>> {
    let Some(mut there) = open(path)? else { return Ok(None) };
    let before = identity(&there)?;
    if before.bytes != identity(fresh)?.bytes {
        return Ok(None);
    }
    fresh.rewind()?;
    let (mut one, mut other) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let count = there.read(&mut one)?;
        if count == 0 {
            return Ok((identity(&there)? == before).then_some(before));
        }
        match fresh.read_exact(&mut other[..count]) {
            Ok(()) if one[..count] == other[..count] => {}
            Ok(()) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Removes what lies where a file is to be.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
