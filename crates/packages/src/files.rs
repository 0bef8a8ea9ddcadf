//! Reads files of a root filesystem from outside, as its programs would see them.
//!
//! Whoever made a template chose what lies in its layers. So links are resolved
//! here, within the merged view: an absolute one begins at the view's root, and
//! none leads to a file of the host. Only regular files are opened, and only those
//! of modest size are read as a whole.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use belljar_domain::RootFs;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, openat2, readlinkat,
    statat,
};

#[cfg(test)]
mod tests;

/// Files of a root filesystem, by absolute path. What is missing, strange or too
/// large is not there.
pub trait Files {
    /// A regular file, of whatever size.
    fn open(&self, path: &str) -> Option<File>;

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.open(path)?;
        if file.metadata().ok()?.len() > LARGEST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Names in a directory, sorted.
    fn list(&self, directory: &str) -> Vec<String>;

    fn has(&self, path: &str) -> bool;

    fn text(&self, path: &str) -> Option<String> {
        self.read(path).and_then(|bytes| String::from_utf8(bytes).ok())
    }
}

/// The merged view of a template's layers and binds, or of the host itself.
#[derive(Debug)]
pub struct Tree {
    /// Uppermost first.
    layers: Vec<OwnedFd>,
    /// What is shown at a path, deepest path first.
    binds: Vec<(Vec<OsString>, PathBuf)>,
}

/// Why a root filesystem cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("cannot open `{path}`")]
pub struct OpenError {
    pub path: PathBuf,
    source: io::Error,
}

/// As many as the kernel follows; see path_resolution(7).
const MOST_LINKS: usize = 40;
/// Steps of one path, those of links included: a template must not keep us busy.
const MOST_STEPS: usize = 256;
const LARGEST: u64 = 4 << 20;
const MOST_NAMES: usize = 4096;

impl Tree {
    pub fn of(root: &RootFs) -> Result<Self, OpenError> {
        let layers = root.layers.iter().map(|path| open_root(path)).collect::<Result<_, _>>()?;
        let mut binds: Vec<_> =
            root.binds.iter().map(|bind| (names(&bind.target), bind.source.clone())).collect();
        binds.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(Self { layers, binds })
    }

    /// The host's own files: only when the operator wants sandboxes to use the
    /// indexes that the host uses.
    pub fn host() -> Result<Self, OpenError> {
        Ok(Self { layers: vec![open_root(Path::new("/"))?], binds: vec![] })
    }

    /// Where a path leads to, without links.
    fn resolve(&self, path: &str) -> Option<(Vec<OsString>, Stat)> {
        let mut pending: VecDeque<OsString> = names(Path::new(path)).into();
        let mut resolved: Vec<OsString> = Vec::new();
        let mut links = 0;
        let mut steps = 0;
        let mut found = None;
        while let Some(name) = pending.pop_front() {
            steps += 1;
            if steps > MOST_STEPS {
                return None;
            }
            if name == ".." {
                resolved.pop();
                found = None;
                continue;
            }
            resolved.push(name);
            let stat = self.stat(&resolved)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    let target = self.link(&resolved)?;
                    resolved.pop();
                    if target.is_absolute() {
                        resolved.clear();
                    }
                    for name in names(&target).into_iter().rev() {
                        pending.push_front(name);
                    }
                    found = None;
                }
                FileType::Directory => found = Some(stat),
                _ if pending.is_empty() => found = Some(stat),
                _ => return None,
            }
        }
        let stat = match found {
            Some(stat) => stat,
            None => self.stat(&resolved)?,
        };
        Some((resolved, stat))
    }

    fn stat(&self, path: &[OsString]) -> Option<Stat> {
        self.places(path).first().map(|place| place.stat)
    }

    fn link(&self, path: &[OsString]) -> Option<PathBuf> {
        let place = self.places(path).into_iter().next()?;
        let target = readlinkat(place.root.as_fd(), &place.path, Vec::new()).ok()?;
        Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Every layer that shows something of `path`, uppermost first: more than
    /// one for directories only, since those are merged.
    fn places(&self, path: &[OsString]) -> Vec<Place<'_>> {
        let mut binds = self.binds.iter();
        let bind = binds
            .find_map(|(target, source)| Some((source, path.strip_prefix(target.as_slice())?)));
        if let Some((source, rest)) = bind {
            return bound(source, rest).into_iter().collect();
        }
        let mut places = Vec::new();
        'layers: for layer in &self.layers {
            let mut is_last_layer = false;
            let mut walked = PathBuf::new();
            let mut found = statat(layer, ".", AtFlags::SYMLINK_NOFOLLOW).ok();
            for (depth, name) in path.iter().enumerate() {
                walked.push(name);
                let Ok(stat) = statat(layer, &walked, AtFlags::SYMLINK_NOFOLLOW) else {
                    found = None;
                    break;
                };
                let kind = FileType::from_raw_mode(stat.st_mode);
                let is_end = depth + 1 == path.len();
                if is_whiteout(&stat)
                    || (kind != FileType::Directory && !(is_end && places.is_empty()))
                {
                    break 'layers;
                }
                is_last_layer |= kind != FileType::Directory || is_opaque(layer.as_fd(), &walked);
                found = Some(stat);
            }
            if let Some(stat) = found {
                let path = if path.is_empty() { PathBuf::from(".") } else { walked };
                places.push(Place { root: Root::Layer(layer.as_fd()), path, stat });
            }
            if is_last_layer {
                break;
            }
        }
        places
    }
}

