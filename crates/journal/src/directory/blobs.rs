//! Blobs of a run: files that are named by what is in them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use belljar_objects::Digest;

use super::trouble::{Trouble, at};
use crate::blob::BlobRef;
use crate::error::BlobError;

/// Complete and on the disk, or not there at all.
pub(super) fn put(run: &Path, blob: &BlobRef, content: &[u8]) -> Result<(), Trouble> {
    let dir = run.join("blobs");
    let path = dir.join(blob.sha256.to_string());
    let mut fresh = tempfile::NamedTempFile::new_in(&dir).map_err(at("create in", &dir))?;
    fresh.write_all(content).map_err(at("write", &path))?;
    fresh.as_file().sync_all().map_err(at("write through", &path))?;
    fresh.persist(&path).map_err(|error| at("create", &path)(error.error))?;
    sync(&dir)
}

/// None: the run has no such blob.
pub(super) fn get(run: &Path, blob: &BlobRef) -> Result<Option<Vec<u8>>, BlobError> {
    let path = run.join("blobs").join(blob.sha256.to_string());
    let content = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        content => content.map_err(at("read", &path))?,
    };
    if Digest::of(&content) == blob.sha256 {
        Ok(Some(content))
    } else {
        Err(BlobError::Damaged(blob.sha256))
    }
}

/// Names in a directory are on the disk only after this.
pub(super) fn sync(dir: &Path) -> Result<(), Trouble> {
    let opened = File::open(dir).map_err(at("open", dir))?;
    opened.sync_all().map_err(at("write through", dir))
}
