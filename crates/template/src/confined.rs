//! Writing into a directory tree whose content is not trusted.
//!
//! An image layer may hold a symbolic link where the next entry's directory
//! should be, so no path in it is ever handed to the kernel as text alone. Every
//! directory is opened with `openat2(2)` and `RESOLVE_IN_ROOT`: links resolve as
//! they would after `chroot(2)`, and can name nothing outside. The last
//! component is then created, linked or removed without following a link.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
    chownat, fchmod, fsetxattr, linkat, mkdirat, mknodat, openat, openat2, readlinkat, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

/// Deeper directories are refused: each level holds a descriptor while a tree
/// is walked.
pub(crate) const MAX_DEPTH: usize = 256;

/// A directory that is written to as if it were `/`.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    privileged: bool,
}

/// What a new entry gets besides its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes {
    /// Permission bits; setuid and setgid are dropped.
    pub(crate) mode: u32,
    /// Applied only by root, since nobody else may give files away.
    pub(crate) owner: (u32, u32),
    /// Seconds since the epoch. Interpreters compare it with their caches.
    pub(crate) modified: Option<i64>,
}

impl Attributes {
    pub(crate) fn root(mode: u32) -> Self {
        Self { mode, owner: (0, 0), modified: None }
    }
}

/// A path that could only be meant to leave the tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the path `{0}` leads outside the image")]
pub(crate) struct Escape(pub(crate) String);

