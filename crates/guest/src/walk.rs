//! Going through whole trees, with bounds on depth, entries and descriptors.
//!
//! Nothing here recurses on the stack: a tree may be as deep as hostile code
//! cared to make it.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use belljar_guest_proto::{Changed, Entry, Reply};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::files::{entry, open, open_parent, path_of, target};
use crate::outcome::{Attempt, Outcome, refuse};

/// Entries that one request may touch before it must be asked again.
const ENTRIES_A_REQUEST: usize = 100_000;

/// Levels below the start that are looked at.
const DEEPEST: u32 = 64;

fn names(dir: &OwnedFd) -> Result<impl Iterator<Item = Result<CString, Errno>>, Errno> {
    let entries = Dir::read_from(dir)?;
    Ok(entries.filter_map(|entry| match entry {
        Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => None,
        Ok(entry) => Some(Ok(entry.file_name().to_owned())),
        Err(errno) => Some(Err(errno)),
    }))
}

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
        for name in names(&dir)? {
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
///
/// Directories found on the way are moved up beside the first one, so that no
/// depth needs more descriptors, stack or path than another.
pub(crate) fn remove(path: &[u8]) -> Outcome {
    let path = path_of(path)?;
    let (parent, name) = open_parent(path).doing("open the directory of the file")?;
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(Reply::Done),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno).doing("remove the file"),
    }
    if rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_ok() {
        return Ok(Reply::Done);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(&parent, name, flags, rustix::fs::Mode::empty())
        .doing("open the directory to remove")?;
    let mut budget = ENTRIES_A_REQUEST;
    let mut moved = 0u64;
    let emptied = loop {
        match empty_one_level(&top, &mut moved, &mut budget) {
            Ok(Level::Empty) => break Ok(()),
            Ok(Level::More) => {}
            Err(errno) => break Err(errno),
        }
        if budget == 0 {
            return refuse("remove more entries than one request may; ask again", Errno::AGAIN);
        }
    };
    emptied.doing("remove what is in the directory")?;
    rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).doing("remove the directory")?;
    Ok(Reply::Done)
}

enum Level {
    Empty,
    More,
}

/// Removes the files in `top` and flattens its directories by one level.
fn empty_one_level(top: &OwnedFd, moved: &mut u64, budget: &mut usize) -> Result<Level, Errno> {
    let mut found = false;
    let all: Vec<CString> = names(top)?.take(4096).collect::<Result<_, _>>()?;
    for name in all {
        found = true;
        *budget = budget.saturating_sub(1);
        match rustix::fs::unlinkat(top, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        if rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR).is_ok() {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(top, &name, flags, rustix::fs::Mode::empty())?;
        let inner: Vec<CString> = names(&dir)?.take(4096).collect::<Result<_, _>>()?;
        for name in inner {
            *budget = budget.saturating_sub(1);
            match rustix::fs::unlinkat(&dir, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(_) => {
                    *moved += 1;
                    let up = format!(".removed-{moved}");
                    rustix::fs::renameat(&dir, &name, top, up.as_str())?;
                }
            }
            if *budget == 0 {
                return Ok(Level::More);
            }
        }
    }
    Ok(if found { Level::More } else { Level::Empty })
}
