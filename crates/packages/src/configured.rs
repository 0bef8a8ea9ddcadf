//! Which indexes the package managers of a root filesystem are configured for.
//!
//! Everything is read from that root's own files and environment at run time:
//! mirrors work without being told, and no host stands in our source. Where a
//! manager is installed but not configured, its own default is looked up in its
//! own files. A root that uses the host's indexes is the caller's choice: it
//! passes [`Tree::host`](crate::Tree::host) and the operator's environment.

mod apt;
mod cargo;
mod go;
mod lines;
mod npm;
mod pip;
mod policy;
mod program;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use belljar_domain::RootFs;

use crate::files::{Files, OpenError, Tree};
use crate::rules::{self, Told};
use crate::url::{Credential, InvalidUrl, Url};

/// Environment variables by name.
pub type Environment = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Manager {
    /// And uv, whose settings are its own but whose indexes are alike.
    Pip,
    /// And what shares its settings: pnpm, yarn, bun.
    Npm,
    Cargo,
    Apt,
    Go,
}

/// One index that a manager asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub manager: Manager,
    pub role: Role,
    pub url: Url,
    /// Whether the URL held a password. It is not kept: the index is asked
    /// without, unless the gateway has a credential of its own.
    pub credential: Credential,
    pub source: Source,
}

/// What an index is to its manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Main,
    /// Asked as well.
    Extra,
    /// A page of links to files, or a directory of them.
    Links,
    /// For one scope of npm's (`@scope`), or one registry of cargo's.
    Named(String),
    /// Go's database of what modules hash to.
    Checksums,
}

/// Where a setting was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Variable(String),
    File(String),
    /// The manager's own default, from its own file.
    Builtin(String),
    /// A policy that was made from other indexes.
    Policy,
}

/// All indexes of one root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Indexes {
    pub pip: Vec<Index>,
    pub npm: Vec<Index>,
    pub cargo: Vec<Index>,
    pub apt: Vec<Index>,
    pub go: Vec<Index>,
    /// What somebody should know who wonders why an index is not there.
    pub notes: Vec<Note>,
}

/// A setting that does not lead to an index, or not all of the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub manager: Manager,
    pub source: Option<Source>,
    pub about: About,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// It is installed, not configured, and its default is only in its program.
    UnknownDefault,
    /// There was a password in the URL.
    Credential,
    Invalid(InvalidUrl),
    /// An index that is a git repository: reading it needs more than GET.
    Git,
    /// A list of mirrors that is fetched: only the list itself is allowed.
    Mirrors,
    /// More than anybody needs; the rest is ignored.
    TooMany,
}

/// How many indexes of one manager, places to look at, and so on are used. A
/// template's maker must not be able to keep us busy.
const MOST: usize = 64;

/// The indexes of a template's managers, and of the host's where those have none
/// of their own; with what is told inside for the host's to be used.
pub fn of_template(
    root: &RootFs,
    own: &Environment,
    host: &Environment,
) -> Result<(Indexes, Told), OpenError> {
    let tree = Tree::of(root)?;
    let (indexes, taken) = read(&tree, own).or_of_host(read(&Tree::host()?, host));
    let (variables, files) = (rules::environment(&taken), rules::files(&taken, &tree, own));
    Ok((indexes, Told { variables, files }))
}

/// The indexes of the host's managers, whatever the template says; with what is
/// told inside for them to be used.
pub fn of_host(
    root: &RootFs,
    own: &Environment,
    host: &Environment,
) -> Result<(Indexes, Told), OpenError> {
    let tree = Tree::of(root)?;
    let indexes = read(&Tree::host()?, host);
    let (variables, files) = (rules::environment(&indexes), rules::files(&indexes, &tree, own));
    Ok((indexes, Told { variables, files }))
}

/// Reads them all.
pub fn read(files: &dyn Files, environment: &Environment) -> Indexes {
    let mut search = Search { files, environment, found: Indexes::default() };
    pip::search(&mut search);
    npm::search(&mut search);
    cargo::search(&mut search);
    apt::search(&mut search);
    go::search(&mut search);
    search.found
}

impl Indexes {
    pub fn all(&self) -> impl Iterator<Item = &Index> {
        [&self.pip, &self.npm, &self.cargo, &self.apt, &self.go].into_iter().flatten()
    }

