//! Recipes: what a template is made from, as people write it.
//!
//! A recipe is TOML. Unknown keys are refused, so that a misspelled limit is
//! never silently no limit. Everything that later becomes an argument of a tool
//! is checked here, once: no name can start with a dash or hold a space.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use belljar_domain::{Limits, Tier};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::file;

mod check;
mod limits;

pub(crate) use check::{pip_requirement as is_pip_requirement, template_name as is_template_name};
pub use limits::LimitDefaults;

/// A checked recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub base: Base,
    #[serde(default)]
    pub packages: Packages,
    #[serde(default)]
    pub files: Vec<FileEntry>,
    /// Shell commands, each run in a sandbox as its root, without capabilities
    /// and without network.
    #[serde(default)]
    pub run: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub limits: LimitDefaults,
    /// Code that a warm interpreter of the first language runs once.
    #[serde(default)]
    pub warm: Option<String>,
    /// Language to interpreter: `python = "/usr/bin/python3"`.
    #[serde(default)]
    pub languages: BTreeMap<String, PathBuf>,
    /// What its sandboxes are kept in, unless whoever makes one says otherwise.
    /// Left out of the digest when nothing is said: recipes of old stay the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Where relative paths start: the recipe's own directory.
    #[serde(skip)]
    pub directory: PathBuf,
}

/// What the first layer is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawBase", into = "RawBase")]
pub enum Base {
    /// A Debian release, from the mirror that this host itself uses.
    Debian { suite: String },
    /// An OCI image layout on disk.
    Oci { layout: PathBuf, tag: Option<String> },
    /// A copy of a directory.
    Directory { path: PathBuf },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Packages {
    pub apt: Vec<String>,
    pub pip: Vec<String>,
    pub npm: Vec<String>,
}

/// A file to place: either a copy of `source` or the text in `content`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    #[serde(default)]
    pub source: Option<PathBuf>,
    #[serde(default)]
    pub content: Option<String>,
    /// Absolute path inside.
    pub target: PathBuf,
    #[serde(default)]
    pub mode: FileMode,
}

/// Permission bits, written in octal as text: `"0755"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileMode(u32);

#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("the recipe `{origin}` is not valid")]
    Syntax { origin: String, source: Box<toml::de::Error> },
    #[error("in the recipe `{recipe}`, {what}; {hint}")]
    Invalid { recipe: String, what: String, hint: &'static str },
    #[error("in the recipe `{recipe}`")]
    Limits { recipe: String, source: belljar_domain::limits::OutOfRange },
}

impl Recipe {
    /// Reads a recipe file. Relative paths in it start at its directory.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let text = fs::read_to_string(path).map_err(file::at("read", path))?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, &path.display().to_string(), directory)
    }

    /// Reads a recipe. `origin` names it in messages.
    pub fn parse(text: &str, origin: &str, directory: &Path) -> Result<Self, RecipeError> {
        let mut recipe: Self = toml::from_str(text).map_err(|source| RecipeError::Syntax {
            origin: origin.to_owned(),
            source: Box::new(source),
        })?;
        directory.clone_into(&mut recipe.directory);
        check::recipe(&recipe)?;
        Ok(recipe)
    }

    /// A path of the recipe, from where the process stands.
    pub fn locate(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Digest of what the recipe says, whatever its layout, order of keys and
    /// comments.
    pub fn digest(&self) -> Digest {
        // A struct of texts, lists and sorted maps has no value that JSON lacks.
        Digest::of(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The limits that a sandbox of this template has by default.
    pub fn default_limits(&self) -> Limits {
        self.limits.over(Limits::default())
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian { suite } => write!(f, "Debian {suite}"),
            Self::Oci { layout, tag: Some(tag) } => write!(f, "image {}:{tag}", layout.display()),
            Self::Oci { layout, tag: None } => write!(f, "image {}", layout.display()),
            Self::Directory { path } => write!(f, "directory {}", path.display()),
        }
    }
}

/// `base` as written: exactly one of three keys, and `tag` beside `oci`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawBase {
    #[serde(skip_serializing_if = "Option::is_none")]
    debian: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oci: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
}

impl TryFrom<RawBase> for Base {
    type Error = &'static str;

    fn try_from(raw: RawBase) -> Result<Self, Self::Error> {
        match raw {
            RawBase { debian: Some(suite), oci: None, tag: None, directory: None } => {
                Ok(Self::Debian { suite })
            }
            RawBase { debian: None, oci: Some(layout), tag, directory: None } => {
                Ok(Self::Oci { layout, tag })
            }
            RawBase { debian: None, oci: None, tag: None, directory: Some(path) } => {
                Ok(Self::Directory { path })
            }
            _ => Err("expected one of { debian = \"suite\" }, { oci = \"layout\", tag = \"…\" } \
                      and { directory = \"path\" }"),
        }
    }
}

impl From<Base> for RawBase {
    fn from(base: Base) -> Self {
        match base {
            Base::Debian { suite } => Self { debian: Some(suite), ..Self::default() },
            Base::Oci { layout, tag } => Self { oci: Some(layout), tag, ..Self::default() },
            Base::Directory { path } => Self { directory: Some(path), ..Self::default() },
        }
    }
}

impl FileMode {
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for FileMode {
    fn default() -> Self {
        Self(0o644)
    }
}

impl TryFrom<String> for FileMode {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bits = u32::from_str_radix(&text, 8).ok().filter(|bits| *bits <= 0o777);
        bits.map(Self).ok_or("expected an octal mode up to \"0777\", such as \"0755\"")
    }
}

impl From<FileMode> for String {
    fn from(mode: FileMode) -> Self {
        format!("{:04o}", mode.0)
    }
}

#[cfg(test)]
mod tests;
