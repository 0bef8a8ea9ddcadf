//! Files of a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Number, Path};
use crate::call::User;

/// Which file, and who asks.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileQuery {
    /// Relative to the home directory unless it begins with `/`.
    pub path: Path,
    /// Whose rights count, and nobody else's. If nothing is said: those of the
    /// template's own user, or else of the other one.
    #[serde(default)]
    pub user: Option<User>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// A directory; the home directory if nothing is said.
    #[serde(default)]
    pub path: Option<Path>,
    /// Whose rights count, and nobody else's. If nothing is said: those of the
    /// template's own user, or else of the other one.
    #[serde(default)]
    pub user: Option<User>,
    /// How many levels below it; one if nothing is said.
    #[serde(default)]
    pub depth: Option<Number<1, 64>>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// It is made with all its parents; one that is there already is a conflict.
    pub path: Path,
    /// Whose rights count, and nobody else's. If nothing is said: those of the
    /// template's own user, or else of the other one.
    #[serde(default)]
    pub user: Option<User>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    pub from: Path,
    /// Directories above it are made.
    pub to: Path,
    /// Whose rights count, and nobody else's. If nothing is said: those of the
    /// template's own user, or else of the other one.
    #[serde(default)]
    pub user: Option<User>,
}

/// What was written.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    pub path: String,
    pub bytes: u64,
}

/// One file, directory or link.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub path: String,
    pub kind: EntryKind,
    pub bytes: u64,
    /// Permissions, in octal digits.
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    pub modified_at: DateTime,
    /// Where a symbolic link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
}

/// Entries of a directory: all of them, or there is an error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EntryList {
    pub items: Vec<Entry>,
}
