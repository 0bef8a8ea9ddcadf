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

use crate::attributes;
use crate::files::{look, open, open_parent, path_of};
use crate::outcome::{Attempt, Outcome, refuse};

/// Entries that one request may touch before it must be asked again.
const ENTRIES_A_REQUEST: usize = 100_000;

/// Bytes that one answer may have, well below what a frame can carry.
const BYTES_A_REPLY: usize = belljar_guest_proto::MAX_BODY / 2;

/// Entries of an answer, up to its limits.
struct Found {
    entries: Vec<Entry>,
    bytes: usize,
    most: usize,
}

impl Found {
    fn new(most: u32) -> Self {
        Self { entries: Vec::new(), bytes: 0, most: most as usize }
    }

    /// Adds an entry. `false`: it did not fit, and no more will.
    fn add(&mut self, entry: Entry) -> bool {
        let target = entry.target.as_ref().map_or(0, Vec::len);
        let end = entry.points_to.as_ref().map_or(0, |end| end.path.len());
        let attributes = entry.attributes.iter().map(|(name, value)| name.len() + value.len() + 8);
        // What is not names is a few small numbers.
        let bytes = entry.path.len() + target + end + attributes.sum::<usize>() + 64;
        if self.entries.len() >= self.most || self.bytes + bytes > BYTES_A_REPLY {
            return false;
        }
        self.bytes += bytes;
        self.entries.push(entry);
        true
    }

    fn sorted(mut self) -> Vec<Entry> {
        self.entries.sort_by(|a, b| a.path.cmp(&b.path));
        self.entries
    }
}

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

pub(crate) fn list(path: &[u8], depth: u32, limit: u32, wanted: Option<&[u8]>) -> Outcome {
    let path = path_of(path)?;
    let wanted = attributes::prefix(wanted)?;
    let mut found = Found::new(limit);
    let complete = visit(path, depth.max(1), ENTRIES_A_REQUEST, |path, dir, name, stat| {
        found.add(look(path, dir, name, stat, wanted))
    });
    let complete = complete.doing("list the directory")?;
    Ok(Reply::Entries { entries: found.sorted(), complete })
}

/// Lists the files below `paths` that were changed since `since` (seconds and
/// nanoseconds of the wall clock).
pub(crate) fn changed(paths: &[Vec<u8>], limit: u32, since: (i64, i64)) -> Outcome {
    let mut found = Found::new(limit);
    let mut complete = true;
    for path in paths {
        let path = path_of(path)?;
        let seen = visit(path, DEEPEST, ENTRIES_A_REQUEST, |path, dir, name, stat| {
            let when = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
            if when < since || FileType::from_raw_mode(stat.st_mode).is_dir() {
                return true;
            }
            found.add(look(path, dir, name, stat, None))
        });
        match seen {
            Ok(all) => complete &= all,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).doing("look for changed files"),
        }
    }
    Ok(Reply::Changed(Changed { entries: found.sorted(), complete }))
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
