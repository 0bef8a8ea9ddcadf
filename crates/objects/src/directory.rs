//! Objects in a directory: a disk of this host, or one that several hosts mount.
//!
//! ```text
//! <root>/blobs/<2 digits>/<sha256>
//!        records/<name>
//!        tmp/                        on its way; what is a day old is rubbish
//!        lock                        held while a record changes (`flock(2)`)
//! ```
//!
//! Everything is written to `tmp`, written through to the disk and renamed into
//! place. `flock` also holds between hosts on NFS, since Linux 2.6.12.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use crate::digest::Digest;
use crate::error::{ObjectsError, OpenError, at};
use crate::{BlobFacts, Expected, MOST_RECORD_BYTES, Version, spool};

/// After this long nobody is still writing it.
const RUBBISH: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub(crate) struct Directory {
    root: PathBuf,
}

impl Directory {
    pub(crate) fn open(root: &Path) -> Result<Self, OpenError> {
        let wrong = |source| OpenError::Directory { path: root.to_owned(), source };
        for name in ["blobs", "records", "tmp"] {
            fs::create_dir_all(root.join(name)).map_err(wrong)?;
        }
        // Other tenants' files are in there.
        fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(wrong)?;
        let directory = Self { root: root.canonicalize().map_err(wrong)? };
        directory.sweep().map_err(wrong)?;
        Ok(directory)
    }

    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join("tmp"))? {
            let entry = entry?;
            // Another node may have renamed or removed it meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            if about.modified()?.elapsed().is_ok_and(|age| age > RUBBISH) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    fn blob(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.root.join("blobs").join(&name[..2]).join(name)
    }

    fn record(&self, name: &str) -> PathBuf {
        self.root.join("records").join(name)
    }

    /// Does what waits for disks on a thread for that.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ObjectsError> + Send + 'static,
    ) -> Result<T, ObjectsError> {
        let directory = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&directory));
        done.await.map_err(ObjectsError::broken)?
    }

    /// Fills a file of its own and gives it its name, complete or not at all.
    fn place(
        &self,
        target: &Path,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<(), ObjectsError> {
        let parent = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(at("create", parent))?;
        let tmp = self.root.join("tmp");
        let mut fresh = tempfile::NamedTempFile::new_in(&tmp).map_err(at("create in", &tmp))?;
        fill(fresh.as_file_mut()).map_err(at("write", target))?;
        fresh.as_file().sync_all().map_err(at("write through", target))?;
        fresh.persist(target).map_err(|error| at("create", target)(error.error))?;
        let opened = File::open(parent).map_err(at("open", parent))?;
        opened.sync_all().map_err(at("write through", parent))
    }

    pub(crate) async fn put_blob(
        &self,
        mut content: File,
        digest: &Digest,
    ) -> Result<(), ObjectsError> {
        let digest = *digest;
        self.blocking(move |own| {
            own.place(&own.blob(&digest), |file| io::copy(&mut content, file).map(drop))
        })
        .await
    }

    pub(crate) async fn get_blob(
        &self,
        digest: &Digest,
        scratch: &Path,
    ) -> Result<(File, Digest), ObjectsError> {
        let path = self.blob(digest);
        match tokio::fs::File::open(&path).await {
            // A copy: what was proven must not change while it is used.
            Ok(file) => spool::receive(scratch, file).await,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ObjectsError::NoBlob(*digest))
            }
            Err(error) => Err(at("open", &path)(error)),
        }
    }

    pub(crate) async fn find_blob(
        &self,
        digest: &Digest,
    ) -> Result<Option<BlobFacts>, ObjectsError> {
        let digest = *digest;
        self.blocking(move |own| facts(&own.blob(&digest), digest)).await
    }

    pub(crate) async fn list_blobs(&self) -> Result<Vec<BlobFacts>, ObjectsError> {
        self.blocking(move |own| {
            let mut found = Vec::new();
            for path in files(&own.root.join("blobs"))? {
                let name = path.file_name().and_then(|name| name.to_str());
                let Some(digest) = name.and_then(|name| name.parse().ok()) else { continue };
                found.extend(facts(&path, digest)?);
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn delete_blob(&self, digest: &Digest) -> Result<(), ObjectsError> {
        let path = self.blob(digest);
        self.blocking(move |_| remove(&path)).await
    }

    /// Waits for the right to change records.
    fn lock(&self) -> Result<File, ObjectsError> {
        let path = self.root.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(at("open", &path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(at("lock", &path))?;
        Ok(file)
    }

    pub(crate) async fn put_record(
        &self,
        name: &str,
        content: Vec<u8>,
        expected: &Expected,
    ) -> Result<Version, ObjectsError> {
        let (name, expected) = (name.to_owned(), expected.clone());
        self.blocking(move |own| {
            let path = own.record(&name);
            let _lock = own.lock()?;
            let found = read(&path)?.map(|content| version(&content));
            let as_expected = match (&expected, &found) {
                (Expected::Absent, None) => true,
                (Expected::Is(expected), Some(found)) => expected == found,
                _ => false,
            };
            if !as_expected {
                return Err(ObjectsError::Conflict(name));
            }
            own.place(&path, |file| file.write_all(&content))?;
            Ok(version(&content))
        })
        .await
    }

    pub(crate) async fn get_record(
        &self,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Version)>, ObjectsError> {
        let path = self.record(name);
        let content = self.blocking(move |_| read(&path)).await?;
        Ok(content.map(|content| {
            let version = version(&content);
            (content, version)
        }))
    }

    pub(crate) async fn list_records(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, Version)>, ObjectsError> {
        let prefix = prefix.to_owned();
        self.blocking(move |own| {
            let records = own.root.join("records");
            let mut found = Vec::new();
            for path in files(&records.join(&prefix))? {
                let name = path.strip_prefix(&records).ok().and_then(|name| name.to_str());
                // Gone since the directory was listed, or none of ours.
                let (Some(name), Some(content)) = (name, read(&path)?) else { continue };
                found.push((name.to_owned(), version(&content)));
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn delete_record(&self, name: &str) -> Result<(), ObjectsError> {
        let name = name.to_owned();
        self.blocking(move |own| {
            let _lock = own.lock()?;
            remove(&own.record(&name))
        })
        .await
    }
}

/// A record that comes to hold the same again is the same again: whoever saw it
/// then decides on what is there now.
fn version(content: &[u8]) -> Version {
    Version(Digest::of(content).to_string())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, ObjectsError> {
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => return Ok(None),
        Ok(about) if about.len() > MOST_RECORD_BYTES as u64 => {
            return Err(ObjectsError::TooLong(path.display().to_string()));
        }
        _ => {}
    }
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(at("read", path)(error)),
    }
}

fn remove(path: &Path) -> Result<(), ObjectsError> {
    match fs::remove_file(path) {
        Err(error) if !is_missing(&error) => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

fn facts(path: &Path, digest: Digest) -> Result<Option<BlobFacts>, ObjectsError> {
    match fs::metadata(path) {
        Ok(about) => {
            let modified = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Ok(Some(BlobFacts { digest, bytes: about.len(), modified }))
        }
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(at("look at", path)(error)),
    }
}

/// Every file below a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>, ObjectsError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(at("list", directory)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at("list", directory))?;
        if entry.file_type().map_err(at("list", directory))?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
