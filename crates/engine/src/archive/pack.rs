//! From a directory to records.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use belljar_sys::tree::names;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::{About, DEEPEST, HostIds, LONGEST_RECORD, PIECE, Record, TOPS, is_kept};

struct Packer<W> {
    out: W,
    ids: HostIds,
    /// Bytes of files that may still be packed.
    left: u64,
}

/// Packs the writable layer and the shared memory of a sandbox into a file in
/// memory, which nobody can change after.
pub(crate) fn pack_scratch(
    scratch: BorrowedFd<'_>,
    ids: HostIds,
    most: u64,
) -> io::Result<OwnedFd> {
    in_memory(|file| {
        let out = io::BufWriter::with_capacity(PIECE, file);
        pack(scratch, &TOPS, ids, most, out)
    })
}

/// The same into a new file at `path`.
pub(crate) fn write_scratch(
    scratch: BorrowedFd<'_>,
    ids: HostIds,
    most: u64,
    path: &Path,
) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let out = io::BufWriter::with_capacity(PIECE, &file);
    pack(scratch, &TOPS, ids, most, out)
}

/// A file in memory that `fill` writes and nobody can change after.
pub(crate) fn in_memory(fill: impl FnOnce(&File) -> io::Result<()>) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create("belljar-files", flags)?);
    fill(&file)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Writes those of the directories `tops` that `dir` has. `ids` are those of the host; more
/// than `most` bytes of files are refused.
pub(super) fn pack(
    dir: BorrowedFd<'_>,
    tops: &[&str],
    ids: HostIds,
    most: u64,
    out: impl Write,
) -> io::Result<()> {
    let mut packer = Packer { out, ids, left: most };
    packer.record(&Record::Layout(ids.layout()))?;
    for top in tops {
        let found = rustix::fs::statat(dir, *top, AtFlags::SYMLINK_NOFOLLOW);
        if found.err() == Some(Errno::NOENT) {
            continue;
        }
        packer.tree(dir, &CString::new(*top)?)?;
    }
    packer.out.flush()
}

/// A directory that is being walked: what is left of its names.
struct Level {
    dir: OwnedFd,
    names: std::vec::IntoIter<CString>,
}

impl<W: Write> Packer<W> {
    fn tree(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let mut levels = vec![self.enter(parent, name)?];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                self.record(&Record::Leave)?;
                levels.pop();
                continue;
            };
            let dir = level.dir.as_fd();
            let stat = match rustix::fs::statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // Gone since it was listed.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                self.one(dir, &name, &stat)?;
                continue;
            }
            let next = self.enter(dir, &name)?;
            levels.push(next);
            if levels.len() > DEEPEST {
                return Err(io::Error::other("directories are nested too deeply to copy"));
            }
        }
        Ok(())
    }

    fn enter(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<Level> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&dir)?;
        let about = self.about(&stat, xattrs(dir.as_fd())?);
        self.record(&Record::Enter { name: name.to_bytes().to_vec(), about })?;
        let names: Vec<CString> = names(&dir)?.collect::<Result<_, _>>()?;
        Ok(Level { dir, names: names.into_iter() })
    }

    fn one(&mut self, dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
        let bytes = name.to_bytes().to_vec();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(dir, name),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes();
                let about = self.about(stat, Vec::new());
                self.record(&Record::Symlink { name: bytes, about, target })
            }
            FileType::Fifo => {
                let about = self.about(stat, Vec::new());
                self.record(&Record::Fifo { name: bytes, about })
            }
            // The overlay's mark; no other device can be made here.
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                self.record(&Record::Whiteout { name: bytes })
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let about = self.about(&stat, xattrs(file.as_fd())?);
        self.record(&Record::File { name: name.to_bytes().to_vec(), about, size })?;
        let mut piece = vec![0u8; PIECE];
        let mut offset = 0;
        // A file that grows meanwhile is copied as long as it was.
        while offset < size {
            let start = match rustix::fs::seek(&file, SeekFrom::Data(offset)) {
                Ok(start) => start,
                // Nothing but a hole is left.
                Err(Errno::NXIO) => break,
                Err(errno) => return Err(errno.into()),
            };
            let end = rustix::fs::seek(&file, SeekFrom::Hole(start))?.min(size);
            offset = start;
            while offset < end {
                let want = usize::try_from(end - offset).unwrap_or(PIECE).min(PIECE);
                let count = rustix::io::pread(&file, &mut piece[..want], offset)?;
                if count == 0 {
                    return Ok(());
                }
                let length = count as u64;
                self.left = self.left.checked_sub(length).ok_or_else(too_much)?;
                self.record(&Record::Data { offset, length })?;
                self.out.write_all(&piece[..count])?;
                offset += length;
            }
        }
        Ok(())
    }

    fn about(&self, stat: &Stat, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> About {
        let (uid, gid) = self.ids.inside(stat.st_uid, stat.st_gid);
        About {
            mode: stat.st_mode & 0o7777,
            uid,
            gid,
            seconds: stat.st_mtime,
            nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            xattrs,
        }
    }

    fn record(&mut self, record: &Record) -> io::Result<()> {
        let bytes = postcard::to_allocvec(record).map_err(|_| io::ErrorKind::InvalidInput)?;
        if bytes.len() > LONGEST_RECORD {
            return Err(io::Error::other("a file's attributes are too large to copy"));
        }
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&bytes)
    }
}

fn too_much() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the files exceed the size limit of the copy")
}

/// The attributes that users can set, and the overlay's own marks.
fn xattrs(file: BorrowedFd<'_>) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0u8; 64 << 10];
    let count = match rustix::fs::flistxattr(file, &mut list[..]) {
        Ok(count) => count,
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut found = Vec::new();
    for name in list[..count].split(|&byte| byte == 0) {
        if !is_kept(name) {
            continue;
        }
        let mut value = vec![0u8; 64 << 10];
        let count = rustix::fs::fgetxattr(file, name, &mut value[..])?;
        value.truncate(count);
        found.push((name.to_vec(), value));
    }
    Ok(found)
}
