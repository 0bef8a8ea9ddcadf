//! A layer as one file, to be carried to another store.
//!
//! A zstd-compressed tar archive. What tar has no word for stands in it as devices,
//! of which no sealed layer has any: a character device is a whiteout; a block
//! device says that the directory of the same name, which comes before it, is
//! opaque, and by which attribute. Times are carried along, since interpreters
//! compare them with their caches; a layer's digest leaves them out.
//!
//! What is unpacked is a tree in a workspace, and a layer only after
//! [`Store::add_known_layer`](crate::Store::add_known_layer) found that its digest
//! is right.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fgetxattr, openat, readlinkat, statat};
use tar::{Builder, EntryType, Header};

use crate::confined::{MAX_DEPTH, Root, names};
use crate::file::{self, at};
use crate::oci::{Caps, Unpack, UnpackError};

/// Why a layer could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("cannot unpack the layer")]
    Unpack(#[source] UnpackError),
}

/// Attributes that make a directory opaque.
const MARKS: [&str; 2] = ["trusted.overlay.opaque", "user.overlay.opaque"];

/// As many bytes as a header has room for.
const SHORT: usize = 100;

const LEVEL: i32 = 3;

pub(crate) fn mark(text: &[u8]) -> Option<&'static str> {
    MARKS.into_iter().find(|mark| mark.as_bytes() == text)
}

/// Writes a sealed layer to `target`.
pub fn pack(layer: &Path, target: &mut File) -> Result<(), PackError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(layer, flags, Mode::empty()).map_err(at("open", layer))?;
    let pack = || {
        let encoder = zstd::stream::write::Encoder::new(BufWriter::new(target), LEVEL)?;
        let encoder = archive(&root, encoder)?;
        encoder.finish()?.into_inner().map_err(|error| error.into_error())?;
        Ok::<_, io::Error>(())
    };
    Ok(pack().map_err(at("pack", layer))?)
}

/// Copies a sealed layer into an empty directory, possibly of another file system.
pub(crate) fn copy(layer: &Path, into: &Path, caps: Caps) -> Result<(), PackError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let from = rustix::fs::open(layer, flags, Mode::empty()).map_err(at("open", layer))?;
    let root = Root::open(into).map_err(at("open", into))?;
    let (reader, writer) = io::pipe().map_err(at("copy", layer))?;
    let (read, written) = std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let writer = BufWriter::with_capacity(1 << 16, writer);
            archive(&from, writer)?.flush()
        });
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let mut read = Unpack::packed(&root, caps).entries(&mut reader).map(drop);
        if read.is_ok() {
            // The padding after the last entry.
            let rest = io::copy(&mut reader, &mut io::sink());
            read = rest.map(drop).map_err(UnpackError::Archive);
        }
        // With this end of the pipe closed, the other thread never waits.
        drop(reader);
        (read, writing.join())
    });
    // Who reads has seen more: a writer whose reader left has a broken pipe to tell of.
    read.map_err(PackError::Unpack)?;
    let written = written.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
    Ok(written.map_err(at("copy", layer))?)
}

/// Writes the entries of a sealed layer.
fn archive<W: Write>(root: &OwnedFd, target: W) -> io::Result<W> {
    let mut pack = Pack { archive: Builder::new(target), linked: HashMap::new() };
    pack.directory(root, &mut PathBuf::new(), 0)?;
    pack.archive.into_inner()
}

/// Reads what [`pack`] wrote into an empty directory.
pub fn unpack(packed: &mut File, into: &Path, caps: Caps) -> Result<(), PackError> {
    let root = Root::open(into).map_err(at("open", into))?;
    let damaged = |error| PackError::Unpack(UnpackError::Archive(error));
    let buffered = BufReader::with_capacity(128 * 1024, packed);
    let mut reader = zstd::stream::read::Decoder::with_buffer(buffered).map_err(damaged)?;
    reader.window_log_max(27).map_err(damaged)?;
    Unpack::packed(&root, caps).entries(reader).map(drop).map_err(PackError::Unpack)
}

struct Pack<W: Write> {
    archive: Builder<W>,
    /// Files with several names, by the first.
    linked: HashMap<(u64, u64), PathBuf>,
}

impl<W: Write> Pack<W> {
    fn directory(&mut self, from: &OwnedFd, path: &mut PathBuf, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for name in names(from)? {
            path.push(&name);
            self.entry(from, &name, path, depth)?;
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
    ) -> io::Result<()> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let child = open(parent, name, OFlags::DIRECTORY)?;
                self.add(EntryType::Directory, path, &stat, b"", io::empty(), 0)?;
                if let Some(mark) = opaque(&child) {
                    let kind = EntryType::Block;
                    self.add(kind, path, &stat, mark.as_bytes(), io::empty(), 0)?;
                }
                self.directory(&child, path, depth + 1)
            }
            FileType::RegularFile => {
                if stat.st_nlink > 1 {
                    let key = (stat.st_dev, stat.st_ino);
                    if let Some(first) = self.linked.get(&key).cloned() {
                        let first = first.as_os_str().as_bytes();
                        return self.add(EntryType::Link, path, &stat, first, io::empty(), 0);
                    }
                    self.linked.insert(key, path.clone());
                }
                let file = File::from(open(parent, name, OFlags::NONBLOCK)?);
                let length = file.metadata()?.len();
                self.add(EntryType::Regular, path, &stat, b"", file.take(length), length)
            }
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new())?;
                self.add(EntryType::Symlink, path, &stat, target.as_bytes(), io::empty(), 0)
            }
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                self.add(EntryType::Char, path, &stat, b"", io::empty(), 0)
            }
            other => Err(io::Error::other(format!("a sealed layer has a {other:?} in it"))),
        }
    }

    fn add(
        &mut self,
        kind: EntryType,
        path: &Path,
        stat: &Stat,
        link: &[u8],
        content: impl Read,
        length: u64,
    ) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(stat.st_mode & 0o1777);
        header.set_uid(stat.st_uid.into());
        header.set_gid(stat.st_gid.into());
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
        header.set_size(length);
        // Names stand there byte for byte; the archive's own ways tidy them up.
        let path = path.as_os_str().as_bytes();
        self.long(EntryType::GNULongName, path)?;
        self.long(EntryType::GNULongLink, link)?;
        if let Some(fields) = header.as_gnu_mut() {
            fields.name[..path.len().min(SHORT)].copy_from_slice(&path[..path.len().min(SHORT)]);
            fields.linkname[..link.len().min(SHORT)]
                .copy_from_slice(&link[..link.len().min(SHORT)]);
        }
        header.set_cksum();
        self.archive.append(&header, content)
    }

    /// An entry before the entry, for a name that its header has no room for.
    fn long(&mut self, kind: EntryType, name: &[u8]) -> io::Result<()> {
        if name.len() <= SHORT {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(name.len() as u64 + 1);
        header.set_cksum();
        self.archive.append(&header, name.chain(&[0][..]))
    }
}

fn opaque(directory: &OwnedFd) -> Option<&'static str> {
    MARKS.into_iter().find(|mark| {
        let mut value = [0; 2];
        fgetxattr(directory, *mark, &mut value[..]).is_ok_and(|length| &value[..length] == b"y")
    })
}

fn open(parent: &OwnedFd, name: &OsStr, extra: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(parent, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | extra, Mode::empty())
}

#[cfg(test)]
mod tests;
