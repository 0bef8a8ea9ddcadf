//! How much a directory holds while somebody writes to it.
//!
//! The writable layer of a build is a plain directory, which has no size of its
//! own to bound it by; whoever runs a step of a stranger's asks this now and
//! then. The tree changes under the walk, by the hand of code that is not
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
    /// Bytes that files take on disk.
    pub bytes: u64,
    pub entries: u64,
}

impl Amount {
    pub fn exceeds(&self, most: &Self) -> bool {
        self.bytes > most.bytes || self.entries > most.entries
    }
}

/// Adds up a tree; stops once it exceeds `most`.
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
        // Sparse files take what they take; `st_blocks` counts in 512 bytes.
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        found.bytes = found.bytes.saturating_add(bytes);
        if found.exceeds(most) {
            return Ok(());
        }
        if !FileType::from_raw_mode(stat.st_mode).is_dir() || depth >= MAX_DEPTH {
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
}
