//! How much a directory holds while somebody writes to it.
//!
//! Where the writable layer of a build is a plain directory, it has no size of its
//! own to bound it by, so the server asks this now and then. Files that have no
//! name any more are not found. The tree changes under the walk, by the hand of code that is not
//! trusted: everything is opened relative to its directory, and no link is
//! followed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::confined::{MAX_DEPTH, names};

/// What was found, or what is allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes that files take on disk, or would take as a layer: the larger.
    pub bytes: u64,
    pub entries: u64,
}

impl Amount {
    pub fn exceeds(&self, most: &Self) -> bool {
        self.bytes > most.bytes || self.entries > most.entries
    }
}

/// Adds up a tree; stops once it exceeds `most`. Directories that are nested too deep
/// for a layer are more than any amount.
pub fn measure(path: &Path, most: &Amount) -> io::Result<Amount> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty())?;
    let mut found = Amount::default();
    walk(&root, most, &mut found, 0)?;
    Ok(found)
}

fn walk(directory: &OwnedFd, most: &Amount, found: &mut Amount, depth: usize) -> io::Result<()> {
    for name in names(directory)? {
        let stat = match statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        found.entries += 1;
        // A sparse file is whole once its layer is copied; `st_blocks` counts in 512
        // bytes.
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        found.bytes = found.bytes.saturating_add(blocks.max(length));
        let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
        if is_dir && depth >= MAX_DEPTH {
            *found = Amount { bytes: u64::MAX, entries: u64::MAX };
        }
        if found.exceeds(most) {
            return Ok(());
        }
        if !is_dir {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(directory, &name, flags, Mode::empty()) {
            Ok(child) => walk(&child, most, found, depth + 1)?,
            // It was there a moment ago.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_tree_is_added_up_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/f"), vec![1u8; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let all = Amount { bytes: u64::MAX, entries: u64::MAX };
        let found = measure(dir.path(), &all).unwrap();
        assert_eq!(found.entries, 3);
        assert!(found.bytes >= 1 << 20 && found.bytes < 2 << 20, "{found:?}");
        let little = Amount { bytes: 1000, entries: 100 };
        assert!(measure(dir.path(), &little).unwrap().exceeds(&little));
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_too_much() {
        let most = Amount { bytes: 1 << 30, entries: 10_000 };
        let sparse = tempfile::tempdir().unwrap();
        fs::File::create(sparse.path().join("f")).unwrap().set_len(2 << 30).unwrap();
        assert!(measure(sparse.path(), &most).unwrap().exceeds(&most));
        let deep = tempfile::tempdir().unwrap();
        fs::create_dir_all(deep.path().join("d/".repeat(MAX_DEPTH))).unwrap();
        assert!(!measure(deep.path(), &most).unwrap().exceeds(&most));
        fs::create_dir_all(deep.path().join("d/".repeat(MAX_DEPTH + 1))).unwrap();
        assert!(measure(deep.path(), &most).unwrap().exceeds(&most));
    }
}
