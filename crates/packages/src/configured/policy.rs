//! Indexes as a policy names them, and whose indexes a sandbox uses.

use std::mem;

use belljar_domain::network::{IndexKind, PackageIndex};

use super::{About, Index, Indexes, MOST, Manager, Note, Role, Source};
use crate::url::{Credential, Url};

const MANAGERS: [Manager; 5] =
    [Manager::Pip, Manager::Npm, Manager::Cargo, Manager::Apt, Manager::Go];

impl Indexes {
    /// What a policy says of them: who asks, and where. Nothing else is needed
    /// to judge requests and to read pages.
    pub fn to_policy(&self) -> Vec<PackageIndex> {
        let mut named: Vec<PackageIndex> = Vec::new();
        for index in self.all() {
            let index = PackageIndex { kind: index.manager.into(), url: index.url.to_string() };
            if !named.contains(&index) {
                named.push(index);
            }
        }
        named
    }

    /// The indexes that a policy names. What cannot be asked is in the notes.
    pub fn of_policy(named: &[PackageIndex]) -> Self {
        let mut found = Self::default();
        for PackageIndex { kind, url } in named {
            let manager = Manager::from(*kind);
            let mut note = |about| {
                let note = Note { manager, source: Some(Source::Policy), about };
                if !found.notes.contains(&note) {
                    found.notes.push(note);
                }
            };
            let (url, credential) = match Url::configured(url) {
                Ok(read) => read,
                Err(error) => {
                    note(About::Invalid(error));
                    continue;
                }
            };
            if credential == Credential::Removed {
                note(About::Credential);
            }
            let known = found.of(manager);
            if known.len() == MOST {
                let note = Note { manager, source: None, about: About::TooMany };
                if !found.notes.contains(&note) {
                    found.notes.push(note);
                }
            } else if !known.iter().any(|index| index.url == url) {
                let (role, source) = (Role::Main, Source::Policy);
                found.of_mut(manager).push(Index { manager, role, url, credential, source });
            }
        }
        found
    }

    /// Fills in from the host: a manager that was configured keeps its indexes,
    /// one that has none takes those of the host, and so does one that has only
    /// its built-in default where somebody configured the host.
    ///
    /// What was taken is given as well: managers inside must be told of it.
    pub fn or_of_host(mut self, mut host: Self) -> (Self, Self) {
        let mut taken = Self::default();
        for manager in MANAGERS {
            let (own, other) = (self.of(manager), host.of(manager));
            let is_taken = !is_configured(own)
                && !other.is_empty()
                && (own.is_empty() || is_configured(other));
            if is_taken && own != other {
                *taken.of_mut(manager) = mem::take(host.of_mut(manager));
                *self.of_mut(manager) = taken.of(manager).to_vec();
                self.notes.retain(|note| note.manager != manager);
                self.notes.extend(host.notes.iter().filter(|n| n.manager == manager).cloned());
            }
        }
        (self, taken)
    }
}

/// Whether somebody chose them.
fn is_configured(indexes: &[Index]) -> bool {
    indexes.iter().any(|index| !matches!(index.source, Source::Builtin(_)))
}

impl From<IndexKind> for Manager {
    fn from(kind: IndexKind) -> Self {
        match kind {
            IndexKind::Pip => Self::Pip,
            IndexKind::Npm => Self::Npm,
            IndexKind::Cargo => Self::Cargo,
            IndexKind::Apt => Self::Apt,
            IndexKind::Go => Self::Go,
        }
    }
}

