//! Extended attributes of users' files.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use belljar_guest_proto::{ATTRIBUTE_BYTES, Attribute, EntryKind, Failure, MOST_ATTRIBUTES};
use rustix::fs::{FileType, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

use crate::files::refuse_proc;
use crate::outcome::{Attempt, refuse};
use crate::resolve;

/// The only names that are read or set: others mean something to the kernel.
const USERS: &[u8] = b"user.";

/// Where the overlay keeps its own.
const OVERLAY: &[u8] = b"user.overlay.";

/// Room for the names of one file, and for one value.
const ROOM: usize = 64 << 10;

/// Checks what is asked for.
pub(crate) fn prefix(wanted: Option<&[u8]>) -> Result<Option<&[u8]>, Failure> {
    match wanted {
        Some(prefix) if !prefix.starts_with(USERS) => {
            refuse("look for attributes that are not a user's", Errno::INVAL)
        }
        _ => Ok(wanted),
    }
}

/// Gives a new file its attributes.
pub(crate) fn set(file: BorrowedFd<'_>, attributes: &[Attribute]) -> Result<(), Failure> {
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if attributes.len() > MOST_ATTRIBUTES || bytes > ATTRIBUTE_BYTES {
        return refuse("set so many attributes", Errno::TOOBIG);
    }
    for (name, value) in attributes {
        let own = name.starts_with(USERS) && name.len() > USERS.len() && !name.contains(&0);
        if !own || name.starts_with(OVERLAY) {
            return refuse("set an attribute of this name", Errno::INVAL);
        }
        match rustix::fs::fsetxattr(file, &name[..], value, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => {
                return refuse("set attributes on a file system that has none", Errno::OPNOTSUPP);
            }
            done => done.doing("set an attribute")?,
        }
    }
    Ok(())
}

/// The attributes of `name` in `dir` whose names begin with `prefix`, up to the
/// limits. Only files and directories have any; what may not be read has none.
pub(crate) fn of(dir: &OwnedFd, name: &OsStr, kind: EntryKind, prefix: &[u8]) -> Vec<Attribute> {
    if !matches!(kind, EntryKind::File | EntryKind::Directory) {
        return Vec::new();
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    let Ok(file) = resolve::open_at(dir.as_fd(), Path::new(name), flags, resolve) else {
        return Vec::new();
    };
    read(file.as_fd(), prefix).unwrap_or_default()
}

fn read(file: BorrowedFd<'_>, prefix: &[u8]) -> Result<Vec<Attribute>, Errno> {
    refuse_proc(file)?;
    let stat = rustix::fs::fstat(file)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !kind.is_file() && !kind.is_dir() {
        return Err(Errno::INVAL);
    }
    let mut list = vec![0u8; ROOM];
    let count = rustix::fs::flistxattr(file, &mut list[..])?;
    let names = list[..count].split(|&byte| byte == 0);
    let wanted =
        |name: &&[u8]| !name.is_empty() && name.starts_with(prefix) && !name.starts_with(OVERLAY);
    let mut names: Vec<_> = names.filter(wanted).collect();
    names.sort_unstable();
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut value = vec![0u8; ROOM];
    for name in names.into_iter().take(MOST_ATTRIBUTES) {
        // Removed meanwhile, or longer than anyone may ask for.
        let Ok(count) = rustix::fs::fgetxattr(file, name, &mut value[..]) else { continue };
        bytes += name.len() + count;
        if bytes > ATTRIBUTE_BYTES {
            break;
        }
        found.push((name.to_vec(), value[..count].to_vec()));
    }
    Ok(found)
}
