//! Keeps layers and template versions on disk.
//!
//! ```text
//! <root>/layers/<sha256>/              an immutable tree
//!        layers/<sha256>.json          its size and what sealing stripped
//!        templates/<name>/<version>.json
//!        templates/<name>/latest       link to the newest version
//!        steps/<sha256>                which layer a build step gave
//!        kernels/, images/             what virtual machines need: see `machine`
//!        tmp/<random>/                 work under way; locked by its process
//!        lock                          held during every change
//! ```
//!
//! Everything is made under `tmp`, written through to the disk, and renamed into
//! place, so a crash leaves either the old state or the new one, and at most
//! rubbish in `tmp`, which the next collection removes.
//!
//! A layer in use is locked (`flock(2)`, shared) by its user, a build or a
//! [`Lease`](crate::Lease). Collection takes the exclusive lock or leaves it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, syncfs};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::file::{self, at};
use crate::oci::Caps;
use crate::pack::{self, PackError};
use crate::template::{Template, hold};
use crate::tree::{self, Kind, SealError, Sealed, Stripped};

mod collect;
mod manifest;
mod owned;

pub use collect::Collected;
pub use manifest::{InvalidReference, Manifest, Reference};

#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A sealed layer, kept from collection while this value lives.
#[derive(Debug)]
pub struct Layer {
    pub digest: Digest,
    pub path: PathBuf,
    pub facts: LayerFacts,
    _held: File,
}

