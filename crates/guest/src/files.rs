//! Files, with the rights of the user who asks and inside the sandbox's view.
//!
//! Paths may have been planted by hostile code while they are being walked. So
//! every open goes without magic links, nothing on procfs is
//! touched (the guest's own entries are there), and what is opened for content
//! must be a regular file.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use belljar_guest_proto::{Entry, EntryKind, Failure, PointsTo, Reply};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use crate::attributes;
use crate::confiner::Confiner;
use crate::outcome::{Attempt, Outcome, refuse};
use crate::resolve;

/// What procfs answers to `fstatfs`.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// Runs `act` with the file rights of `user`.
pub(crate) fn as_user<T>(
    confiner: &Confiner,
    user: u32,
    act: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    if !confiner.profile.switch_user {
        return act();
    }
    // Rights that were taken in part are given back as well.
    let outcome = confiner.rights.take(user).doing("act as the user").and_then(|()| act());
    confiner.rights.give_back().doing("act as the guest again")?;
    outcome
}

/// The owner of a file that the guest makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user with whose rights it is made.
    Maker,
    /// This user, which takes the right to give files away.
    Other(u32),
}

impl Owner {
    pub(crate) fn of(user: u32, owner: u32) -> Self {
        if user == owner { Self::Maker } else { Self::Other(owner) }
    }

    pub(crate) fn give(self, file: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Maker => Ok(()),
            Self::Other(id) => {
                rustix::fs::fchown(file, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))
            }
        }
    }
}

pub(crate) fn path_of(bytes: &[u8]) -> Result<&Path, Failure> {
    if bytes.contains(&0) {
        return refuse("use a path with a NUL byte", Errno::INVAL);
    }
    let path = Path::new(OsStr::from_bytes(bytes));
    if path.is_absolute() {
        Ok(path)
    } else {
        refuse("use a path that is not absolute", Errno::INVAL)
    }
}

/// Opens `path` as the kernel finds it now, but never through a magic link and
/// never on procfs.
pub(crate) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut flags = flags | OFlags::CLOEXEC;
    // openat2 refuses flags that mean nothing beside O_PATH.
    if !flags.contains(OFlags::PATH) {
        flags |= OFlags::NOCTTY;
    }
    let file = resolve::open_at(CWD, path, flags, ResolveFlags::empty())?;
    refuse_proc(file.as_fd())?;
    Ok(file)
}

pub(crate) fn refuse_proc(file: BorrowedFd<'_>) -> Result<(), Errno> {
    let kind = rustix::fs::fstatfs(file)?.f_type;
    if kind == PROC_SUPER_MAGIC { Err(Errno::ACCESS) } else { Ok(()) }
}

/// Opens the directory that `path` is in, and gives its last name.
pub(crate) fn open_parent(path: &Path) -> Result<(OwnedFd, &OsStr), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().ok_or(Errno::INVAL)?;
    let dir = open(parent, OFlags::PATH | OFlags::DIRECTORY)?;
    Ok((dir, name))
}

/// Opens a regular file for reading, without ever waiting for a writer.
pub(crate) fn open_regular(path: &Path) -> Result<(OwnedFd, u64), Failure> {
    let file = open(path, OFlags::RDONLY | OFlags::NONBLOCK).doing("open the file")?;
    let stat = rustix::fs::fstat(&file).doing("access the file")?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, u64::try_from(stat.st_size).unwrap_or(0))),
        FileType::Directory => refuse("read a directory as a file", Errno::ISDIR),
        _ => refuse("read what is not a regular file", Errno::INVAL),
    }
}

pub(crate) fn stat(path: &[u8], wanted: Option<&[u8]>) -> Outcome {
    let path = path_of(path)?;
    let wanted = attributes::prefix(wanted)?;
    if path == Path::new("/") {
        let dir = open(path, OFlags::PATH).doing("open the directory")?;
        let stat = rustix::fs::fstat(&dir).doing("access the file")?;
        let found = look(path, &dir, OsStr::new("."), &stat, wanted);
        return Ok(Reply::Entry(found));
    }
    let (dir, name) = open_parent(path).doing("open the directory of the file")?;
    let stat =
        rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).doing("access the file")?;
    Ok(Reply::Entry(look(path, &dir, name, &stat, wanted)))
}

