//! What a sandbox is started from.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use belljar_domain::{RootFs, Tier, User};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::file::{self, at};
use crate::recipe::LimitDefaults;

/// One version of a template, ready for use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub name: String,
    pub version: String,
    pub root: RootFs,
    /// Environment that calls start with, unless they say otherwise.
    pub env: BTreeMap<String, String>,
    /// Language to interpreter, as a path inside the sandbox.
    pub languages: BTreeMap<String, PathBuf>,
    pub limits: LimitDefaults,
    /// Code that a warm interpreter runs once, before any request.
    pub warm: Option<String>,
    pub defaults: Defaults,
}

/// How sandboxes of a template begin, and whose it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Defaults {
    /// Who calls run as, and where, unless they say otherwise.
    pub user: User,
    pub workdir: Option<String>,
    /// A command that runs from the start of each sandbox, and one that succeeds
    /// as soon as it is ready. Shell text.
    pub start: Option<String>,
    pub ready: Option<String>,
    /// Who had it built through the API; nobody else may use it. `None`: it
    /// came from a recipe, and is for everybody.
    pub owner: Option<String>,
    /// What its sandboxes are kept in, unless whoever makes one says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
}

impl Template {
    /// Keeps the layers from being collected while the lease lives.
    ///
    /// Take it before the first sandbox is made from the template: a layer that
    /// vanished under a mounted sandbox would look to it like deleted files.
    pub fn lease(&self) -> Result<Lease, file::Error> {
        let held = self.root.layers.iter().map(|layer| hold(layer)).collect::<Result<_, _>>()?;
        Ok(Lease { _layers: held })
    }
}

/// Shared locks on a template's layers.
#[derive(Debug)]
pub struct Lease {
    _layers: Vec<File>,
}

/// Opens a directory and takes the shared lock that means "in use".
pub(crate) fn hold(directory: &Path) -> Result<File, file::Error> {
    let file = File::open(directory).map_err(at("open", directory))?;
    flock(&file, FlockOperation::LockShared).map_err(at("lock", directory))?;
    // While we waited, a collection may have moved it away.
    let (held, named) = (file.metadata(), fs::metadata(directory));
    let held = held.map_err(at("open", directory))?;
    let named = named.map_err(at("open", directory))?;
    if (held.dev(), held.ino()) != (named.dev(), named.ino()) {
        return Err(at("open", directory)(io::Error::from(io::ErrorKind::NotFound)));
    }
    Ok(file)
}
