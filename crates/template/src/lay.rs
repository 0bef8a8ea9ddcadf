//! Lays uploaded files over layers, as `COPY` and `WORKDIR` of a build ask.
//!
//! An upload is an archive of a stranger's making. It is unpacked into an empty
//! directory by the same code that unpacks images, which no entry can leave;
//! what was asked for is then carried from there, link by link and file by file,
//! into a new layer. Nothing of it is executed, and no link of it followed.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::confined::{Attributes, MAX_DEPTH, Root, relative};
use crate::file::{self, at};
use crate::oci::{Caps, Unpack, UnpackError};
use crate::stage::View;

/// Why files could not be laid over the layers.
#[derive(Debug, thiserror::Error)]
pub enum LayError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("cannot unpack the uploaded files")]
    Unpack(#[source] UnpackError),
    #[error("the path `{0}` leads outside the uploaded files")]
    Escape(String),
    #[error("source path does not exist: {0}")]
    Missing(String),
    #[error("`{0}` is nested too deeply")]
    TooDeep(PathBuf),
}

/// Owner and group of what is laid.
pub type Owner = (u32, u32);

/// A layer in the making.
#[derive(Debug)]
pub struct Lay {
    root: Root,
    view: View,
    /// Directories of the new layer that have their attributes.
    made: HashSet<PathBuf>,
    owner: Owner,
}

/// What of an upload goes where.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// A path in the upload; what follows the first wildcard was for the sender.
    pub source: &'a str,
    /// An absolute path inside; with a slash at its end, a directory.
    pub target: &'a Path,
    pub names: Target,
    /// Permissions of all files and directories, instead of their own.
    pub mode: Option<u32>,
}

/// What the target of a copy names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The copied thing itself.
    Itself,
    /// The directory that takes it.
    Directory,
}

/// Unpacks an archive, compressed or not, into a directory that is empty.
pub fn unpack(archive: &mut File, into: &Path, caps: Caps) -> Result<(), LayError> {
    let root = Root::open(into).map_err(at("open", into))?;
    let mut magic = [0; 2];
    let compressed = archive.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    archive.rewind().map_err(at("read", into))?;
    let buffered = BufReader::with_capacity(128 * 1024, archive);
    let reader: Box<dyn Read> = if compressed {
        Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
    } else {
        Box::new(buffered)
    };
    Unpack::new(&root, caps).entries(reader).map(drop).map_err(LayError::Unpack)
}

impl Lay {
    /// Begins a layer in the new directory `stage`, over `layers`, uppermost
    /// first.
    pub fn new(layers: &[PathBuf], stage: &Path, owner: Owner) -> Result<Self, LayError> {
        fs::create_dir(stage).map_err(at("create", stage))?;
        let root = Root::open(stage).map_err(at("open", stage))?;
        let view = View::open(layers.iter().map(PathBuf::as_path));
        let view = view.map_err(at("open the layers under", stage))?;
        Ok(Self { root, view, made: HashSet::new(), owner })
    }

    /// Makes a directory, and what is missing on the way to it. What is there
    /// already keeps its attributes.
    pub fn directory(&mut self, path: &Path) -> Result<PathBuf, LayError> {
        let real = self.view.resolve(path).map_err(at("resolve", path))?;
        self.ensure(&real, Attributes { mode: 0o755, owner: self.owner, modified: None })?;
        Ok(real)
    }

    /// Carries part of what was unpacked in `from` into the layer.
    pub fn copy(&mut self, from: &Path, copy: &Copy<'_>) -> Result<(), LayError> {
        let source = source(copy.source)?;
        let missing = || LayError::Missing(copy.source.to_owned());
        let mut entry = from.to_owned();
        for component in source.components() {
            // A link on the way could lead anywhere on the host.
            if !is_directory(&entry) {
                return Err(missing());
            }
            entry.push(component);
        }
        let kind = fs::symlink_metadata(&entry).map_err(|_| missing())?.file_type();
        if kind.is_dir() {
            let real = self.directory(copy.target)?;
            return self.children(&entry, &real, copy.mode, 0);
        }
        let target = match copy.names {
            Target::Itself => copy.target.to_owned(),
            Target::Directory => copy.target.join(source.file_name().ok_or_else(missing)?),
        };
        // As `mv` does: into a directory that has the name already.
        let real = self.view.resolve(&target).map_err(at("resolve", &target))?;
        let target = match self.view.directory(&real).map_err(at("stat", &target))? {
            Some(_) => target.join(source.file_name().ok_or_else(missing)?),
            None => target,
        };
        let name = target.file_name().ok_or_else(missing)?;
        let parent = self.directory(target.parent().unwrap_or(Path::new("/")))?;
        self.leaf(&entry, &parent.join(name), copy.mode)
    }

