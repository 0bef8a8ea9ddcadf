//! Seals a directory tree into a layer: strips what no layer may hold, and
//! names the rest by its content.
//!
//! One walk does both. It opens every entry relative to its directory and never
//! follows a symbolic link, so it is safe on a tree that untrusted code wrote.
//! The digest covers path, type, permissions, owner, size, content and link
//! target, in the order of the names' bytes. Times are left out: they differ
//! between two builds of the same thing.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fgetxattr, flistxattr,
    flistxattr_query, fremovexattr, fstat, openat, readlinkat, statat, unlinkat,
};
use serde::{Deserialize, Serialize};

use crate::confined::{MAX_DEPTH, names};
use crate::digest::{Digest, Fields};

/// What kind of tree is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole root filesystem, or files to lay over one. Device nodes, which
    /// package managers make, are removed.
    Base,
    /// The writable layer of an overlay. Character devices 0:0 mean "deleted"
    /// and are kept, as is the mark of an opaque directory.
    Upper,
    /// Only looked at; nothing is changed.
    Inspect,
}

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    pub digest: Digest,
    /// Sum of file sizes; a file with several names counts once.
    pub bytes: u64,
    pub entries: u64,
    pub stripped: Stripped,
}

/// What sealing took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stripped {
    /// Files and directories that lost setuid or setgid.
    pub set_id: u64,
    /// Extended attributes, file capabilities among them.
    pub attributes: u64,
    pub devices: u64,
    pub sockets_and_fifos: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("cannot {action} `{path}` while sealing a layer")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` is a device; a step in a sandbox cannot have made it")]
    Device(PathBuf),
    #[error("`{path}` has the overlay attribute `{attribute}`, which points outside its layer")]
    Overlay { path: PathBuf, attribute: String },
    #[error("`{0}` is nested more than {MAX_DEPTH} directories deep")]
    TooDeep(PathBuf),
    #[error("the tree holds more than {MAX_ENTRIES} entries")]
    TooMany,
}

const MAX_ENTRIES: u64 = 4_000_000;

/// Strips and names the tree at `path`. Nothing else may write to it meanwhile.
pub fn seal(path: &Path, kind: Kind) -> Result<Sealed, SealError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| SealError::Io {
        action: "open",
        path: path.to_owned(),
        source: e.into(),
    })?;
    let mut walk = Walk {
        kind,
        hash: Fields::new(),
        linked: HashSet::new(),
        bytes: 0,
        entries: 0,
        stripped: Stripped::default(),
    };
    let mut inside = PathBuf::new();
    if kind != Kind::Inspect {
        // An image may say otherwise about `/`; a sandbox without a readable
        // root directory could not start at all.
        fchmod(&root, Mode::from_raw_mode(0o755)).map_err(io_at("set mode of", path))?;
        if rustix::process::geteuid().is_root() {
            fchown(&root, Some(Uid::ROOT), Some(Gid::ROOT)).map_err(io_at("own", path))?;
        }
        walk.attributes(&root, path, true)?;
    }
    walk.directory(&root, &mut inside, 0)?;
    let Walk { mut hash, bytes, entries, stripped, .. } = walk;
    Ok(Sealed { digest: hash.finish(), bytes, entries, stripped })
}

struct Walk {
    kind: Kind,
    hash: Fields,
    linked: HashSet<(u64, u64)>,
    bytes: u64,
    entries: u64,
    stripped: Stripped,
}

impl Walk {
    fn directory(
        &mut self,
        directory: &OwnedFd,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), SealError> {
        if depth > MAX_DEPTH {
            return Err(SealError::TooDeep(path.clone()));
        }
        for name in names(directory).map_err(io_at("list", &*path))? {
            path.push(&name);
            self.entry(directory, &name, path, depth)?;
            path.pop();
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &mut PathBuf,
        depth: usize,
    ) -> Result<(), SealError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(SealError::TooMany);
        }
        let stat =
            statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io_at("stat", &*path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let child =
                    open_at(parent, name, OFlags::DIRECTORY).map_err(io_at("open", &*path))?;
                let mode = self.strip_mode(&child, &stat, path)?;
                let opaque = self.attributes(&child, path, true)?;
                self.record(if opaque { b"o" } else { b"d" }, path, &stat, mode);
                self.directory(&child, path, depth + 1)
            }
            FileType::RegularFile => {
                // O_NONBLOCK matters only if the entry were swapped for a fifo.
                let file =
                    open_at(parent, name, OFlags::NONBLOCK).map_err(io_at("open", &*path))?;
                let mode = self.strip_mode(&file, &stat, path)?;
                self.attributes(&file, path, false)?;
                let mut file = File::from(file);
                let (digest, length) =
                    Digest::of_reader(&mut file).map_err(io_at("read", &*path))?;
                if stat.st_nlink < 2 || self.linked.insert((stat.st_dev, stat.st_ino)) {
                    self.bytes += length;
                }
                self.record(b"f", path, &stat, mode);
                self.hash.number(length).digest(&digest);
                Ok(())
            }
            FileType::Symlink => {
                let target =
                    readlinkat(parent, name, Vec::new()).map_err(io_at("read link", &*path))?;
                self.record(b"l", path, &stat, 0o777);
                self.hash.add(target.as_bytes());
                Ok(())
            }
            FileType::CharacterDevice if self.kind == Kind::Upper && stat.st_rdev == 0 => {
                self.record(b"w", path, &stat, 0);
                Ok(())
            }
            FileType::CharacterDevice | FileType::BlockDevice => {
                if self.kind == Kind::Upper {
                    return Err(SealError::Device(path.clone()));
                }
                self.stripped.devices += 1;
                self.drop_entry(parent, name, path)
            }
            FileType::Fifo | FileType::Socket | FileType::Unknown => {
                self.stripped.sockets_and_fifos += 1;
                self.drop_entry(parent, name, path)
            }
        }
    }

    fn record(&mut self, kind: &[u8], path: &Path, stat: &Stat, mode: u32) {
        self.hash.add(kind).add(path.as_os_str().as_bytes());
        self.hash.number(mode.into()).number(stat.st_uid.into()).number(stat.st_gid.into());
    }

    fn drop_entry(&mut self, parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), SealError> {
        self.entries -= 1;
        if self.kind == Kind::Inspect {
            return Ok(());
        }
        unlinkat(parent, name, AtFlags::empty()).map_err(io_at("remove", path))
    }

    /// Takes setuid and setgid away and returns the permissions that are left.
    fn strip_mode(&mut self, fd: &OwnedFd, seen: &Stat, path: &Path) -> Result<u32, SealError> {
        let stat = fstat(fd).map_err(io_at("stat", path))?;
        if (stat.st_dev, stat.st_ino) != (seen.st_dev, seen.st_ino) {
            let source = io::Error::other("the tree changed while it was sealed");
            return Err(SealError::Io { action: "open", path: path.to_owned(), source });
        }
        let kept = stat.st_mode & 0o1777;
        if stat.st_mode & 0o6000 != 0 {
            self.stripped.set_id += 1;
            if self.kind != Kind::Inspect {
                fchmod(fd, Mode::from_raw_mode(kept)).map_err(io_at("set mode of", path))?;
            }
        }
        Ok(kept)
    }

    /// Removes every extended attribute, but for the mark of an opaque
    /// directory in an upper layer. Returns whether that was found.
    ///
    /// Overlay's other marks are its own bookkeeping, except those that make it
    /// look elsewhere for content: with them a layer would not mean what its
    /// digest says.
    fn attributes(
        &mut self,
        fd: &OwnedFd,
        path: &Path,
        is_directory: bool,
    ) -> Result<bool, SealError> {
        let mut opaque = false;
        if self.kind == Kind::Inspect {
            return Ok(false);
        }
        for name in attribute_names(fd).map_err(io_at("list attributes of", path))? {
            let overlay = name
                .strip_prefix("trusted.overlay.")
                .or_else(|| name.strip_prefix("user.overlay."));
            match overlay {
                // The label is the host's, per file, and cannot be removed.
                None if name == "security.selinux" => continue,
                Some("opaque") if self.kind == Kind::Upper && is_directory => {
                    let mut value = [0; 2];
                    let length = fgetxattr(fd, name.as_str(), &mut value[..])
                        .map_err(io_at("read attribute of", path))?;
                    if &value[..length] == b"y" {
                        opaque = true;
                        continue;
                    }
                    return Err(SealError::Overlay { path: path.to_owned(), attribute: name });
                }
                Some("redirect" | "metacopy" | "whiteout" | "opaque")
                    if self.kind == Kind::Upper =>
                {
                    return Err(SealError::Overlay { path: path.to_owned(), attribute: name });
                }
                Some(_) if self.kind == Kind::Upper => {}
                _ => self.stripped.attributes += 1,
            }
            fremovexattr(fd, name.as_str()).map_err(io_at("remove attribute of", path))?;
        }
        Ok(opaque)
    }
}

/// Whether overlay would hide what is under this directory.
pub(crate) fn is_opaque(directory: &impl AsFd) -> bool {
    ["trusted.overlay.opaque", "user.overlay.opaque"].into_iter().any(|name| {
        let mut value = [0; 2];
        fgetxattr(directory, name, &mut value[..]).is_ok_and(|length| &value[..length] == b"y")
    })
}

fn attribute_names(fd: &OwnedFd) -> io::Result<Vec<String>> {
    let size = match flistxattr_query(fd) {
        Ok(0) | Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut list = vec![0u8; size];
    let length = flistxattr(fd, &mut list[..])?;
    let names = list[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

fn open_at(parent: &OwnedFd, name: &OsStr, extra: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(parent, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra, Mode::empty())
}

fn io_at<E: Into<io::Error>>(
    action: &'static str,
    path: impl AsRef<Path>,
) -> impl FnOnce(E) -> SealError {
    move |source| SealError::Io { action, path: path.as_ref().to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests;
