//! `COPY` and `WORKDIR`: files laid over the layers, without running anything.

use std::path::{Path, PathBuf};

use belljar_domain::User;
use belljar_template::Digest;
use belljar_template::digest::Fields;
use belljar_template::lay::{self, Copy, Lay, Target};
use belljar_template::oci::Caps;
use belljar_template::tree::Kind as Tree;

use super::{Stand, Work};
use crate::builds::steps::Action;
use crate::builds::{StepError, blocking};
use crate::problem::Problem;

impl Work<'_> {
    pub(super) async fn workdir(
        &self,
        stand: &mut Stand,
        directory: &str,
        name: &str,
    ) -> Result<(), StepError> {
        let path = Path::new(stand.workdir.as_deref().unwrap_or("/")).join(directory);
        let path = plain(&path);
        let shown = path.to_str().unwrap_or("/").to_owned();
        let mut inputs = Fields::new();
        inputs.add("workdir").add(&shown).add(&stand.user);
        let key = stand.key(&inputs.finish());
        if !self.cached(stand, &key, name).await? {
            stand.check_room()?;
            let owner = self.owner(stand, &stand.user).await?.unwrap_or((0, 0));
            let work = self.workspace().await?;
            let (layers, stage) = (stand.paths(), work.path().join("layer"));
            let made = stage.clone();
            blocking("create the directory", move || {
                Lay::new(&layers, &made, owner)?.directory(&path).map(drop)
            })
            .await?;
            self.keep(stand, &key, work, stage, Tree::Base).await?;
        }
        stand.workdir = Some(shown);
        Ok(())
    }

    pub(super) async fn copy(
        &self,
        stand: &mut Stand,
        action: &Action,
        name: &str,
    ) -> Result<(), StepError> {
        let Action::Copy { source, target, owner, mode, files } = action else {
            return Ok(());
        };
        let missing = || StepError::Told("the files of this step were not uploaded".to_owned());
        let mut upload =
            self.actions.builds().uploads().find(self.tenant, files).ok_or_else(missing)?;
        // The hash that came with it is the sender's word; this is what is there.
        let (content, upload) = blocking("read the upload", move || {
            let (content, _) = Digest::of_reader(&mut upload)?;
            std::io::Seek::rewind(&mut upload)?;
            Ok::<_, std::io::Error>((content, upload))
        })
        .await?;
        let owner = owner.as_deref().unwrap_or(&stand.user).to_owned();
        let names = if target.ends_with('/') { Target::Directory } else { Target::Itself };
        let home = if stand.user == "root" { User::Root.home() } else { User::User.home() };
        let target = plain(&Path::new(stand.workdir.as_deref().unwrap_or(home)).join(target));
        let mut inputs = Fields::new();
        inputs.add("copy").digest(&content).add(source).add(target.as_os_str().as_encoded_bytes());
        inputs.add(&owner).number(mode.map_or(u64::MAX, u64::from)).number(names as u64);
        let key = stand.key(&inputs.finish());
        if self.cached(stand, &key, name).await? {
            return Ok(());
        }
        stand.check_room()?;
        let found = self.owner(stand, &owner).await?;
        let found = found.ok_or_else(|| {
            StepError::Told(format!("failed to copy: there is no user or group '{owner}'"))
        })?;
        let work = self.workspace().await?;
        let (layers, stage) = (stand.paths(), work.path().join("layer"));
        let (unpacked, made) = (work.path().join("unpacked"), stage.clone());
        let caps = self.caps();
        let (source, mode) = (source.clone(), *mode);
        let copied = tokio::task::spawn_blocking(move || {
            let mut upload = upload;
            std::fs::create_dir(&unpacked).ok();
            lay::unpack(&mut upload, &unpacked, caps)?;
            let copy = Copy { source: &source, target: &target, names, mode };
            Lay::new(&layers, &made, found)?.copy(&unpacked, &copy)
        });
        let copied = copied.await.map_err(|error| Problem::internal("copy files", &error))?;
        copied
            .map_err(|error| StepError::Told(format!("failed to copy files: {}", chain(&error))))?;
        self.keep(stand, &key, work, stage, Tree::Base).await
    }

    fn caps(&self) -> Caps {
        let most = self.actions.config().builds.written;
        Caps { bytes: most.bytes, entries: most.entries, layers: 1 }
    }
}

/// A path without `.`; `..` takes back what was before it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            std::path::Component::Normal(name) => plain.push(name),
            std::path::Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    plain
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_plain_paths() {
        for (path, want) in [("/a/./b/../c", "/a/c"), ("/../..", "/"), ("a//b/", "/a/b")] {
            assert_eq!(plain(Path::new(path)), Path::new(want));
        }
    }
}
