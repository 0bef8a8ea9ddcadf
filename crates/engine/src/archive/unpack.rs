//! From records to a directory.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::{About, DEEPEST, LONGEST_RECORD, Layout, PIECE, Record, TOPS, is_kept, is_plain};

struct Level {
    dir: OwnedFd,
    about: About,
}

/// Lays out an archive, wherever its descriptor was read up to.
/// Its ids count from `first`, as those of the process that does it.
pub(crate) fn unpack_descriptor(archive: &OwnedFd, first: u32) -> io::Result<()> {
    unpack(io::BufReader::with_capacity(PIECE, FromStart::new(archive)), first)
}

/// Reads a file without moving the offset that others share.
pub(crate) struct FromStart<'a> {
    archive: &'a OwnedFd,
    at: u64,
}

impl<'a> FromStart<'a> {
    pub(crate) fn new(archive: &'a OwnedFd) -> Self {
        Self { archive, at: 0 }
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = rustix::io::pread(self.archive, buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The layout that an archive was saved in. None: it does not say so.
pub(crate) fn layout_of(archive: &OwnedFd) -> io::Result<Option<Layout>> {
    match next(&mut FromStart::new(archive))? {
        Some(Record::Layout(layout)) => Ok(Some(layout)),
        _ => Ok(None),
    }
}

/// Lays the records of `input` out in the current directory, whose owner may
/// give files away.
pub(super) fn unpack(mut input: impl Read, first: u32) -> io::Result<()> {
    let mut levels: Vec<Level> = Vec::new();
    let mut file: Option<(OwnedFd, About)> = None;
    let mut piece = vec![0u8; PIECE];
    while let Some(mut record) = next(&mut input)? {
        check(&record, levels.len())?;
        record.count_from(first)?;
        if !matches!(record, Record::Data { .. }) {
            finish(&mut file)?;
        }
        let parent = levels.last().map_or(CWD, |level| level.dir.as_fd());
        match record {
            Record::Enter { name, about } => {
                match rustix::fs::mkdirat(parent, &name[..], Mode::from_raw_mode(0o700)) {
                    // The tops are there already.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let dir = rustix::fs::openat(parent, &name[..], flags, Mode::empty())?;
                levels.push(Level { dir, about });
            }
            Record::Leave => {
                let level = levels.pop().ok_or(io::ErrorKind::InvalidData)?;
                settle(&level.dir, &level.about)?;
            }
            Record::File { name, about, size } => {
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let made =
                    rustix::fs::openat(parent, &name[..], flags, Mode::from_raw_mode(0o600))?;
                rustix::fs::ftruncate(&made, size)?;
                file = Some((made, about));
            }
            Record::Data { offset, length } => {
                let (file, _) = file.as_ref().ok_or(io::ErrorKind::InvalidData)?;
                let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?;
                let piece = piece.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
                input.read_exact(piece)?;
                let mut done = 0;
                while done < length {
                    let at = offset.checked_add(done as u64).ok_or(io::ErrorKind::InvalidData)?;
                    done += rustix::io::pwrite(file, &piece[done..], at)?;
                }
            }
            Record::Symlink { name, about, target } => {
                rustix::fs::symlinkat(&target[..], parent, &name[..])?;
                settle_at(parent, &name, &about)?;
            }
            Record::Fifo { name, about } => {
                let mode = Mode::from_raw_mode(about.mode);
                rustix::fs::mknodat(parent, &name[..], FileType::Fifo, mode, 0)?;
                settle_at(parent, &name, &about)?;
            }
            // It was compared before the sandbox was made.
            Record::Layout(_) => {}
            Record::Whiteout { name } => {
                let mode = Mode::empty();
                rustix::fs::mknodat(parent, &name[..], FileType::CharacterDevice, mode, 0)?;
            }
        }
    }
    finish(&mut file)
}

/// Settles a file once it has its content: writing changes its time and takes
/// bits of its mode away.
fn finish(file: &mut Option<(OwnedFd, About)>) -> io::Result<()> {
    match file.take() {
        Some((file, about)) => settle(&file, &about),
        None => Ok(()),
    }
}

/// Refuses what no honest packer writes.
pub(super) fn check(record: &Record, depth: usize) -> io::Result<()> {
    let (name, about) = match record {
        Record::Enter { name, about } | Record::File { name, about, .. } => (name, Some(about)),
        Record::Symlink { name, .. } | Record::Fifo { name, .. } | Record::Whiteout { name } => {
            (name, None)
        }
        Record::Layout(_) if depth > 0 => return Err(io::ErrorKind::InvalidData.into()),
        Record::Leave | Record::Data { .. } | Record::Layout(_) => return Ok(()),
    };
    let is_top = || TOPS.iter().any(|top| top.as_bytes() == name);
    let placed = match record {
        Record::Enter { .. } if depth == 0 => is_top(),
        _ => (1..=DEEPEST).contains(&depth) && is_plain(name),
    };
    let described = about.is_none_or(|about| about.xattrs.iter().all(|(name, _)| is_kept(name)));
    if placed && described { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn next(input: &mut impl Read) -> io::Result<Option<Record>> {
    let mut length = [0u8; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST_RECORD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0u8; length];
    input.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Gives a file or directory its owner, attributes, mode and time, in the order
/// in which one does not undo another.
fn settle(file: &OwnedFd, about: &About) -> io::Result<()> {
    for (name, value) in &about.xattrs {
        rustix::fs::fsetxattr(file, &name[..], value, XattrFlags::empty())?;
    }
    rustix::fs::fchown(file, Some(Uid::from_raw(about.uid)), Some(Gid::from_raw(about.gid)))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(about.mode))?;
    Ok(rustix::fs::futimens(file, &times(about))?)
}

/// The same for what is not opened.
fn settle_at(parent: BorrowedFd<'_>, name: &[u8], about: &About) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(about.uid), Gid::from_raw(about.gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(parent, name, Some(uid), Some(gid), flags)?;
    Ok(rustix::fs::utimensat(parent, name, &times(about), flags)?)
}

fn times(about: &About) -> Timestamps {
    let modified = Timespec { tv_sec: about.seconds, tv_nsec: about.nanos.into() };
    Timestamps { last_access: modified, last_modification: modified }
}
