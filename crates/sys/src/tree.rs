//! Removing a tree that a stranger made.
//!
//! Nothing here follows a link, recurses on the stack, or needs a path longer
//! or more descriptors the deeper the tree is.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

/// Whether a removal came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    All,
    /// The budget ran out before; ask again.
    Some,
}

/// The names in a directory, without `.` and `..`.
pub fn names(dir: &OwnedFd) -> Result<impl Iterator<Item = Result<CString>>> {
    let entries = Dir::read_from(dir)?;
    Ok(entries.filter_map(|entry| match entry {
        Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
        Ok(entry) => Some(Ok(entry.file_name().to_owned())),
        Err(errno) => Some(Err(errno)),
    }))
}

/// Removes the file or tree `name` of `parent`, touching at most about
/// `budget` entries.
///
/// Directories found on the way are moved up beside the first one, which is
/// what keeps depth from mattering.
pub fn remove(parent: impl AsFd, name: impl Arg + Copy, budget: usize) -> Result<Removed> {
    let parent = parent.as_fd();
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(Removed::All),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    if rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok() {
        return Ok(Removed::All);
    }
    let top = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?;
    let mut sweep = Sweep { budget, moved: 0 };
    while sweep.level(&top)? {
        if sweep.budget == 0 {
            return Ok(Removed::Some);
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    Ok(Removed::All)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Names taken from one directory at a time.
const BATCH: usize = 4096;

struct Sweep {
    budget: usize,
    moved: u64,
}

impl Sweep {
    /// Removes the files of `top` and flattens its directories by one level.
    /// Answers whether there was anything.
    fn level(&mut self, top: &OwnedFd) -> Result<bool> {
        let batch: Vec<CString> = names(top)?.take(BATCH).collect::<Result<_>>()?;
        for name in &batch {
            self.budget = self.budget.saturating_sub(1);
            match rustix::fs::unlinkat(top, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(errno) => return Err(errno),
            }
            if rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            let dir = rustix::fs::openat(top, name, DIRECTORY, Mode::empty())?;
            self.lift(top, &dir)?;
            if self.budget == 0 {
                break;
            }
        }
        Ok(!batch.is_empty())
    }

    /// Removes the files of `dir` and moves its directories up into `top`.
    fn lift(&mut self, top: &OwnedFd, dir: &OwnedFd) -> Result<()> {
        let batch: Vec<CString> = names(dir)?.take(BATCH).collect::<Result<_>>()?;
        for name in &batch {
            self.budget = self.budget.saturating_sub(1);
            match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(_) => {}
            }
            loop {
                self.moved += 1;
                let up = format!(".removed-{}", self.moved);
                let flags = rustix::fs::RenameFlags::NOREPLACE;
                match rustix::fs::renameat_with(dir, name, top, up.as_str(), flags) {
                    // Left by an earlier request, or planted.
                    Err(Errno::EXIST) => {}
                    other => break other?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn scratch(name: &str) -> (std::path::PathBuf, OwnedFd) {
        // In memory where there is such a place: on disk this takes seconds.
        let memory = std::path::PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir = base.join(format!("belljar-tree-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let fd = File::open(&dir).unwrap().into();
        (dir, fd)
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let (dir, fd) = scratch("deep");
        let mut at = fd.try_clone().unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "directory", Mode::from_raw_mode(0o755)).unwrap();
            at = rustix::fs::openat(&at, "directory", DIRECTORY, Mode::empty()).unwrap();
        }
        assert_eq!(remove(&fd, "directory", usize::MAX), Ok(Removed::All));
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn a_link_is_removed_and_not_followed() {
        let (dir, fd) = scratch("link");
        fs::create_dir(dir.join("kept")).unwrap();
        fs::write(dir.join("kept/file"), "x").unwrap();
        fs::create_dir(dir.join("tree")).unwrap();
        std::os::unix::fs::symlink("../kept", dir.join("tree/link")).unwrap();
        assert_eq!(remove(&fd, "tree", usize::MAX), Ok(Removed::All));
        assert!(dir.join("kept/file").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_small_budget_is_kept_and_the_rest_comes_later() {
        let (dir, fd) = scratch("budget");
        for outer in 0..10 {
            let path = dir.join(format!("tree/{outer}/sub"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("file"), "x").unwrap();
        }
        let mut rounds = 0;
        while remove(&fd, "tree", 5).unwrap() == Removed::Some {
            rounds += 1;
        }
        assert!(rounds > 1, "{rounds}");
        assert!(!dir.join("tree").exists());
        fs::remove_dir(dir).unwrap();
    }
}