impl From<Manager> for IndexKind {
    fn from(manager: Manager) -> Self {
        match manager {
            Manager::Pip => Self::Pip,
            Manager::Npm => Self::Npm,
            Manager::Cargo => Self::Cargo,
            Manager::Apt => Self::Apt,
            Manager::Go => Self::Go,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InvalidUrl, rules};

    fn index(manager: Manager, url: &str, source: Source) -> Index {
        let url = Url::parse(url).unwrap();
        Index { manager, role: Role::Main, url, credential: Credential::Absent, source }
    }

    fn builtin() -> Source {
        Source::Builtin("/lib/own.py".into())
    }

    fn file() -> Source {
        Source::File("/etc/own.conf".into())
    }

    fn urls(indexes: &Indexes) -> Vec<String> {
        indexes.all().map(|index| index.url.to_string()).collect()
    }

    fn named(kind: IndexKind, url: &str) -> PackageIndex {
        PackageIndex { kind, url: url.into() }
    }

    #[test]
    fn a_policy_names_the_same_indexes() {
        let before = Indexes {
            pip: vec![
                index(Manager::Pip, "https://p.example/simple", file()),
                Index {
                    role: Role::Extra,
                    ..index(Manager::Pip, "http://x.example:81/s/", builtin())
                },
                Index {
                    role: Role::Extra,
                    ..index(Manager::Pip, "https://p.example/simple", file())
                },
            ],
            npm: vec![index(Manager::Npm, "https://n.example/", file())],
            ..Indexes::default()
        };
        let policy = before.to_policy();
        assert_eq!(
            policy,
            [
                named(IndexKind::Pip, "https://p.example/simple"),
                named(IndexKind::Pip, "http://x.example:81/s/"),
                named(IndexKind::Npm, "https://n.example/"),
            ]
        );
        let after = Indexes::of_policy(&policy);
        assert_eq!(rules::of(&after), rules::of(&before));
        assert_eq!(after.to_policy(), policy);
        assert_eq!(after.notes, []);
    }

    #[test]
    fn what_cannot_be_asked_is_told() {
        let found = Indexes::of_policy(&[
            named(IndexKind::Pip, "ftp://p.example/simple"),
            named(IndexKind::Npm, "https://robot:pw@n.example/"),
        ]);
        assert_eq!(urls(&found), ["https://n.example/"]);
        let about: Vec<About> = found.notes.iter().map(|note| note.about).collect();
        assert_eq!(about, [About::Invalid(InvalidUrl::Scheme), About::Credential]);
    }

    #[test]
    fn a_configured_manager_keeps_its_indexes() {
        let own = Indexes {
            pip: vec![index(Manager::Pip, "https://own.example/s", file())],
            ..Indexes::default()
        };
        let host = Indexes {
            pip: vec![index(Manager::Pip, "https://host.example/s", file())],
            npm: vec![index(Manager::Npm, "https://host.example/npm", builtin())],
            ..Indexes::default()
        };
        let (found, taken) = own.or_of_host(host);
        let variables = rules::environment(&taken);
        assert_eq!(urls(&found), ["https://own.example/s", "https://host.example/npm"]);
        assert!(variables.iter().any(|(name, value)| {
            name == "npm_config_registry" && value == "https://host.example/npm"
        }));
        assert!(!variables.iter().any(|(name, _)| name.starts_with("PIP_")));
    }

    #[test]
    fn what_an_operator_configured_wins_over_a_default() {
        let own = || Indexes {
            pip: vec![index(Manager::Pip, "https://default.example/s", builtin())],
            notes: vec![Note { manager: Manager::Pip, source: None, about: About::UnknownDefault }],
            ..Indexes::default()
        };
        let host = |source| Indexes {
            pip: vec![index(Manager::Pip, "https://host.example/s", source)],
            ..Indexes::default()
        };
        let (found, taken) = own().or_of_host(host(file()));
        let variables = rules::environment(&taken);
        assert_eq!(urls(&found), ["https://host.example/s"]);
        assert_eq!(found.notes, []);
        assert!(variables.contains(&("PIP_INDEX_URL".into(), "https://host.example/s".into())));
        // A default of the host's is no better than one's own.
        let (found, taken) = own().or_of_host(host(builtin()));
        assert_eq!((found, taken), (own(), Indexes::default()));
    }
}
