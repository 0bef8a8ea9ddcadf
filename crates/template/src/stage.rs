//! Lays files over existing layers without disturbing what is there.
//!
//! A directory of an upper layer replaces the permissions of the one below, and
//! hides a symbolic link of the same name: a layer with a plain `bin/tool` would
//! take `/bin` away from a merged-`/usr` system. So each target is resolved in
//! the merged view first, and the parents are made with what they have there.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use crate::confined::{Attributes, Root};
use crate::tree::is_opaque;

/// As many as the kernel follows; see path_resolution(7).
const MAX_LINKS: usize = 40;

/// The merged view of sealed layers, uppermost first.
#[derive(Debug)]
pub(crate) struct View {
    layers: Vec<OwnedFd>,
}

impl View {
    pub(crate) fn open<'a>(layers: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path| rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        Ok(Self { layers: layers.into_iter().map(open).collect::<Result<_, _>>()? })
    }

    /// The entry at a path whose parents are all real directories.
    fn entry(&self, path: &Path) -> io::Result<Option<(&OwnedFd, Stat)>> {
        for layer in &self.layers {
            match beneath(layer, path.parent().unwrap_or(Path::new(""))) {
                Ok(parent) => {
                    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                    match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) if is_whiteout(&stat) => return Ok(None),
                        Ok(stat) => return Ok(Some((layer, stat))),
                        Err(Errno::NOENT) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(Errno::NOENT) => {}
                // A whiteout, a file or a link where lower layers may have a
                // directory: it hides them.
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if path.ancestors().skip(1).any(|p| beneath(layer, p).is_ok_and(|d| is_opaque(&d))) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The real path of `path`, links in its parents resolved as in a sandbox.
    /// What does not exist resolves to itself.
    fn resolve_parents(&self, path: &Path) -> io::Result<PathBuf> {
        let mut todo: Vec<OsString> = normal(path.parent().unwrap_or(Path::new("")));
        todo.reverse();
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(&name);
            let Some((layer, stat)) = self.entry(&real)? else { continue };
            if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = readlinkat(layer, &real, Vec::new())?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            real.pop();
            if target.is_absolute() {
                real = PathBuf::new();
            }
            todo.extend(normal(&target).into_iter().rev());
        }
        Ok(real)
    }

    /// The real path of `path`, its own links resolved too.
    pub(crate) fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        // As the parent of a name that is never looked up.
        self.resolve_parents(&path.join("_"))
    }

    /// What a directory is like, if there is one at this real path.
    pub(crate) fn directory(&self, real: &Path) -> io::Result<Option<Attributes>> {
        let found = self.entry(real)?;
        let found = found.filter(|(_, stat)| FileType::from_raw_mode(stat.st_mode).is_dir());
        Ok(found.map(|(_, stat)| Attributes {
            mode: stat.st_mode & 0o1777,
            owner: (stat.st_uid, stat.st_gid),
            modified: None,
        }))
    }

    /// Reads a small regular file; `None` if there is none.
    pub(crate) fn read(&self, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
        use std::io::Read as _;
        let real = self.resolve(path)?;
        let Some((layer, stat)) = self.entry(&real)? else { return Ok(None) };
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = openat2(layer, &real, flags, Mode::empty(), resolve)?;
        let mut content = Vec::new();
        std::fs::File::from(file).take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Some(content))
    }

    /// Makes the directories that lead to `target` in the new layer `stage`,
    /// alike to those in the view, and returns where the target itself goes.
    pub(crate) fn prepare(&self, stage: &Root, target: &Path) -> io::Result<PathBuf> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parents = self.resolve_parents(target)?;
        let mut made = PathBuf::new();
        for component in parents.components() {
            made.push(component);
            let attributes = match self.entry(&made)? {
                Some((_, stat)) if FileType::from_raw_mode(stat.st_mode).is_dir() => Attributes {
                    mode: stat.st_mode & 0o1777,
                    owner: (stat.st_uid, stat.st_gid),
                    modified: None,
                },
                Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
                None => Attributes::root(0o755),
            };
            stage.directory(&made, &attributes)?;
        }
        Ok(parents.join(name))
    }
}

fn beneath(layer: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(layer, path, flags, Mode::empty(), resolve)
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == 0
}

fn normal(path: &Path) -> Vec<OsString> {
    let kept = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{CWD, mknodat};
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_goes_where_the_merged_view_would_put_it() {
        let dir = tempdir().unwrap();
        let (upper, lower, stage) =
            (dir.path().join("upper"), dir.path().join("lower"), dir.path().join("stage"));
        for path in [upper.join("gone"), lower.join("usr/bin"), lower.join("tmp"), stage.clone()] {
            fs::create_dir_all(path).unwrap();
        }
        symlink("usr/bin", lower.join("bin")).unwrap();
        symlink("/bin/../../../usr", lower.join("u")).unwrap();
        symlink("usr", lower.join("hidden")).unwrap();
        symlink("loop", lower.join("loop")).unwrap();
        fs::set_permissions(lower.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        let whiteout = upper.join("hidden");
        mknodat(CWD, &whiteout, FileType::CharacterDevice, Mode::empty(), 0).unwrap();

        let view = View::open([upper.as_path(), lower.as_path()]).unwrap();
        let root = Root::open(&stage).unwrap();
        let check = |target: &str, want: &str| {
            let placed = view.prepare(&root, Path::new(target)).unwrap();
            assert_eq!(placed, Path::new(want), "{target}");
        };
        check("/bin/tool", "usr/bin/tool");
        check("/u/share/x", "usr/share/x");
        check("/hidden/x", "hidden/x");
        check("/tmp/x", "tmp/x");
        check("/x", "x");
        assert!(view.prepare(&root, Path::new("/loop/x")).is_err());
        let mode = fs::metadata(stage.join("tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        assert!(!stage.join("bin").exists());
    }
}
