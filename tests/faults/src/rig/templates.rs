//! A store of templates for the rig: the layers of the real one, and no warm
//! interpreter, so that a server is ready at once.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

/// What `base` stands for.
pub(crate) const NAME: &str = "python-data";

fn real() -> PathBuf {
    let named = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
    named.map_or_else(|| PathBuf::from("/var/lib/belljar/templates"), PathBuf::from)
}

pub(crate) fn make(dir: &Path) -> anyhow::Result<PathBuf> {
    let (real, store) = (real(), dir.join("store"));
    let from = real.join("templates").join(NAME);
    let hint = || format!("build it with `belljar template build {NAME}`");
    let version = fs::read_link(from.join("latest")).with_context(hint)?;
    let to = store.join("templates").join(NAME);
    for part in ["steps", "tmp"] {
        fs::create_dir_all(store.join(part))?;
    }
    fs::create_dir_all(&to)?;
    symlink(real.join("layers"), store.join("layers"))?;
    let mut told: Value = serde_json::from_slice(&fs::read(from.join(&version))?)?;
    told["warm"] = Value::Null;
    fs::write(to.join(&version), told.to_string())?;
    symlink(&version, to.join("latest"))?;
    Ok(store)
}

/// Where the newest version of the template is described.
pub(crate) fn manifest(store: &Path) -> anyhow::Result<PathBuf> {
    let dir = store.join("templates").join(NAME);
    let version = fs::read_link(dir.join("latest"))?;
    Ok(dir.join(version))
}