    pub fn of(&self, manager: Manager) -> &[Index] {
        match manager {
            Manager::Pip => &self.pip,
            Manager::Npm => &self.npm,
            Manager::Cargo => &self.cargo,
            Manager::Apt => &self.apt,
            Manager::Go => &self.go,
        }
    }

    /// The index that a URL belongs to: the one with the longest path above it.
    pub fn above(&self, url: &Url) -> Option<&Index> {
        let is_above = |index: &&Index| {
            let base = index.url.path().trim_end_matches('/');
            index.url.is_same_origin(url)
                && url.path().strip_prefix(base).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        self.all().filter(is_above).max_by_key(|index| index.url.path().len())
    }

    fn of_mut(&mut self, manager: Manager) -> &mut Vec<Index> {
        match manager {
            Manager::Pip => &mut self.pip,
            Manager::Npm => &mut self.npm,
            Manager::Cargo => &mut self.cargo,
            Manager::Apt => &mut self.apt,
            Manager::Go => &mut self.go,
        }
    }
}

/// The root that is searched, and what was found so far.
struct Search<'a> {
    files: &'a dyn Files,
    environment: &'a Environment,
    found: Indexes,
}

impl Search<'_> {
    /// A variable that is set and not empty: managers take empty for unset.
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Who calls run as is decided call by call, so both homes count when the
    /// environment names none.
    fn homes(&self) -> Vec<String> {
        match self.variable("HOME") {
            Some(home) => vec![home.trim_end_matches('/').to_owned()],
            None => vec!["/home/user".into(), "/root".into()],
        }
    }

    /// Where programs may be installed: what the search path names, first.
    fn prefixes(&self) -> Vec<String> {
        let mut prefixes: Vec<String> = Vec::new();
        let named = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(|name| self.variable(name));
        prefixes
            .extend(named.into_iter().flatten().map(|path| path.trim_end_matches('/').to_owned()));
        let path = self.variable("PATH").unwrap_or_default();
        prefixes.extend(path.split(':').filter_map(|entry| {
            entry.trim_end_matches('/').strip_suffix("/bin").map(str::to_owned)
        }));
        prefixes.extend(["/usr/local", "/usr", "/opt/venv", "/opt/conda"].map(str::to_owned));
        prefixes.extend(self.homes().into_iter().map(|home| format!("{home}/.local")));
        let mut seen = std::collections::HashSet::new();
        prefixes.retain(|prefix| prefix.starts_with('/') && seen.insert(prefix.clone()));
        prefixes.truncate(MOST);
        prefixes
    }

    fn add(&mut self, manager: Manager, role: Role, source: Source, text: &str) {
        match Url::configured(text.trim()) {
            Ok((url, credential)) => {
                if credential == Credential::Removed {
                    self.note(manager, Some(source.clone()), About::Credential);
                }
                let known = self.found.of_mut(manager);
                if known.len() == MOST {
                    self.note(manager, None, About::TooMany);
                } else if !known.iter().any(|index| index.url == url && index.role == role) {
                    known.push(Index { manager, role, url, credential, source });
                }
            }
            Err(error) => self.note(manager, Some(source), About::Invalid(error)),
        }
    }

    fn note(&mut self, manager: Manager, source: Option<Source>, about: About) {
        let note = Note { manager, source, about };
        if !self.found.notes.contains(&note) {
            self.found.notes.push(note);
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
            Self::Go => "go",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "${name}"),
            Self::File(path) | Self::Builtin(path) => f.write_str(path),
            Self::Policy => f.write_str("the policy"),
        }
    }
}

impl fmt::Display for Note {
    /// One line for people; never holds what the setting says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.manager)?;
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        match self.about {
            About::UnknownDefault => {
                f.write_str("installed, but its default index is built in: configure one")
            }
            About::Credential => f.write_str("credential in URL, not used"),
            About::Invalid(error) => write!(f, "{error}"),
            About::Git => f.write_str("git indexes are not supported; use the sparse index"),
            About::TooMany => write!(f, "only the first {MOST} indexes are used"),
            About::Mirrors => f.write_str("a mirror list: only the list itself is allowed"),
        }
    }
}
