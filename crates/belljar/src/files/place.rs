//! A directory of the host that files come out to, held open.
//!
//! Everything below it is reached by descriptor, one component at a time, so
//! that neither a planted name nor a planted link leads anywhere else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

#[derive(Debug)]
pub(super) struct Place(OwnedFd);

/// A file on its way to its name; gone if it is dropped before [`Draft::keep`].
#[derive(Debug)]
pub(super) struct Draft<'a> {
    place: &'a Place,
    temporary: OsString,
    name: OsString,
    kept: bool,
}

/// Whether anybody may run what comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Execute {
    Yes,
    No,
}

/// Writes a file of the user's choice whole, or not at all. A link that has its name is replaced.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // The directories above were named by the user, links and all.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let place = Place::open(&parent.unwrap_or(Path::new(".")).join(""))?;
    let (draft, mut file) = place.file(name, Execute::No)?;
    file.write_all(content)?;
    draft.keep()
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Place {
    /// Opens a directory that the user named. Its own name must not be a link,
    /// unless the user ended it with a slash.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self(rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?))
    }

    /// Opens the directory `name` in this one, making it if it is not there.
    pub(super) fn directory(&self, name: &OsStr) -> io::Result<Self> {
        let name = one_component(name)?;
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Self(rustix::fs::openat(&self.0, name, DIRECTORY, Mode::empty())?))
    }

    /// Starts a file that will be called `name`.
    pub(super) fn file(&self, name: &OsStr, execute: Execute) -> io::Result<(Draft<'_>, File)> {
        let name = one_component(name)?.to_owned();
        let mode = Mode::from_raw_mode(match execute {
            Execute::Yes => 0o777,
            Execute::No => 0o666,
        });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for attempt in 0..100u32 {
            let temporary = OsString::from(format!(".belljar-{}-{attempt}", std::process::id()));
            match rustix::fs::openat(&self.0, &temporary, flags, mode) {
                Ok(file) => {
                    let draft = Draft { place: self, temporary, name, kept: false };
                    return Ok((draft, file.into()));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Draft<'_> {
    /// Gives the file its name, in place of whatever file or link has it.
    pub(super) fn keep(mut self) -> io::Result<()> {
        let place = &self.place.0;
        rustix::fs::renameat(place, &self.temporary, place, &self.name)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = rustix::fs::unlinkat(&self.place.0, &self.temporary, AtFlags::empty());
        }
    }
}

/// Refuses anything that is more, or other, than one name.
fn one_component(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    let plain = !bytes.is_empty() && !bytes.contains(&b'/') && !bytes.contains(&0);
    if plain && name != "." && name != ".." {
        Ok(name)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a file name")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_name_leads_out_of_the_place() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::open(dir.path()).unwrap();
        for name in ["..", ".", "", "a/b", "/etc/passwd", "../x"] {
            assert!(place.directory(OsStr::new(name)).is_err(), "{name}");
            assert!(place.file(OsStr::new(name), Execute::No).is_err(), "{name}");
        }
    }

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let inner = dir.path().join("out");
        fs::create_dir(&inner).unwrap();
        symlink(&victim, inner.join("file")).unwrap();
        symlink(dir.path(), inner.join("dir")).unwrap();
        let place = Place::open(&inner).unwrap();
        let (draft, mut file) = place.file(OsStr::new("file"), Execute::No).unwrap();
        file.write_all(b"new").unwrap();
        draft.keep().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert_eq!(fs::read(inner.join("file")).unwrap(), b"new");
        assert!(place.directory(OsStr::new("dir")).is_err());
        assert!(Place::open(&inner.join("dir")).is_err());
    }

    #[test]
    fn what_is_not_kept_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::open(dir.path()).unwrap();
        drop(place.file(OsStr::new("half"), Execute::Yes).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
