//! Removes what nothing needs any more.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::{Lock, Store, StoreError, facts_path, read_json, remove_if_there};
use crate::digest::Digest;
use crate::file::at;

/// What a collection removed, and what it had to leave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    pub layers: u64,
    pub bytes: u64,
    /// Unreferenced layers that a sandbox or a build still uses.
    pub in_use: u64,
}

impl Store {
    /// Removes layers that no version names, and rubbish of builds that died.
    pub fn collect(&self) -> Result<Collected, StoreError> {
        let lock = self.lock()?;
        self.collect_locked(&lock)
    }

    pub(super) fn collect_locked(&self, _lock: &Lock) -> Result<Collected, StoreError> {
        let needed: HashSet<Digest> =
            self.list()?.into_iter().flat_map(|manifest| manifest.layers).collect();
        let mut collected = Collected::default();
        let layers = self.root.join("layers");
        for entry in fs::read_dir(&layers).map_err(at("list", &layers))? {
            let entry = entry.map_err(at("list", &layers))?;
            let Some(digest) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if needed.contains(&digest) {
                continue;
            }
            let Some(_alone) = alone(&entry.path()) else {
                collected.in_use += 1;
                continue;
            };
            let facts: Option<super::LayerFacts> = read_json(&facts_path(&entry.path())).ok();
            self.discard(&entry.path())?;
            remove_if_there(&facts_path(&entry.path()))?;
            collected.layers += 1;
            collected.bytes += facts.map_or(0, |facts| facts.bytes);
        }
        self.forget_steps()?;
        self.forget_images()?;
        self.clean_tmp()?;
        Ok(collected)
    }

    /// Takes a layer out of sight in one move, then removes it at leisure.
    fn discard(&self, path: &Path) -> Result<(), StoreError> {
        let tmp = self.root.join("tmp");
        let grave = tempfile::tempdir_in(&tmp).map_err(at("create a directory in", &tmp))?;
        fs::rename(path, grave.path().join("layer")).map_err(at("remove", path))?;
        grave.close().map_err(at("remove", path))?;
        Ok(())
    }

    /// Drops the memory of steps whose layers are gone.
    fn forget_steps(&self) -> Result<(), StoreError> {
        let steps = self.root.join("steps");
        for entry in fs::read_dir(&steps).map_err(at("list", &steps))? {
            let path = entry.map_err(at("list", &steps))?.path();
            let text = fs::read_to_string(&path).map_err(at("read", &path))?;
            let digest: Option<Digest> = text.trim().parse().ok();
            if !digest.is_some_and(|digest| self.layer_path(&digest).is_dir()) {
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    /// Drops images whose layers are gone. A machine that has one open keeps it.
    fn forget_images(&self) -> Result<(), StoreError> {
        let Ok(entries) = fs::read_dir(self.root.join("images")) else { return Ok(()) };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            let Ok(facts) = read_json::<crate::machine::ImageFacts>(&path) else { continue };
            let is_there = |layer: &String| self.root.join("layers").join(layer).is_dir();
            if !facts.layers.iter().all(is_there) {
                remove_if_there(&path.with_extension("erofs"))?;
                remove_if_there(&path)?;
            }
        }
        Ok(())
    }

    fn clean_tmp(&self) -> Result<(), StoreError> {
        let tmp = self.root.join("tmp");
        for entry in fs::read_dir(&tmp).map_err(at("list", &tmp))? {
            let path = entry.map_err(at("list", &tmp))?.path();
            if path.is_file() {
                remove_if_there(&path)?;
            } else if let Some(_alone) = alone(&path) {
                fs::remove_dir_all(&path).map_err(at("remove", &path))?;
            }
        }
        Ok(())
    }
}

/// Locks a directory that nobody holds. Kept until the directory is gone, so
/// that whoever waits for it meanwhile sees that it went.
fn alone(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}
