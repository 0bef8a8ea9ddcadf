//! Reads the manifests of the workspace: who its members are and what they
//! depend on, under the names that the packages really have.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    /// What `[workspace.lints.rust]` says about `unsafe_code`.
    pub(crate) unsafe_lint: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) package: String,
    pub(crate) folder: PathBuf,
    /// The manifest's path below the workspace's root, for messages.
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether the member takes its lints from the workspace.
    pub(crate) workspace_lints: bool,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's own name, whatever the manifest calls it.
    pub(crate) package: String,
    pub(crate) kind: Kind,
    /// Whether the manifest states a version instead of the workspace's.
    pub(crate) own_version: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Normal, Self::Dev, Self::Build];

    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Normal => "dependencies",
            Self::Dev => "dev-dependencies",
            Self::Build => "build-dependencies",
        }
    }
}

impl Workspace {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let manifest = read_table(&root.join("Cargo.toml"))?;
        let workspace = manifest.get("workspace").and_then(Value::as_table);
        let workspace = workspace.context("the root Cargo.toml has no [workspace]")?;
        let shared = workspace.get("dependencies").and_then(Value::as_table);
        let shared = shared.cloned().unwrap_or_default();
        let mut members = Vec::new();
        for folder in member_folders(root, workspace)? {
            members.push(read_member(root, folder, &shared)?);
        }
        let unsafe_lint = get(workspace, &["lints", "rust", "unsafe_code"]);
        let unsafe_lint = unsafe_lint.and_then(Value::as_str).map(str::to_owned);
        Ok(Self { members, unsafe_lint })
    }
}

/// Expands `members`. A folder without a manifest never gets here: cargo
/// refuses the workspace before it builds us.
fn member_folders(root: &Path, workspace: &Table) -> Result<Vec<PathBuf>> {
    let patterns = workspace.get("members").and_then(Value::as_array);
    let mut folders = Vec::new();
    for pattern in patterns.context("[workspace] lists no members")? {
        let pattern = pattern.as_str().context("a workspace member is not a string")?;
        let Some(parent) = pattern.strip_suffix("/*") else {
            if pattern.contains('*') {
                bail!("xtask reads only member patterns that end in /*, not `{pattern}`");
            }
            folders.push(root.join(pattern));
            continue;
        };
        let parent = root.join(parent);
        let entries = fs::read_dir(&parent).with_context(|| format!("cannot list {parent:?}"))?;
        for entry in entries {
            let folder = entry?.path();
            if folder.join("Cargo.toml").is_file() {
                folders.push(folder);
            }
        }
    }
    folders.sort();
    Ok(folders)
}

fn read_member(root: &Path, folder: PathBuf, shared: &Table) -> Result<Member> {
    let path = folder.join("Cargo.toml");
    let manifest = read_table(&path)?;
    let package = get(&manifest, &["package", "name"]).and_then(Value::as_str);
    let package = package.with_context(|| format!("{path:?} names no package"))?.to_owned();
    let mut dependencies = Vec::new();
    // Dependencies may also stand under [target.'cfg(…)'].
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(|t| t.values()).filter_map(Value::as_table);
    for table in std::iter::once(&manifest).chain(targets) {
        for kind in Kind::ALL {
            let section = table.get(kind.section()).and_then(Value::as_table);
            for (name, value) in section.into_iter().flatten() {
                dependencies.push(Dependency {
                    package: real_name(name, value, shared),
                    kind,
                    own_version: value.is_str() || value.get("version").is_some(),
                });
            }
        }
    }
    let lints = get(&manifest, &["lints", "workspace"]).and_then(Value::as_bool);
    let manifest = path.strip_prefix(root).unwrap_or(&path).display().to_string();
    Ok(Member { package, folder, manifest, dependencies, workspace_lints: lints == Some(true) })
}

/// Sees through `name = { package = "other" }`, here or in the workspace.
fn real_name(name: &str, value: &Value, shared: &Table) -> String {
    let here = value.get("package");
    let there = || shared.get(name).and_then(|value| value.get("package"));
    here.or_else(there).and_then(Value::as_str).unwrap_or(name).to_owned()
}

fn get<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(table.get(*first)?, |value, key| value.get(key))
}

fn read_table(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?;
    text.parse().with_context(|| format!("cannot parse {path:?}"))
}
