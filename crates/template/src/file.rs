//! File system failures that say what was attempted, and on what.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", path.display())]
pub struct Error {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

/// For `map_err`: names the attempt that failed.
pub(crate) fn at<E: Into<io::Error>>(
    action: &'static str,
    path: impl AsRef<Path>,
) -> impl FnOnce(E) -> Error {
    move |source| Error { action, path: path.as_ref().to_owned(), source: source.into() }
}
