//! What can go wrong with shared objects.

use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digest;

/// Why a place cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{0}` is neither a directory's absolute path nor s3://BUCKET[/PREFIX]")]
    Place(String),
    #[error("cannot use the directory `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot spool to `{}`", path.display())]
    Scratch { path: PathBuf, source: io::Error },
    #[error("cannot read the settings in `{}`", path.display())]
    Settings { path: PathBuf, source: io::Error },
    #[error("line {line} of `{}` is not `AWS_NAME=value`", path.display())]
    Line { path: PathBuf, line: usize },
    #[error("cannot use the bucket")]
    S3(#[source] Box<object_store::Error>),
    #[error("there is no certificate authority on this host to prove the bucket with")]
    NoAuthorities,
}

/// Why something was not kept, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error("there is no blob {0}")]
    NoBlob(Digest),
    #[error("the blob {named} holds something else, whose digest is {found}")]
    WrongDigest { named: Digest, found: Digest },
    #[error("the record `{0}` is not as expected")]
    Conflict(String),
    #[error("`{0}` cannot be the name of a record")]
    Name(String),
    #[error("the record `{0}` is too long")]
    TooLong(String),
    #[error("cannot {action} `{}`", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {action} `{name}` in the bucket")]
    Bucket { action: &'static str, name: String, source: Box<object_store::Error> },
    #[error("the work broke off")]
    Broken(#[source] io::Error),
}

impl ObjectsError {
    pub(crate) fn broken(error: tokio::task::JoinError) -> Self {
        Self::Broken(io::Error::other(error))
    }

    /// Whether somebody else was quicker: read the record again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }
}

/// Says what was attempted, and on which file.
pub(crate) fn at<E: Into<io::Error>>(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> ObjectsError {
    let path = path.to_owned();
    move |source| ObjectsError::File { action, path, source: source.into() }
}
