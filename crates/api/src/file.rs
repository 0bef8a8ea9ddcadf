//! Files of a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Number, Path};
use crate::call::User;

/// A file and the user whose permissions apply.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileQuery {
    /// Path. Relative paths start at the home directory.
    pub path: Path,
    /// User whose permissions apply. Default: the template's user, or else the other one.
    #[serde(default)]
    pub user: Option<User>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Directory to list. Default: the home directory.
    #[serde(default)]
    pub path: Option<Path>,
    /// User whose permissions apply. Default: the template's user, or else the other one.
    #[serde(default)]
    pub user: Option<User>,
    /// Levels of subdirectories to list. Default: 1.
    #[serde(default)]
    pub depth: Option<Number<1, 64>>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeDirectory {
    /// Directory to create, with all its parents. It is an error if it exists.
    pub path: Path,
    /// User whose permissions apply. Default: the template's user, or else the other one.
    #[serde(default)]
    pub user: Option<User>,
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveFile {
    pub from: Path,
    /// New path. Missing parent directories are created.
    pub to: Path,
    /// User whose permissions apply. Default: the template's user, or else the other one.
    #[serde(default)]
    pub user: Option<User>,
}

/// The written file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    pub path: String,
    pub bytes: u64,
}

/// A file, directory or link.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub path: String,
    pub kind: EntryKind,
    pub bytes: u64,
    /// Permissions in octal.
    pub mode: String,
    pub uid: u32,
    pub gid: u32,
    pub modified_at: DateTime,
    /// Target of a symbolic link.
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

/// All entries of a directory. A list is never partial.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EntryList {
    pub items: Vec<Entry>,
}
