//! What several nodes share: content-addressed blobs and small named records,
//! in a directory that all of them see or in a bucket of S3.
//!
//! ```text
//! blobs/<sha256>      immutable; named by what is in it
//! records/<name>      changed by compare-and-set
//! ```
//!
//! Invariants: a blob has its name only when all of it is there; nothing of a
//! blob is handed out before its digest was found to be right; of two changes of
//! one version of a record, one is refused. Memory is bounded by a few parts of
//! 8 MiB, however long a blob is: what has to be seen as a whole is spooled to the
//! scratch directory.
//!
//! Beside them, and of one host alone: the [`Shelf`], files that sandboxes are shown.

mod digest;
mod directory;
mod error;
mod name;
mod open;
mod s3;
mod shelf;
mod spool;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::AsyncRead;

pub use digest::{Digest, InvalidDigest};
pub use error::{ObjectsError, OpenError};
pub use open::Place;
pub use shelf::{Kept, Shelf, ShelfError};

use directory::Directory;
use s3::S3;

/// What a record may hold at most.
pub const MOST_RECORD_BYTES: usize = 4 << 20;

/// A handle to the shared objects; cheap to clone.
#[derive(Debug, Clone)]
pub struct Objects {
    backend: Arc<Backend>,
    scratch: Arc<Path>,
}

#[derive(Debug)]
enum Backend {
    Directory(Directory),
    S3(S3),
}

/// Which state of a record is meant. Opaque: compare it, hand it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(String);

/// What a change of a record counts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// That there is none of this name.
    Absent,
    /// That it is still as it was read.
    Is(Version),
}

/// A blob, as a listing shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobFacts {
    pub digest: Digest,
    pub bytes: u64,
    pub modified: SystemTime,
}

impl Objects {
    /// Opens a place. Long blobs are spooled to `scratch`, which is made if need be.
    pub fn open(place: &Place, scratch: &Path) -> Result<Self, OpenError> {
        std::fs::create_dir_all(scratch)
            .map_err(|source| OpenError::Scratch { path: scratch.to_owned(), source })?;
        let backend = match place {
            Place::Directory(path) => Backend::Directory(Directory::open(path)?),
            Place::S3 { bucket, prefix, settings } => {
                Backend::S3(S3::open(bucket, prefix, settings.as_deref())?)
            }
        };
        Ok(Self { backend: Arc::new(backend), scratch: scratch.into() })
    }

    /// Where files go that are on their way in or out.
    pub fn scratch(&self) -> PathBuf {
        self.scratch.to_path_buf()
    }

    /// Keeps all that the reader has.
    pub async fn put_blob(
        &self,
        content: impl AsyncRead + Send + Unpin,
    ) -> Result<Digest, ObjectsError> {
        let (file, digest) = spool::receive(&self.scratch, content).await?;
        self.put_spooled(file, digest).await?;
        Ok(digest)
    }

    /// Keeps a file that nobody changes meanwhile.
    pub async fn put_file(&self, path: &Path) -> Result<Digest, ObjectsError> {
        let (file, digest) = spool::read(path).await?;
        self.put_spooled(file, digest).await?;
        Ok(digest)
    }

    async fn put_spooled(&self, file: File, digest: Digest) -> Result<(), ObjectsError> {
        // On its own, so that it ends in good order when whoever asked has left.
        let backend = self.backend.clone();
        let put = tokio::spawn(async move {
            match &*backend {
                Backend::Directory(directory) => directory.put_blob(file, &digest).await,
                Backend::S3(s3) => s3.put_blob(file, &digest).await,
            }
        });
        put.await.map_err(ObjectsError::broken)?
    }

    /// Fetches a blob whole and proves it, then hands it out from its beginning.
    pub async fn get_blob(&self, digest: &Digest) -> Result<File, ObjectsError> {
        let (file, found) = match &*self.backend {
            Backend::Directory(directory) => directory.get_blob(digest, &self.scratch).await?,
            Backend::S3(s3) => s3.get_blob(digest, &self.scratch).await?,
        };
        if found == *digest {
            Ok(file)
        } else {
            Err(ObjectsError::WrongDigest { named: *digest, found })
        }
    }

    /// Whether there is such a blob, and since when.
    pub async fn find_blob(&self, digest: &Digest) -> Result<Option<BlobFacts>, ObjectsError> {
        match &*self.backend {
            Backend::Directory(directory) => directory.find_blob(digest).await,
            Backend::S3(s3) => s3.find_blob(digest).await,
        }
    }

    pub async fn list_blobs(&self) -> Result<Vec<BlobFacts>, ObjectsError> {
        match &*self.backend {
            Backend::Directory(directory) => directory.list_blobs().await,
            Backend::S3(s3) => s3.list_blobs().await,
        }
    }

    /// Nothing there is fine, too.
    pub async fn delete_blob(&self, digest: &Digest) -> Result<(), ObjectsError> {
        match &*self.backend {
            Backend::Directory(directory) => directory.delete_blob(digest).await,
            Backend::S3(s3) => s3.delete_blob(digest).await,
        }
    }

    /// Makes or changes a record if it is as expected, else answers
    /// [`ObjectsError::Conflict`].
    pub async fn put_record(
        &self,
        name: &str,
        content: Vec<u8>,
        expected: &Expected,
    ) -> Result<Version, ObjectsError> {
        name::check(name)?;
        if content.len() > MOST_RECORD_BYTES {
            return Err(ObjectsError::TooLong(name.to_owned()));
        }
        match &*self.backend {
            Backend::Directory(directory) => directory.put_record(name, content, expected).await,
            Backend::S3(s3) => s3.put_record(name, content, expected).await,
        }
    }

    pub async fn get_record(&self, name: &str) -> Result<Option<(Vec<u8>, Version)>, ObjectsError> {
        name::check(name)?;
        match &*self.backend {
            Backend::Directory(directory) => directory.get_record(name).await,
            Backend::S3(s3) => s3.get_record(name).await,
        }
    }

    /// Records below a prefix of whole parts, such as `templates/a`, by name.
    pub async fn list_records(&self, prefix: &str) -> Result<Vec<(String, Version)>, ObjectsError> {
        name::check(prefix)?;
        let mut found = match &*self.backend {
            Backend::Directory(directory) => directory.list_records(prefix).await?,
            Backend::S3(s3) => s3.list_records(prefix).await?,
        };
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// Nothing there is fine, too.
    pub async fn delete_record(&self, name: &str) -> Result<(), ObjectsError> {
        name::check(name)?;
        match &*self.backend {
            Backend::Directory(directory) => directory.delete_record(name).await,
            Backend::S3(s3) => s3.delete_record(name).await,
        }
    }
}
