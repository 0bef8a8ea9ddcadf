//! Where data waits for its runs, under its digest: on the shelf of this host, or
//! among the objects of a server or a platform.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use belljar_objects::{Kept, Objects, ObjectsError, Shelf, ShelfError};
use futures_util::future::BoxFuture;
use tempfile::NamedTempFile;

use super::{Item, checked_name};

/// Why a file cannot be a run's data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{name}`")]
    Write { name: String, source: io::Error },
    #[error("cannot keep `{name}`")]
    Keep { name: String, source: ShelfError },
    #[error("`{}` is not a file", .0.display())]
    NoFile(PathBuf),
    #[error("a dataset cannot be called `{0}`")]
    Name(String),
    #[error("two datasets are called `{0}`")]
    Twice(String),
    #[error("the dataset `{0}` is not here, or is not what it was")]
    Changed(String),
    /// It may be there, and cannot be had now.
    #[error("the dataset `{name}` cannot be fetched")]
    Fetch { name: String, source: ObjectsError },
    #[error("the dataset `{name}` cannot be sent to where data is kept")]
    Send { name: String, source: ObjectsError },
}

/// Where a run's data is found by its digest.
pub trait Depot: fmt::Debug + Send + Sync {
    /// What an item holds, from the beginning, if it still is what it was.
    fn open<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<File, DataError>>;

    /// A file that is to be data of this name when it is written, where there is room
    /// for it.
    fn fresh(&self, name: &str) -> Result<NamedTempFile, DataError>;

    /// Takes a file that is written.
    fn take<'a>(
        &'a self,
        name: &'a str,
        fresh: NamedTempFile,
    ) -> BoxFuture<'a, Result<Item, DataError>>;
}

/// What a tenant has, on a platform or in a server.
impl Depot for Objects {
    fn open<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<File, DataError>> {
        Box::pin(async move {
            self.get_blob(&item.fingerprint).await.map_err(|error| match error {
                ObjectsError::NoBlob(_) | ObjectsError::WrongDigest { .. } => {
                    DataError::Changed(item.name.clone())
                }
                source => DataError::Fetch { name: item.name.clone(), source },
            })
        })
    }

    fn fresh(&self, name: &str) -> Result<NamedTempFile, DataError> {
        NamedTempFile::new_in(self.scratch()).map_err(write(name))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        fresh: NamedTempFile,
    ) -> BoxFuture<'a, Result<Item, DataError>> {
        Box::pin(async move {
            let bytes = fresh.as_file().metadata().map_err(write(name))?.len();
            let put = self.put_file(fresh.path()).await;
            let fingerprint =
                put.map_err(|source| DataError::Send { name: name.to_owned(), source })?;
            Ok(Item { name: name.to_owned(), fingerprint, bytes })
        })
    }
}

/// What this host has. Its sandboxes can be shown the same files.
impl Depot for Shelf {
    fn open<'a>(&'a self, item: &'a Item) -> BoxFuture<'a, Result<File, DataError>> {
        let (shelf, digest) = (self.clone(), item.fingerprint);
        Box::pin(async move {
            let changed = || DataError::Changed(item.name.clone());
            let opened = tokio::task::spawn_blocking(move || shelf.open(&digest)).await;
            opened.map_err(|_| changed())?.map_err(|error| match error {
                ShelfError::Read { path, source } => DataError::Read { path, source },
                _ => changed(),
            })
        })
    }

    fn fresh(&self, name: &str) -> Result<NamedTempFile, DataError> {
        Shelf::fresh(self).map_err(keep(name))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        fresh: NamedTempFile,
    ) -> BoxFuture<'a, Result<Item, DataError>> {
        let shelf = self.clone();
        Box::pin(async move {
            let taken = tokio::task::spawn_blocking(move || shelf.take(fresh)).await;
            let taken = taken.map_err(|error| write(name)(io::Error::other(error)))?;
            Ok(item(name, &taken.map_err(keep(name))?))
        })
    }
}

/// Puts files on a shelf, as they are now and each under its own name.
pub fn shelve_files(shelf: &Shelf, paths: &[PathBuf]) -> Result<Vec<Item>, DataError> {
    let mut items: Vec<Item> = Vec::new();
    for path in paths {
        let item = shelve_file(shelf, path)?;
        if items.iter().any(|other| other.name == item.name) {
            return Err(DataError::Twice(item.name));
        }
        items.push(item);
    }
    Ok(items)
}

/// Puts what is in memory on a shelf.
pub fn shelve_bytes(shelf: &Shelf, name: &str, bytes: &[u8]) -> Result<Item, DataError> {
    let mut fresh = shelf.fresh().map_err(keep(name))?;
    fresh.write_all(bytes).map_err(write(name))?;
    Ok(item(name, &shelf.take(fresh).map_err(keep(name))?))
}

fn shelve_file(shelf: &Shelf, path: &Path) -> Result<Item, DataError> {
    let cannot_read = |source| DataError::Read { path: path.to_owned(), source };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !fs::metadata(path).map_err(cannot_read)?.is_file() {
        return Err(DataError::NoFile(path.to_owned()));
    }
    let name = checked_name(name)?;
    Ok(item(name, &shelf.put_file(path).map_err(keep(name))?))
}

fn keep(name: &str) -> impl FnOnce(ShelfError) -> DataError {
    let name = name.to_owned();
    move |source| DataError::Keep { name, source }
}

fn write(name: &str) -> impl FnOnce(io::Error) -> DataError {
    let name = name.to_owned();
    move |source| DataError::Write { name, source }
}

fn item(name: &str, kept: &Kept) -> Item {
    Item { name: name.to_owned(), fingerprint: kept.digest, bytes: kept.identity.bytes }
}

#[cfg(test)]
mod tests {
    use belljar_objects::Digest;

    use super::*;

    #[tokio::test]
    async fn a_file_is_taken_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("shelf"));
        let path = dir.path().join("a.csv");
        fs::write(&path, "x\n1\n").unwrap();
        let items = shelve_files(&shelf, std::slice::from_ref(&path)).unwrap();
        assert_eq!((items[0].name.as_str(), items[0].bytes), ("a.csv", 4));
        assert_eq!(items[0].fingerprint, Digest::of(b"x\n1\n"));
        fs::write(&path, "x\n2\n").unwrap();
        let file = Depot::open(&shelf, &items[0]).await.unwrap();
        assert_eq!(io::read_to_string(file).unwrap(), "x\n1\n");
        fs::remove_dir_all(dir.path().join("shelf")).unwrap();
        let gone = Depot::open(&shelf, &items[0]).await;
        assert!(matches!(gone, Err(DataError::Changed(_))), "{gone:?}");
    }

    #[test]
    fn names_are_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("shelf"));
        let make = |name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let put = |paths: &[PathBuf]| shelve_files(&shelf, paths);
        assert!(put(&[make("a b.csv"), make("a_b.csv")]).is_ok());
        assert!(matches!(put(&[make("a.csv"), make("a.csv")]), Err(DataError::Twice(_))));
        assert!(matches!(put(&[make("datasets.json")]), Err(DataError::Name(_))));
        assert!(matches!(put(&[dir.path().to_owned()]), Err(DataError::NoFile(_))));
        assert!(matches!(put(&[dir.path().join("no.csv")]), Err(DataError::Read { .. })));
    }
}
