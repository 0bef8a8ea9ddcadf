//! Going through whole trees, with bounds on depth, entries and descriptors.
//!
//! Nothing here recurses on the stack: a tree may be as deep as hostile code
//! cared to make it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use belljar_guest_proto::{Changed, Entry, Reply};
use belljar_sys::tree::{self, Removed};
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::files::{entry, open, open_parent, path_of, target};
use crate::outcome::{Attempt, Outcome, refuse};

/// Entries that one request may touch before it must be asked again.
const ENTRIES_A_REQUEST: usize = 100_000;

/// Levels below the start that are looked at.
const DEEPEST: u32 = 64;

/// Visits what is below `root`, at most `depth` levels down and `budget`
/// entries. Answers whether it saw everything.
fn visit(
    root: &Path,
    depth: u32,
    mut budget: usize,
    mut see: impl FnMut(&Path, &OwnedFd, &OsStr, &Stat) -> bool,
) -> Result<bool, Errno> {
    let mut waiting: Vec<(PathBuf, u32)> = vec![(root.to_owned(), 1)];
    let mut first = true;
    while let Some((path, level)) = waiting.pop() {
        let dir = match open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK) {
            Ok(dir) => dir,
            Err(errno) if first => return Err(errno),
            // Removed or closed to us since its name was read.
            Err(_) => continue,
        };
        first = false;
        for name in tree::names(&dir)? {
            let name = name?;
            let name = OsStr::from_bytes(name.as_bytes());
            let Ok(stat) = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            budget = left;
            let path = path.join(name);
            if !see(&path, &dir, name, &stat) {
                return Ok(false);
            }
            if FileType::from_raw_mode(stat.st_mode).is_dir() && level < depth.min(DEEPEST) {
                waiting.push((path, level + 1));
            }
        }
    }
    Ok(true)
}

pub(crate) fn list(path: &[u8], depth: u32, limit: u32) -> Outcome {
    let path = path_of(path)?;
    let mut entries = Vec::new();
    let complete = visit(path, depth.max(1), limit as usize, |path, dir, name, stat| {
        entries.push(entry(path.as_os_str().as_bytes().to_vec(), stat, target(dir, name, stat)));
        true
    });
    let complete = complete.doing("list the directory")?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Reply::Entries { entries, complete })
}

/// Lists the files below `paths` that were changed after `since` (seconds and
/// nanoseconds of the wall clock).
pub(crate) fn changed(paths: &[Vec<u8>], limit: u32, since: (i64, i64)) -> Outcome {
    let mut entries: Vec<Entry> = Vec::new();
    let mut complete = true;
    for path in paths {
        let path = path_of(path)?;
        let seen = visit(path, DEEPEST, ENTRIES_A_REQUEST, |path, dir, name, stat| {
            let when = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
            let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
            if when > since && !is_dir {
                let path = path.as_os_str().as_bytes().to_vec();
                entries.push(entry(path, stat, target(dir, name, stat)));
            }
            entries.len() < limit as usize
        });
        match seen {
            Ok(all) => complete &= all,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).doing("look for changed files"),
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Reply::Changed(Changed { entries, complete }))
}

/// Removes a file or a whole tree.
pub(crate) fn remove(path: &[u8]) -> Outcome {
    let path = path_of(path)?;
    let (parent, name) = open_parent(path).doing("open the directory of the file")?;
    match tree::remove(&parent, name, ENTRIES_A_REQUEST).doing("remove the file")? {
        Removed::All => Ok(Reply::Done),
        Removed::Some => {
            refuse("remove more entries than one request may; ask again", Errno::AGAIN)
        }
    }
}
