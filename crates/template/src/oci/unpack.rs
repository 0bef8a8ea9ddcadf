//! Unpacks layers into one tree.
//!
//! What a hostile layer could try, and what stops it: paths with `..` or from
//! the root are refused; a link planted where a directory belongs resolves
//! inside the tree ([`confined`](crate::confined)); hard links resolve the same
//! way; devices, sockets and fifos are skipped; extended attributes are never
//! read; bytes and entries are counted against [`Caps`] over all layers.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tar::EntryType;

use super::Caps;
use super::entries::{Header, for_each};
use crate::confined::{Attributes, Escape, Root, relative};
use crate::digest::Digest;

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error("the archive is damaged")]
    Archive(#[source] io::Error),
    #[error("the path `{0}` leads outside the image")]
    Escape(String),
    #[error("cannot write `{path}`")]
    Write { path: String, source: io::Error },
    #[error("an extension header is damaged or too long")]
    Extension,
    #[error("the archive has a sparse file, which is not supported")]
    Sparse,
    #[error("the archive has a file with the invalid owner {0}")]
    Owner(u64),
    #[error("the archive has an entry of unknown type `{0}`")]
    EntryType(char),
    #[error("`{0}` has an invalid whiteout name")]
    Mark(String),
    #[error("the image unpacks to more than {0} bytes")]
    TooLarge(u64),
    #[error("the image has more than {0} entries")]
    TooMany(u64),
}

/// What was left out of an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    pub devices: u64,
}

impl From<Escape> for UnpackError {
    fn from(escape: Escape) -> Self {
        Self::Escape(escape.0)
    }
}

pub(crate) struct Unpack<'a> {
    root: &'a Root,
    reading: Reading,
    caps: Caps,
    bytes: u64,
    entries: u64,
    skipped: Skipped,
}

/// What an archive is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A layer of an image, to be laid over what is there.
    Image,
    /// A layer of ours, whose marks are kept as they are: see [`crate::pack`].
    Packed,
}

/// What a name with the whiteout prefix asks for.
enum Whiteout<'a> {
    No,
    Remove(&'a OsStr),
    Opaque,
}

impl<'a> Unpack<'a> {
    pub(crate) fn new(root: &'a Root, caps: Caps) -> Self {
        let skipped = Skipped::default();
        Self { root, reading: Reading::Image, caps, bytes: 0, entries: 0, skipped }
    }

    /// Keeps whiteouts and opaque directories, and takes every name for itself.
    pub(crate) fn packed(root: &'a Root, caps: Caps) -> Self {
        Self { reading: Reading::Packed, ..Self::new(root, caps) }
    }

    pub(super) fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Removes from the tree what this layer says is gone.
    pub(super) fn whiteouts(&self, layer: impl Read) -> Result<(), UnpackError> {
        let counted = Counted::new(layer, self.left());
        for_each(counted, |header, _| {
            let path = relative(&header.path)?;
            let parent = path.parent().unwrap_or(Path::new(""));
            let done = match whiteout(&path)? {
                Whiteout::No => Ok(()),
                Whiteout::Remove(name) => self.root.remove(&parent.join(name)),
                Whiteout::Opaque => self.root.clear(parent),
            };
            done.map_err(|source| write_error(&path, source))
        })
        .map(drop)
        .map_err(|error| self.explain(error))
    }

    /// Adds this layer's entries, and returns the digest of the whole archive.
    pub(crate) fn entries(&mut self, layer: impl Read) -> Result<Digest, UnpackError> {
        let counted = Counted::new(layer, self.left());
        let result = for_each(counted, |header, content| {
            self.entries += 1;
            if self.entries > self.caps.entries {
                return Err(UnpackError::TooMany(self.caps.entries));
            }
            self.entry(header, content)
        });
        let mut counted = result.map_err(|error| self.explain(error))?;
        // The digest covers what stands after the last entry, too.
        io::copy(&mut counted, &mut io::sink())
            .map_err(|error| self.explain(UnpackError::Archive(error)))?;
        self.bytes += counted.seen;
        Ok(counted.digest())
    }

    fn left(&self) -> u64 {
        self.caps.bytes.saturating_sub(self.bytes)
    }

    /// The reader can only say that it stopped; this says why.
    fn explain(&self, error: UnpackError) -> UnpackError {
        match error {
            UnpackError::Archive(source) | UnpackError::Write { source, .. }
                if source.kind() == io::ErrorKind::FileTooLarge
                    && source.get_ref().is_some_and(|inner| inner.is::<OverCap>()) =>
            {
                UnpackError::TooLarge(self.caps.bytes)
            }
            other => other,
        }
    }

    fn entry(&mut self, header: &Header, content: &mut dyn Read) -> Result<(), UnpackError> {
        let path = relative(&header.path)?;
        let is_packed = self.reading == Reading::Packed;
        if !is_packed && !matches!(whiteout(&path)?, Whiteout::No) {
            return Ok(());
        }
        let attributes =
            Attributes { mode: header.mode, owner: header.owner, modified: header.modified };
        let done = match header.kind {
            EntryType::Directory => self.root.directory(&path, &attributes),
            EntryType::Regular | EntryType::Continuous => {
                self.root.file(&path, content, &attributes).map(drop)
            }
            EntryType::Symlink => {
                self.root.symlink(&path, OsStr::from_bytes(&header.link), &attributes)
            }
            EntryType::Link => self.root.hard_link(&path, &relative(&header.link)?),
            EntryType::Char if is_packed => self.root.whiteout(&path, &attributes),
            EntryType::Block if is_packed => match crate::pack::mark(&header.link) {
                Some(mark) => self.root.opaque(&path, mark),
                None => return Err(UnpackError::Mark(path.display().to_string())),
            },
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                self.skipped.devices += 1;
                Ok(())
            }
            other => return Err(UnpackError::EntryType(char::from(other.as_byte()))),
        };
        done.map_err(|source| write_error(&path, source))
    }
}

fn whiteout(path: &Path) -> Result<Whiteout<'_>, UnpackError> {
    let Some(name) = path.file_name() else { return Ok(Whiteout::No) };
    let Some(hidden) = name.as_bytes().strip_prefix(b".wh.") else { return Ok(Whiteout::No) };
    match hidden {
        b".wh..opq" => Ok(Whiteout::Opaque),
        // Removing `.` or `..` would reach past the directory; other names with
        // the doubled prefix are notes of old union filesystems.
        b"" | b"." | b".." => Err(UnpackError::Escape(path.display().to_string())),
        other => Ok(Whiteout::Remove(OsStr::from_bytes(other))),
    }
}

fn write_error(path: &Path, source: io::Error) -> UnpackError {
    UnpackError::Write { path: path.display().to_string(), source }
}

/// Hashes what passes, and stops after `left` bytes.
struct Counted<R> {
    inner: R,
    left: u64,
    seen: u64,
    hash: Sha256,
}

#[derive(Debug, thiserror::Error)]
#[error("over the cap")]
struct OverCap;

impl<R> Counted<R> {
    fn new(inner: R, left: u64) -> Self {
        Self { inner, left, seen: 0, hash: Sha256::new() }
    }

    fn digest(self) -> Digest {
        Digest::from_hash(self.hash)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.seen += count as u64;
        if self.seen > self.left {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, OverCap));
        }
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