/// All that there is to say about `name` in `dir`. What cannot be found out, or
/// has changed meanwhile, is left out.
pub(crate) fn look(
    path: &Path,
    dir: &OwnedFd,
    name: &OsStr,
    stat: &Stat,
    wanted: Option<&[u8]>,
) -> Entry {
    let mut entry = entry(path.as_os_str().as_bytes().to_vec(), stat);
    if entry.kind == EntryKind::Symlink {
        let target = rustix::fs::readlinkat(dir, name, Vec::new());
        entry.target = target.ok().map(std::ffi::CString::into_bytes);
        entry.points_to = points_to(dir, name);
    }
    if let Some(prefix) = wanted {
        entry.attributes = attributes::of(dir, name, entry.kind, prefix);
    }
    entry
}

/// Follows a link to its end, with the rights of the user who asks.
fn points_to(dir: &OwnedFd, name: &OsStr) -> Option<PointsTo> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let end = resolve::open_at(dir.as_fd(), Path::new(name), flags, ResolveFlags::empty()).ok()?;
    refuse_proc(end.as_fd()).ok()?;
    let stat = rustix::fs::fstat(&end).ok()?;
    // The kernel knows the name by which it got there; one without a name is
    // being removed.
    let link = format!("/proc/self/fd/{}", end.as_raw_fd());
    let path = rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes();
    let named = path.starts_with(b"/") && stat.st_nlink > 0;
    named.then(|| PointsTo { path, kind: kind_of(&stat), mode: stat.st_mode & 0o7777 })
}

pub(crate) fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        _ => EntryKind::Device,
    }
}

#[expect(clippy::cast_sign_loss, reason = "sizes and block counts are never negative")]
fn entry(path: Vec<u8>, stat: &Stat) -> Entry {
    Entry {
        path,
        kind: kind_of(stat),
        size: stat.st_size as u64,
        allocated: stat.st_blocks as u64 * 512,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified_seconds: stat.st_mtime,
        modified_nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
        target: None,
        points_to: None,
        attributes: Vec::new(),
    }
}

/// Makes a directory and those above it that are missing.
pub(crate) fn make_dir(path: &[u8], new: bool, owner: Owner) -> Outcome {
    let path = path_of(path)?;
    if !new {
        let made = make_dirs(path).doing("make the directory")?;
        made.give_to(owner).doing("give the directory away")?;
        return Ok(Reply::Done);
    }
    let Some(parent) = path.parent() else {
        return refuse("make the root directory", Errno::EXIST);
    };
    let mut made = make_dirs(parent).doing("make the directory above")?;
    let (parent, name) = open_parent(path).doing("open the directory above")?;
    let mode = Mode::from_raw_mode(0o755);
    rustix::fs::mkdirat(&parent, name, mode).doing("make the directory")?;
    made.0.push(path);
    made.give_to(owner).doing("give the directory away")?;
    Ok(Reply::Done)
}

/// Directories that were made, each in the one before it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Made<'a>(Vec<&'a Path>);

impl Made<'_> {
    /// Gives them away, the innermost first: the owner of a directory may put something else in
    /// the place of what is in it.
    pub(crate) fn give_to(&self, owner: Owner) -> Result<(), Errno> {
        if owner == Owner::Maker {
            return Ok(());
        }
        for dir in self.0.iter().rev() {
            owner.give(&open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?)?;
        }
        Ok(())
    }
}

/// Makes a directory and those above it that are missing, and answers which.
pub(crate) fn make_dirs(path: &Path) -> Result<Made<'_>, Errno> {
    // Before anything is made: a path that cannot be opened in the end.
    const PATH_MAX: usize = 4096;
    if path.as_os_str().len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    // From the deepest that exists down, so that each name is made below a
    // directory that was opened safely.
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|dir| open(dir, OFlags::PATH | OFlags::DIRECTORY).is_err())
        .collect();
    let mut made = Vec::new();
    for dir in missing.into_iter().rev() {
        let (parent, name) = open_parent(dir)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => made.push(dir),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    open(path, OFlags::PATH | OFlags::DIRECTORY)?;
    Ok(Made(made))
}

pub(crate) fn rename(from: &[u8], to: &[u8]) -> Outcome {
    let (from, to) = (path_of(from)?, path_of(to)?);
    let (from_dir, from_name) = open_parent(from).doing("open the directory of the source")?;
    let (to_dir, to_name) = open_parent(to).doing("open the directory of the target")?;
    rustix::fs::renameat(&from_dir, from_name, &to_dir, to_name).doing("move the file")?;
    Ok(Reply::Done)
}
