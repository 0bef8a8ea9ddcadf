//! The first layer: Debian, an image, or a copy of a directory.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Build, StepError};
use crate::confined::{Attributes, Root};
use crate::digest::{Digest, Fields};
use crate::file::{self, at};
use crate::oci::Image;
use crate::packages::apt;
use crate::progress::{Lines, Progress};
use crate::recipe::Base;
use crate::skeleton;
use crate::store::{Layer, Workspace};
use crate::tree::{Kind, seal};

/// Raised whenever bases come out differently for the same inputs.
const GENERATION: u64 = 1;

impl Build<'_> {
    pub(super) fn base_inputs(&mut self) -> Result<Digest, StepError> {
        let options = &self.builder.options;
        let mut fields = Fields::new();
        fields.add("base").number(GENERATION).add(std::env::consts::ARCH);
        match &self.recipe.base {
            Base::Debian { suite } => {
                fields.add("debian").add(suite).add(options.mirror.as_deref().unwrap_or(""));
                let mut packages = self.recipe.packages.apt.clone();
                packages.sort();
                fields.all(packages);
            }
            Base::Oci { layout, tag } => {
                let layout = self.recipe.locate(layout);
                let image = Image::open(&layout, tag.as_deref(), &options.caps)?;
                let pairs = image.env.iter().filter_map(|pair| pair.split_once('='));
                self.env.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                fields.add("oci").digest(&image.manifest);
            }
            Base::Directory { path } => {
                let path = self.recipe.locate(path);
                let found = seal(&path, Kind::Inspect).map_err(crate::store::StoreError::Seal)?;
                fields.add("directory").digest(&found.digest);
            }
        }
        Ok(fields.finish())
    }

    pub(super) fn make_base(
        &self,
        work: &Workspace,
        progress: &mut dyn Progress,
    ) -> Result<Layer, StepError> {
        let options = &self.builder.options;
        let target = work.path().join("base");
        fs::create_dir(&target).map_err(at("create", &target))?;
        match &self.recipe.base {
            Base::Debian { suite } => {
                let request = apt::Request {
                    program: &options.tools.mmdebstrap,
                    suite,
                    packages: &self.recipe.packages.apt,
                    mirror: options.mirror.as_deref(),
                    timeout: options.step_timeout,
                };
                let mut lines = Lines::default();
                apt::bootstrap(&request, work.path(), &target, &mut |bytes| {
                    lines.feed(bytes, |line| progress.line(line));
                })?;
            }
            Base::Oci { layout, tag } => {
                let layout = self.recipe.locate(layout);
                let image = Image::open(&layout, tag.as_deref(), &options.caps)?;
                image.unpack(&target, &options.caps, progress)?;
            }
            Base::Directory { path } => {
                let root = Root::open(&target).map_err(at("open", &target))?;
                copy(&root, &self.recipe.locate(path), Path::new(""))?;
            }
        }
        let root = Root::open(&target).map_err(at("open", &target))?;
        skeleton::apply(&root).map_err(at("complete", &target))?;
        Ok(self.builder.store.add_layer(&target, Kind::Base)?)
    }
}

/// Copies what is in `source` to `inside` of the new tree. Links are copied as
/// links; devices, sockets and fifos are left out.
fn copy(root: &Root, source: &Path, inside: &Path) -> Result<(), file::Error> {
    for entry in fs::read_dir(source).map_err(at("list", source))? {
        let entry = entry.map_err(at("list", source))?;
        let (from, to) = (entry.path(), inside.join(entry.file_name()));
        let metadata = entry.metadata().map_err(at("stat", &from))?;
        let attributes = Attributes {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            modified: Some(metadata.mtime()),
        };
        if metadata.is_dir() {
            root.directory(&to, &attributes).map_err(at("copy", &from))?;
            copy(root, &from, &to)?;
        } else if metadata.is_symlink() {
            let link = fs::read_link(&from).map_err(at("read link", &from))?;
            root.symlink(&to, link.as_os_str(), &attributes).map_err(at("copy", &from))?;
        } else if metadata.is_file() {
            let mut content = File::open(&from).map_err(at("open", &from))?;
            root.file(&to, &mut content, &attributes).map_err(at("copy", &from))?;
        }
    }
    Ok(())
}
