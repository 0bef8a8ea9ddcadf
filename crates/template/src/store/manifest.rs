//! One version of a template, as the store keeps it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use belljar_domain::{Bind, RootFs};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::recipe::LimitDefaults;
use crate::template::{Defaults, Template};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    /// The first 12 characters of the digest of recipe and layers.
    pub version: String,
    #[serde(default)]
    pub description: String,
    /// Seconds since the epoch.
    pub created: u64,
    /// Uppermost first.
    pub layers: Vec<Digest>,
    pub binds: Vec<Bind>,
    pub env: BTreeMap<String, String>,
    pub languages: BTreeMap<String, PathBuf>,
    #[serde(default)]
    pub limits: LimitDefaults,
    pub warm: Option<String>,
    #[serde(default)]
    pub defaults: Defaults,
    /// Bytes and files of all layers.
    pub size: u64,
    pub files: u64,
}

impl Manifest {
    /// The template, still without the places of its layers.
    pub(super) fn template(&self) -> Template {
        Template {
            name: self.name.clone(),
            version: self.version.clone(),
            root: RootFs { layers: Vec::new(), binds: self.binds.clone() },
            env: self.env.clone(),
            languages: self.languages.clone(),
            limits: self.limits.clone(),
            warm: self.warm.clone(),
            defaults: self.defaults.clone(),
        }
    }
}

/// `name` or `name@version`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    name: String,
    version: Option<String>,
}

/// A text that names no template.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a template reference; use NAME or NAME@VERSION")]
pub struct InvalidReference(String);

impl Reference {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        // Both become file names.
        let plain = |version: &str| {
            version.len() == 12 && version.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        if crate::recipe::is_template_name(name) && version.is_none_or(plain) {
            Ok(Self { name: name.to_owned(), version: version.map(str::to_owned) })
        } else {
            Err(InvalidReference(text.to_owned()))
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
