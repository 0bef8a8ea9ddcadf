//! Files on their way in and out.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use belljar_guest_proto::{Attribute, CHUNK, Failure, FromGuest, Reply, WINDOW};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::attributes;
use crate::files::{Owner, make_dirs, open_parent, open_regular, path_of};
use crate::outcome::{Attempt, Outcome};
use crate::wire::Wire;

/// A file that the host reads.
pub(crate) struct Outgoing {
    file: OwnedFd,
    /// What is left of the size seen at the open: a file that grows while it is
    /// read does not keep the host reading for ever.
    left: u64,
    pub(crate) credit: u32,
}

impl Outgoing {
    pub(crate) fn open(path: &[u8]) -> Result<(Self, Reply), Failure> {
        let (file, size) = open_regular(path_of(path)?)?;
        Ok((Self { file, left: size, credit: WINDOW }, Reply::Size(size)))
    }

    /// Sends the next piece. `true`: that was the last.
    pub(crate) fn pump(&mut self, channel: u32, wire: &mut Wire) -> bool {
        if self.left > 0 && (self.credit == 0 || !wire.has_room()) {
            return false;
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = CHUNK.min(self.credit as usize).min(left);
        let data = FromGuest::Data(&[]);
        match wire.send_from(channel, &data, most, |room| rustix::io::read(&self.file, room)) {
            Ok(count) => {
                self.left = if count == 0 { 0 } else { self.left - count as u64 };
                self.credit -= u32::try_from(count).unwrap_or(self.credit);
            }
            Err(Errno::INTR) => {}
            Err(_) => self.left = 0,
        }
        if self.left == 0 {
            wire.send(channel, &FromGuest::Eof);
        }
        self.left == 0
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.credit > 0 || self.left == 0
    }
}

/// A file that the host writes. It is built beside its place and renamed there
/// at the end, so that nobody sees half of it.
pub(crate) struct Incoming {
    pub(crate) user: u32,
    dir: OwnedFd,
    name: OsString,
    temporary: String,
    file: OwnedFd,
}

impl Incoming {
    pub(crate) fn create(
        user: u32,
        path: &[u8],
        channel: u32,
        owner: Owner,
    ) -> Result<Self, Failure> {
        let path: &Path = path_of(path)?;
        let above = path.parent().map(make_dirs).transpose();
        let above = above.doing("make the directory of the file")?;
        let (dir, name) = open_parent(path).doing("open the directory of the file")?;
        if rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
        {
            return Err(Errno::ISDIR).doing("write a file over a directory");
        }
        let temporary = format!(".belljar-{}-{channel}", std::process::id());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = rustix::fs::unlinkat(&dir, temporary.as_str(), AtFlags::empty());
        let file = rustix::fs::openat(&dir, temporary.as_str(), flags, Mode::from_raw_mode(0o600))
            .doing("make the file")?;
        if let Some(above) = above {
            above.give_to(owner).doing("give the directory of the file away")?;
        }
        Ok(Self { user, dir, name: name.to_owned(), temporary, file })
    }

    /// Gives the new file what is known about it beforehand, and gives it to its owner.
    pub(crate) fn describe(
        &self,
        mode: u32,
        attributes: &[Attribute],
        owner: Owner,
    ) -> Result<(), Failure> {
        // While its owner may still write to it.
        attributes::set(self.file.as_fd(), attributes)?;
        let mode = Mode::from_raw_mode(mode & 0o777);
        rustix::fs::fchmod(&self.file, mode).doing("set the file's mode")?;
        owner.give(&self.file).doing("give the file away")
    }

    pub(crate) fn write(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).doing("write the file"),
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&self) -> Outcome {
        rustix::fs::renameat(&self.dir, self.temporary.as_str(), &self.dir, &self.name)
            .doing("put the file in its place")?;
        Ok(Reply::Done)
    }

    pub(crate) fn abandon(&self) {
        let _ = rustix::fs::unlinkat(&self.dir, self.temporary.as_str(), AtFlags::empty());
    }
}