    /// Gives a directory of the layer its attributes: those that it has below,
    /// or else the given ones. Its parents, too.
    fn ensure(&mut self, real: &Path, new: Attributes) -> Result<(), LayError> {
        let mut path = PathBuf::new();
        for component in real.components() {
            path.push(component);
            if !self.made.insert(path.clone()) {
                continue;
            }
            let below = self.view.directory(&path).map_err(at("stat", &path))?;
            let attributes = match below {
                Some(below) => below,
                None if path == real => new,
                None => Attributes { mode: 0o755, ..new },
            };
            self.root.directory(&path, &attributes).map_err(at("create", &path))?;
        }
        Ok(())
    }

    fn children(
        &mut self,
        from: &Path,
        real: &Path,
        mode: Option<u32>,
        depth: usize,
    ) -> Result<(), LayError> {
        if depth > MAX_DEPTH {
            return Err(LayError::TooDeep(real.to_owned()));
        }
        for child in fs::read_dir(from).map_err(at("list", from))? {
            let child = child.map_err(at("list", from))?;
            let (from, to) = (child.path(), real.join(child.file_name()));
            let metadata = child.metadata().map_err(at("stat", &from))?;
            if !metadata.is_dir() {
                self.leaf(&from, &to, mode)?;
                continue;
            }
            // A link to a directory stays one, and is filled where it leads.
            let resolved = self.view.resolve(&to).map_err(at("resolve", &to))?;
            let there = self.view.directory(&resolved).map_err(at("stat", &to))?;
            let to = if there.is_some() { resolved } else { to };
            let mode_here = mode.unwrap_or(metadata.permissions().mode());
            let new = Attributes { mode: mode_here & 0o777, owner: self.owner, modified: None };
            self.ensure(&to, new)?;
            self.children(&from, &to, mode, depth + 1)?;
        }
        Ok(())
    }

    fn leaf(&self, from: &Path, to: &Path, mode: Option<u32>) -> Result<(), LayError> {
        let metadata = fs::symlink_metadata(from).map_err(at("stat", from))?;
        let mut attributes = Attributes { mode: 0o777, owner: self.owner, modified: None };
        if metadata.is_symlink() {
            let link = fs::read_link(from).map_err(at("read link", from))?;
            return Ok(self
                .root
                .symlink(to, link.as_os_str(), &attributes)
                .map_err(at("create", to))?);
        }
        attributes.mode = mode.unwrap_or(metadata.permissions().mode()) & 0o777;
        let mut content = File::open(from).map_err(at("open", from))?;
        self.root.file(to, &mut content, &attributes).map_err(at("write", to))?;
        Ok(())
    }
}

/// A user of the layers, by name or number, with its group; `name:group` names
/// the group, too. `None`: there is none.
pub fn owner(layers: &[PathBuf], name: &str) -> Result<Option<Owner>, LayError> {
    let view = View::open(layers.iter().map(PathBuf::as_path));
    let view = view.map_err(at("open the layers of", "/etc/passwd"))?;
    let read = |path: &str| -> Result<String, LayError> {
        let content = view.read(Path::new(path), 1 << 20).map_err(at("read", path))?;
        Ok(String::from_utf8_lossy(&content.unwrap_or_default()).into_owned())
    };
    let (user, group) = name.split_once(':').map_or((name, None), |(u, g)| (u, Some(g)));
    let passwd = read("/etc/passwd")?;
    let known = find(&passwd, user).map(|fields| (number(fields.get(2)), number(fields.get(3))));
    let (uid, own_group) = match known {
        Some((Some(uid), group)) => (uid, group.unwrap_or(uid)),
        _ => match number(Some(&user)) {
            Some(uid) => (uid, uid),
            None => return Ok(None),
        },
    };
    let gid = match group {
        None => own_group,
        Some(group) => {
            let groups = read("/etc/group")?;
            let found = find(&groups, group).and_then(|fields| number(fields.get(2)));
            match found.or_else(|| number(Some(&group))) {
                Some(gid) => gid,
                None => return Ok(None),
            }
        }
    };
    Ok(Some((uid, gid)))
}

fn find<'t>(table: &'t str, name: &str) -> Option<Vec<&'t str>> {
    let mut lines = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| !name.is_empty() && fields.first() == Some(&name))
}

/// Ids that a sandbox has; others mean nothing inside.
fn number(text: Option<&&str>) -> Option<u32> {
    text?.parse().ok().filter(|id| *id < 65_536)
}

/// The part of a source before its first wildcard, without `.` and `..`.
fn source(text: &str) -> Result<PathBuf, LayError> {
    let escape = || LayError::Escape(text.to_owned());
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => {
                let wild = name.to_string_lossy().contains(['*', '?', '[', '{']);
                if wild {
                    break;
                }
                path.push(name);
            }
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return Err(escape());
                }
            }
            Component::RootDir | Component::Prefix(_) => return Err(escape()),
        }
    }
    relative(path.as_os_str().as_encoded_bytes()).map_err(|_| escape())
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests;