/// What is known about a layer besides its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFacts {
    pub bytes: u64,
    pub entries: u64,
    pub stripped: Stripped,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("cannot parse `{}`", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    #[error("there is no template `{0}`")]
    Unknown(Reference),
    #[error(transparent)]
    Copy(#[from] PackError),
    #[error("the digest of a layer is {found}, expected {expected}")]
    OtherLayer { expected: Digest, found: Digest },
    #[error("the layer {layer} of the template `{template}` is missing")]
    LostLayer { template: Reference, layer: Digest },
}

impl Store {
    /// Opens the store in `root`, making it if need be.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        for name in ["layers", "templates", "steps", "tmp"] {
            let path = root.join(name);
            fs::create_dir_all(&path).map_err(at("create", &path))?;
        }
        let root = root.canonicalize().map_err(at("open", root))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A directory for work under way, removed when dropped.
    pub fn workspace(&self) -> Result<Workspace, StoreError> {
        let tmp = self.root.join("tmp");
        let _lock = self.lock()?;
        let directory = tempfile::tempdir_in(&tmp).map_err(at("create a directory in", &tmp))?;
        let held = hold(directory.path())?;
        Ok(Workspace { directory, _held: held })
    }

    /// Seals a tree, which must be in a [`Workspace`], and takes it over.
    pub fn add_layer(&self, tree: &Path, kind: Kind) -> Result<Layer, StoreError> {
        let sealed = tree::seal(tree, kind)?;
        self.take_over(tree, &sealed)
    }

    /// Seals a tree where it is, on a file system of its own, and takes a copy of it.
    pub fn copy_layer(&self, tree: &Path, kind: Kind, caps: Caps) -> Result<Layer, StoreError> {
        let sealed = tree::seal(tree, kind)?;
        if let Some(present) = self.layer(&sealed.digest)? {
            return Ok(present);
        }
        let work = self.workspace()?;
        let copy = work.path().join("layer");
        fs::create_dir(&copy).map_err(at("create", &copy))?;
        pack::copy(tree, &copy, caps)?;
        self.add_known_layer(&copy, &sealed.digest)
    }

    /// The same for a tree that came from elsewhere, if it is the layer that it is
    /// said to be.
    pub fn add_known_layer(&self, tree: &Path, expected: &Digest) -> Result<Layer, StoreError> {
        // What has no whiteout is the same layer, whichever it is taken for.
        let sealed = tree::seal(tree, Kind::Upper)?;
        if sealed.digest != *expected {
            return Err(StoreError::OtherLayer { expected: *expected, found: sealed.digest });
        }
        self.take_over(tree, &sealed)
    }

    fn take_over(&self, tree: &Path, sealed: &Sealed) -> Result<Layer, StoreError> {
        let facts =
            LayerFacts { bytes: sealed.bytes, entries: sealed.entries, stripped: sealed.stripped };
        let directory = File::open(tree).map_err(at("open", tree))?;
        // One call for the whole tree; a file at a time takes minutes.
        syncfs(&directory).map_err(at("write through", tree))?;

        let _lock = self.lock()?;
        if let Some(present) = self.layer(&sealed.digest)? {
            return Ok(present);
        }
        let target = self.layer_path(&sealed.digest);
        self.write_json(&facts_path(&target), &facts)?;
        fs::rename(tree, &target).map_err(at("create", &target))?;
        self.sync_directory("layers")?;
        self.layer(&sealed.digest)?
            .ok_or_else(|| at("open", &target)(io::Error::from(io::ErrorKind::NotFound)).into())
    }

    pub fn layer(&self, digest: &Digest) -> Result<Option<Layer>, StoreError> {
        let path = self.layer_path(digest);
        let held = match hold(&path) {
            Ok(held) => held,
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let facts = read_json(&facts_path(&path))?;
        Ok(Some(Layer { digest: *digest, path, facts, _held: held }))
    }

    /// The layer that a build step with this key gave earlier, if it is kept.
    pub fn step(&self, key: &Digest) -> Result<Option<Layer>, StoreError> {
        let path = self.root.join("steps").join(key.to_string());
        match fs::read_to_string(&path) {
            Ok(text) => match text.trim().parse() {
                Ok(digest) => self.layer(&digest),
                Err(_) => Ok(None),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at("read", &path)(error).into()),
        }
    }

    /// Notes which layer a build step gave.
    pub fn remember_step(&self, key: &Digest, layer: &Layer) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let path = self.root.join("steps").join(key.to_string());
        Ok(self.write_file(&path, layer.digest.to_string().as_bytes())?)
    }

    /// Adds a version and makes it the latest.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let _lock = self.lock()?;
        let directory = self.template_path(&manifest.name);
        fs::create_dir_all(&directory).map_err(at("create", &directory))?;
        let file = format!("{}.json", manifest.version);
        self.write_json(&directory.join(&file), manifest)?;
        self.point_latest(&directory, &file)
    }

    /// Every version of every template, by name, newest first.
    pub fn list(&self) -> Result<Vec<Manifest>, StoreError> {
        let templates = self.root.join("templates");
        let mut found = Vec::new();
        for entry in fs::read_dir(&templates).map_err(at("list", &templates))? {
            let name = entry.map_err(at("list", &templates))?.file_name();
            found.extend(self.versions(&name.to_string_lossy())?);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name).then(b.created.cmp(&a.created)));
        Ok(found)
    }

    /// The manifest of a version; without one, of the latest.
    pub fn show(&self, reference: &Reference) -> Result<Manifest, StoreError> {
        let directory = self.template_path(reference.name());
        let path = match reference.version() {
            Some(version) => directory.join(format!("{version}.json")),
            None => directory.join("latest"),
        };
        match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|source| StoreError::Damaged { path, source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::Unknown(reference.clone()))
            }
            Err(error) => Err(at("read", &path)(error).into()),
        }
    }

    /// Finds `name` or `name@version`, ready for use.
    pub fn resolve(&self, reference: &str) -> Result<Template, StoreError> {
        let reference: Reference = reference.parse()?;
        let manifest = self.show(&reference)?;
        let mut template = manifest.template();
        for digest in &manifest.layers {
            let path = self.layer_path(digest);
            if !path.is_dir() {
                return Err(StoreError::LostLayer { template: reference, layer: *digest });
            }
            template.root.layers.push(path);
        }
        Ok(template)
    }

    /// Removes a version, or all of a template, and the layers that nothing
    /// needs any more.
    pub fn remove(&self, reference: &Reference) -> Result<Collected, StoreError> {
        let lock = self.lock()?;
        let directory = self.template_path(reference.name());
        let versions = self.versions(reference.name())?;
        let chosen = |manifest: &&Manifest| match reference.version() {
            Some(version) => manifest.version == version,
            None => true,
        };
        let (gone, kept): (Vec<_>, Vec<_>) = versions.iter().partition(chosen);
        if gone.is_empty() {
            return Err(StoreError::Unknown(reference.clone()));
        }
        // The link first: it must never name a version that is not there.
        match kept.iter().max_by_key(|manifest| manifest.created) {
            Some(newest) => self.point_latest(&directory, &format!("{}.json", newest.version))?,
            None => remove_if_there(&directory.join("latest"))?,
        }
        for manifest in gone {
            remove_if_there(&directory.join(format!("{}.json", manifest.version)))?;
        }
        if kept.is_empty() {
            fs::remove_dir(&directory).map_err(at("remove", &directory))?;
        }
        self.collect_locked(&lock)
    }

    fn versions(&self, name: &str) -> Result<Vec<Manifest>, StoreError> {
        let directory = self.template_path(name);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at("list", &directory)(error).into()),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(at("list", &directory))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                found.push(read_json(&path)?);
            }
        }
        Ok(found)
    }

    fn point_latest(&self, directory: &Path, file: &str) -> Result<(), StoreError> {
        // A link cannot be replaced in place; a new one is renamed over it.
        let tmp = self.root.join("tmp");
        let work = tempfile::tempdir_in(&tmp).map_err(at("create a directory in", &tmp))?;
        let (fresh, latest) = (work.path().join("latest"), directory.join("latest"));
        std::os::unix::fs::symlink(file, &fresh).map_err(at("create", &fresh))?;
        Ok(fs::rename(&fresh, &latest).map_err(at("create", &latest))?)
    }

    pub(crate) fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_vec_pretty(value)
            .map_err(|source| StoreError::Damaged { path: path.to_owned(), source })?;
        Ok(self.write_file(path, &text)?)
    }

    fn write_file(&self, path: &Path, content: &[u8]) -> Result<(), file::Error> {
        let tmp = self.root.join("tmp");
        let mut fresh = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(&tmp)
            .map_err(at("create a file in", &tmp))?;
        fresh.write_all(content).map_err(at("write", path))?;
        fresh.as_file().sync_all().map_err(at("write through", path))?;
        fresh.persist(path).map_err(|error| at("create", path)(error.error))?;
        let directory = path.parent().unwrap_or(&self.root);
        let opened = File::open(directory).map_err(at("open", directory))?;
        opened.sync_all().map_err(at("write through", directory))
    }

    fn sync_directory(&self, name: &str) -> Result<(), file::Error> {
        let path = self.root.join(name);
        let directory = File::open(&path).map_err(at("open", &path))?;
        directory.sync_all().map_err(at("write through", &path))
    }

    /// Waits for the right to change the store.
    fn lock(&self) -> Result<Lock, file::Error> {
        let path = self.root.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(at("open", &path))?;
        flock(&file, FlockOperation::LockExclusive).map_err(at("lock", &path))?;
        Ok(Lock { _file: file })
    }

    fn layer_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("layers").join(digest.to_string())
    }

    fn template_path(&self, name: &str) -> PathBuf {
        self.root.join("templates").join(name)
    }
}

/// The right to change the store, as long as it lives.
#[derive(Debug)]
struct Lock {
    _file: File,
}

/// A directory for work under way, on the store's own filesystem.
#[derive(Debug)]
pub struct Workspace {
    directory: tempfile::TempDir,
    _held: File,
}

impl Workspace {
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn facts_path(layer: &Path) -> PathBuf {
    layer.with_extension("json")
}

pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, StoreError> {
    let text = fs::read(path).map_err(at("read", path))?;
    serde_json::from_slice(&text)
        .map_err(|source| StoreError::Damaged { path: path.to_owned(), source })
}

fn remove_if_there(path: &Path) -> Result<(), file::Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