/// Something of the view in the layer that it comes from.
struct Place<'a> {
    root: Root<'a>,
    path: PathBuf,
    stat: Stat,
}

enum Root<'a> {
    Layer(BorrowedFd<'a>),
    Bind(OwnedFd),
}

impl Root<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Layer(fd) => *fd,
            Self::Bind(fd) => fd.as_fd(),
        }
    }
}

impl Files for Tree {
    fn open(&self, path: &str) -> Option<File> {
        let (path, _) = self.resolve(path)?;
        let place = self.places(&path).into_iter().next()?;
        // A pipe would wait for a writer, were it not for NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(open_within(place.root.as_fd(), &place.path, flags)?);
        file.metadata().ok()?.is_file().then_some(file)
    }

    fn list(&self, directory: &str) -> Vec<String> {
        let Some((path, _)) = self.resolve(directory) else { return vec![] };
        let mut seen = BTreeSet::new();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for place in self.places(&path) {
            let Some(fd) = open_within(place.root.as_fd(), &place.path, flags) else { continue };
            let Ok(entries) = Dir::read_from(&fd) else { continue };
            for entry in entries.flatten().take(MOST_NAMES) {
                if let Ok(name) = entry.file_name().to_str() {
                    seen.insert(name.to_owned());
                }
            }
        }
        let is_shown = |name: &String| {
            name != "." && name != ".." && {
                let mut path = path.clone();
                path.push(name.into());
                self.stat(&path).is_some()
            }
        };
        seen.into_iter().filter(is_shown).collect()
    }

    fn has(&self, path: &str) -> bool {
        self.resolve(path).is_some()
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, OpenError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|source| OpenError { path: path.to_owned(), source: source.into() })
}

fn open_within(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Option<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, flags, Mode::empty(), resolve).ok()
}

/// What a bind shows at `rest` below its target. A bound file is looked at from
/// the directory that it is in.
fn bound(source: &Path, rest: &[OsString]) -> Option<Place<'static>> {
    let (root, path) = if rest.is_empty() && !source.is_dir() {
        (source.parent()?, PathBuf::from(source.file_name()?))
    } else {
        (source, Path::new(".").join(rest.iter().collect::<PathBuf>()))
    };
    let root = open_root(root).ok()?;
    let stat = statat(&root, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Place { root: Root::Bind(root), path, stat })
}

fn names(path: &Path) -> Vec<OsString> {
    let is_name = |name: &&[u8]| !name.is_empty() && *name != b".";
    let parts = path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(is_name);
    parts.map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

/// How overlayfs marks what an upper layer removed.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == 0
}

/// Whether a directory hides the same one of the layers below.
fn is_opaque(layer: BorrowedFd<'_>, path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Some(fd) = open_within(layer, path, flags) else { return false };
    ["trusted.overlay.opaque", "user.overlay.opaque"].into_iter().any(|name| {
        let mut value = [0; 2];
        fgetxattr(&fd, name, &mut value[..]).is_ok_and(|length| value.get(..length) == Some(b"y"))
    })
}