/// Reads a path of an archive; `./a//b` is `a/b`, the root itself is empty.
pub(crate) fn relative(path: &[u8]) -> Result<PathBuf, Escape> {
    let mut clean = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(path)).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Escape(String::from_utf8_lossy(path).into_owned()));
            }
        }
    }
    Ok(clean)
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self { fd, privileged: rustix::process::geteuid().is_root() })
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            // `EAGAIN`: a rename elsewhere raced with the walk. See openat2(2).
            match openat2(&self.fd, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    /// Opens a directory, making what is missing of it.
    pub(crate) fn make_dirs(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut directory = self.resolve(Path::new(""), OFlags::PATH | OFlags::DIRECTORY)?;
        let mut walked = PathBuf::new();
        if path.components().count() > MAX_DEPTH {
            return Err(io::Error::from(Errno::NAMETOOLONG));
        }
        for component in path.components() {
            walked.push(component);
            directory = match self.resolve(&walked, OFlags::PATH | OFlags::DIRECTORY) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // Fails on a dangling link, which is what it should do.
                    mkdirat(&directory, component.as_os_str(), Mode::from_raw_mode(0o755))?;
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                    openat(directory, component.as_os_str(), flags, Mode::empty())?
                }
                other => other?,
            };
        }
        Ok(directory)
    }

    fn parent<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = self.make_dirs(path.parent().unwrap_or(Path::new("")))?;
        Ok((parent, name))
    }

    /// Makes a directory, or gives an existing one these attributes. Anything
    /// else of that name is replaced.
    pub(crate) fn directory(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {}
            Ok(_) | Err(Errno::NOENT) => {
                remove_at(&parent, name, 0)?;
                mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
            }
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&parent, name, flags, Mode::empty())?;
        // Nobody but root could fill a directory that its owner may not write.
        let mode = if self.privileged { attributes.mode } else { attributes.mode | 0o700 };
        self.own(&parent, name, attributes)?;
        Ok(fchmod(directory, Mode::from_raw_mode(mode & 0o1777))?)
    }

    /// Writes a file, replacing whatever has its name. Returns its length.
    pub(crate) fn file(
        &self,
        path: &Path,
        content: &mut dyn Read,
        attributes: &Attributes,
    ) -> io::Result<u64> {
        let (parent, name) = self.parent(path)?;
        remove_at(&parent, name, 0)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
        let length = io::copy(content, &mut file)?;
        self.own(&parent, name, attributes)?;
        fchmod(&file, Mode::from_raw_mode(attributes.mode & 0o1777))?;
        touch(&parent, name, attributes)?;
        Ok(length)
    }

    /// Makes a symbolic link. Its target is only text here.
    pub(crate) fn symlink(
        &self,
        path: &Path,
        target: &OsStr,
        attributes: &Attributes,
    ) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        remove_at(&parent, name, 0)?;
        symlinkat(target, &parent, name)?;
        self.own(&parent, name, attributes)?;
        touch(&parent, name, attributes)
    }

    /// Marks a name as deleted in the layers below: a device that is none.
    pub(crate) fn whiteout(&self, path: &Path, attributes: &Attributes) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        remove_at(&parent, name, 0)?;
        mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), 0)?;
        self.own(&parent, name, attributes)
    }

    /// Marks a directory, which must be there, as hiding those below it.
    pub(crate) fn opaque(&self, path: &Path, mark: &str) -> io::Result<()> {
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(fsetxattr(directory, mark, b"y", XattrFlags::empty())?)
    }

    /// Gives the file `existing`, which is inside too, a second name.
    pub(crate) fn hard_link(&self, path: &Path, existing: &Path) -> io::Result<()> {
        let name = existing.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = existing.parent().unwrap_or(Path::new(""));
        let source = self.resolve(directory, OFlags::PATH | OFlags::DIRECTORY)?;
        let (parent, new_name) = self.parent(path)?;
        let stat = statat(&source, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if let Ok(present) = statat(&parent, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            // Removing the name first would remove the file itself.
            if (present.st_dev, present.st_ino) == (stat.st_dev, stat.st_ino) {
                return Ok(());
            }
        }
        remove_at(&parent, new_name, 0)?;
        // Without AT_SYMLINK_FOLLOW a link to a link is made, not to its target.
        Ok(linkat(&source, name, &parent, new_name, AtFlags::empty())?)
    }

    /// Removes whatever has this name; nothing there is fine, too.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        let Some(name) = path.file_name() else { return Ok(()) };
        let directory = path.parent().unwrap_or(Path::new(""));
        match self.resolve(directory, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(parent) => remove_at(parent, name, 0),
            Err(error) if missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes everything in a directory, if there is such a directory.
    pub(crate) fn clear(&self, path: &Path) -> io::Result<()> {
        match self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => {
                names(&directory)?.iter().try_for_each(|name| remove_at(&directory, name, 1))
            }
            Err(error) if missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The text of a symbolic link; `None` if there is no link of this name.
    pub(crate) fn read_link(&self, path: &Path) -> io::Result<Option<OsString>> {
        let Some(name) = path.file_name() else { return Ok(None) };
        let directory = path.parent().unwrap_or(Path::new(""));
        let parent = match self.resolve(directory, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(parent) => parent,
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        match readlinkat(parent, name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something has this name, links followed.
    pub(crate) fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.resolve(path, OFlags::PATH) {
            Ok(_) => Ok(true),
            Err(error) if missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads a small regular file; `None` if there is none.
    pub(crate) fn read(&self, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
        // O_NONBLOCK: opening a fifo must not wait for a writer.
        let file = match self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(fd) => File::from(fd),
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        file.take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(content))
    }

    fn own(&self, parent: &OwnedFd, name: &OsStr, attributes: &Attributes) -> io::Result<()> {
        if !self.privileged {
            return Ok(());
        }
        let (uid, gid) = attributes.owner;
        // All ones means "leave as it is" to the kernel, and is no id.
        if uid == u32::MAX || gid == u32::MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn touch(parent: &OwnedFd, name: &OsStr, attributes: &Attributes) -> io::Result<()> {
    let Some(seconds) = attributes.modified else { return Ok(()) };
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The names in a directory, sorted by their bytes.
pub(crate) fn names(directory: &impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn remove_at(parent: impl AsFd, name: &OsStr, depth: usize) -> io::Result<()> {
    let stat = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        return Ok(unlinkat(&parent, name, AtFlags::empty())?);
    }
    if depth > MAX_DEPTH {
        return Err(io::Error::from(Errno::NAMETOOLONG));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(&parent, name, flags, Mode::empty())?;
    for child in names(&directory)? {
        remove_at(&directory, &child, depth + 1)?;
    }
    Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}
