//! Opening paths that may have been planted by hostile code while they are being
//! walked: never through a magic link.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::files::refuse_proc;

/// Links that one path may lead through, as in Linux.
const MOST_LINKS: usize = 40;

/// Opens `path`, which is absolute or below `dir`.
pub(crate) fn open_at(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    match openat2(dir, path, flags, Mode::empty(), resolve | ResolveFlags::NO_MAGICLINKS) {
        // gVisor.
        Err(Errno::NOSYS) => walk(dir, path, flags, resolve.contains(ResolveFlags::NO_SYMLINKS)),
        other => other,
    }
}

/// As the kernel would, name by name. Magic links are links of procfs, so none
/// is met by whoever never goes there.
fn walk(dir: BorrowedFd<'_>, path: &Path, flags: OFlags, no_links: bool) -> Result<OwnedFd, Errno> {
    const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let root = || openat(CWD, "/", PLACE, Mode::empty());
    let mut at = if path.is_absolute() { root()? } else { openat(dir, ".", PLACE, Mode::empty())? };
    let mut left: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == "/" {
            at = root()?;
            continue;
        }
        let stat = rustix::fs::statat(&at, &name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
        if kind == Ok(FileType::Symlink) {
            links += 1;
            let wanted = left.is_empty() && flags.contains(OFlags::NOFOLLOW);
            if no_links || links > MOST_LINKS || (wanted && !flags.contains(OFlags::PATH)) {
                return Err(Errno::LOOP);
            }
            if !wanted {
                let target = rustix::fs::readlinkat(&at, &name, Vec::new())?.into_bytes();
                let mut target: VecDeque<_> =
                    names(Path::new(OsStr::from_bytes(&target))).collect();
                target.append(&mut left);
                left = target;
                continue;
            }
        }
        // Whatever took its place meanwhile is not followed.
        let flags = if left.is_empty() { flags } else { PLACE };
        let next = openat(&at, &name, flags | OFlags::NOFOLLOW, Mode::empty())?;
        if left.is_empty() {
            return Ok(next);
        }
        refuse_proc(next.as_fd())?;
        at = next;
    }
    openat(&at, ".", flags, Mode::empty())
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().map(|part| match part {
        Component::RootDir => OsString::from("/"),
        part => part.as_os_str().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn tree(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("belljar-walk-{}-{name}", std::process::id()));
        fs::create_dir_all(dir.join("sub/deep")).unwrap();
        fs::write(dir.join("sub/file"), "found").unwrap();
        symlink("sub/file", dir.join("link")).unwrap();
        symlink(dir.join("link"), dir.join("sub/absolute")).unwrap();
        symlink("../..", dir.join("sub/deep/up")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        symlink("/proc/self/root", dir.join("magic")).unwrap();
        dir
    }

    /// Both ways must find the same, or refuse the same.
    fn both(path: &Path, flags: OFlags) -> Result<(u64, u64), Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let seen = |file: Result<OwnedFd, Errno>| {
            file.map(|file| {
                let stat = rustix::fs::fstat(&file).unwrap();
                (stat.st_dev, stat.st_ino)
            })
        };
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let kernel = seen(openat2(CWD, path, flags, Mode::empty(), resolve));
        let ours = seen(walk(CWD, path, flags, false));
        assert_eq!(ours, kernel, "{path:?}");
        ours
    }

    #[test]
    fn it_finds_what_the_kernel_finds() {
        let dir = tree("same");
        let found = both(&dir.join("sub/file"), OFlags::RDONLY).unwrap();
        for path in ["link", "sub/absolute", "sub/deep/up/link", "sub/../link", "sub/deep/../file"]
        {
            assert_eq!(both(&dir.join(path), OFlags::RDONLY), Ok(found), "{path}");
        }
        assert!(both(&dir, OFlags::PATH | OFlags::DIRECTORY).is_ok());
        assert!(both(Path::new("/"), OFlags::PATH).is_ok());
        assert_eq!(both(&dir.join("none"), OFlags::RDONLY), Err(Errno::NOENT));
        assert_eq!(both(&dir.join("sub/file/x"), OFlags::RDONLY), Err(Errno::NOTDIR));
        assert_eq!(both(&dir.join("loop"), OFlags::RDONLY), Err(Errno::LOOP));
        assert_eq!(both(&dir.join("link"), OFlags::RDONLY | OFlags::NOFOLLOW), Err(Errno::LOOP));
        assert!(both(&dir.join("link"), OFlags::PATH | OFlags::NOFOLLOW).is_ok());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn nothing_leads_through_procfs() {
        let dir = tree("magic");
        for path in [dir.join("magic/etc"), "/proc/self/cwd/x".into(), "/proc/self/fd/0".into()] {
            let walked = walk(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, false);
            assert!(walked.is_err(), "{path:?}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn no_link_at_all_where_none_is_wanted() {
        let dir = tree("none");
        let walked = walk(CWD, &dir.join("link"), OFlags::RDONLY | OFlags::CLOEXEC, true);
        assert_eq!(walked.map(drop), Err(Errno::LOOP));
        fs::remove_dir_all(dir).unwrap();
    }
}
