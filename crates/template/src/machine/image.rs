//! The root filesystem of a template as one image, which machines read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar_domain::RootFs;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::MachineError;
use crate::digest::{Digest, Fields};
use crate::file::at;
use crate::progress::{Outcome, Progress, StepStart};
use crate::store::{Store, read_json};
use crate::template::hold;
use crate::tool::{self, Inherit};

/// A root filesystem that a machine can mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub path: PathBuf,
    /// Of its content: a machine that was put on disk goes on with the same.
    pub digest: Digest,
}

/// What is written down about an image.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ImageFacts {
    pub(crate) layers: Vec<String>,
    digest: Digest,
}

/// Raised whenever images are made in another way.
const GENERATION: u64 = 1;

/// As many as fit into one option of an overlay, which the kernel cuts off.
const MOST_LAYERS: usize = 60;

const LONGEST: Duration = Duration::from_secs(1800);

impl Store {
    /// The store that keeps the layers of `root`.
    pub fn holding(root: &RootFs) -> Result<Self, MachineError> {
        if let Some(bind) = root.binds.first() {
            return Err(MachineError::OnHost(bind.source.clone()));
        }
        let layer = root.layers.first().map(PathBuf::as_path).unwrap_or(Path::new("/"));
        match layer.parent().and_then(Path::parent) {
            Some(store) if layer.parent().is_some_and(|layers| layers.ends_with("layers")) => {
                Ok(Self::open(store)?)
            }
            _ => Err(MachineError::OnHost(layer.to_owned())),
        }
    }

    /// The image of these layers, made now if there is none yet. Whoever asks
    /// meanwhile waits.
    pub fn image(&self, root: &RootFs, progress: &mut dyn Progress) -> Result<Image, MachineError> {
        let images = self.root().join("images");
        fs::create_dir_all(&images).map_err(at("create", &images))?;
        let layers: Vec<String> = root.layers.iter().map(|layer| name_of(layer)).collect();
        let key = Fields::new().number(GENERATION).all(&layers).finish();
        let path = images.join(format!("{key}.erofs"));
        if let Some(image) = kept(&path) {
            return Ok(image);
        }
        let lock = File::create(images.join("lock")).map_err(at("open", &images))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(at("lock", &images))?;
        if let Some(image) = kept(&path) {
            return Ok(image);
        }
        let started = Instant::now();
        progress.started(&StepStart { name: "image for virtual machines", number: 1, total: 1 });
        let made = self.make_image(root, &path, layers);
        let outcome = if made.is_ok() { Outcome::Made } else { Outcome::Failed };
        progress.finished(outcome, started.elapsed());
        made
    }

    fn make_image(
        &self,
        root: &RootFs,
        path: &Path,
        layers: Vec<String>,
    ) -> Result<Image, MachineError> {
        let _held = root.layers.iter().map(|layer| hold(layer)).collect::<Result<Vec<_>, _>>()?;
        let work = self.workspace()?;
        let fresh = work.path().join("image");
        // Its absence is told by name, which the shell further down cannot do.
        tool::run("mkfs.erofs", &["--help".into()], Inherit::Least, LONGEST, &mut |_| {})?;
        format(&root.layers, work.path())?;
        let mut file = File::open(&fresh).map_err(at("open", &fresh))?;
        file.sync_all().map_err(at("write through", &fresh))?;
        let (digest, _) = Digest::of_reader(&mut file).map_err(at("read", &fresh))?;
        self.write_json(&path.with_extension("json"), &ImageFacts { layers, digest })?;
        fs::rename(&fresh, path).map_err(at("create", path))?;
        Ok(Image { path: path.to_owned(), digest })
    }
}

fn kept(path: &Path) -> Option<Image> {
    let facts: ImageFacts = read_json(&path.with_extension("json")).ok()?;
    path.is_file().then(|| Image { path: path.to_owned(), digest: facts.digest })
}

fn name_of(layer: &Path) -> String {
    layer.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Mounts all layers over each other where nobody else sees it, and makes the
/// image of that. By way of a mount namespace, because the tool wants a path.
/// Attributes are of no use inside: sealing left those of overlays only. Times
/// are kept, because interpreters compare them with those in compiled files.
const SCRIPT: &str = r#"
if [ -n "$1" ]; then mount -t overlay -o "ro,userxattr,lowerdir=$1" none merged; fi &&
exec mkfs.erofs -zlz4 -x-1 --preserve-mtime --quiet \
    -U00000000-0000-0000-0000-000000000001 image merged
"#;

fn format(layers: &[PathBuf], work: &Path) -> Result<(), MachineError> {
    if layers.len() > MOST_LAYERS {
        return Err(MachineError::TooHigh(layers.len()));
    }
    let merged = work.join("merged");
    let mut stacked = String::new();
    if let [only] = layers {
        symlink(only, &merged).map_err(at("create", &merged))?;
    } else {
        fs::create_dir(&merged).map_err(at("create", &merged))?;
        let mut names = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            // The kernel cuts the option off after 255 characters.
            let name = format!("l{number}");
            symlink(layer, work.join(&name)).map_err(at("create", work))?;
            names.push(name);
        }
        stacked = names.join(":");
    }
    let chdir = format!("--chdir={}", work.display());
    let arguments: Vec<OsString> =
        [&*chdir, "unshare", "--mount", "sh", "-c", SCRIPT, "sh", &stacked]
            .map(OsString::from)
            .into();
    tool::run("env", &arguments, Inherit::Least, LONGEST, &mut |_| {})?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use belljar_domain::Bind;

    use super::*;

    #[test]
    fn directories_of_the_host_are_refused_with_a_way_out() {
        let bind = Bind::of_host("/usr", "/usr");
        let root = RootFs { layers: vec!["/store/layers/a".into()], binds: vec![bind] };
        let error = Store::holding(&root).unwrap_err().to_string();
        assert!(error.contains("/usr") && error.contains("template build"), "{error}");
        let elsewhere = RootFs { layers: vec!["/srv/tree".into()], binds: Vec::new() };
        assert!(Store::holding(&elsewhere).is_err());
    }
}
