//! What a session may fetch as packages, and what it was promised so far.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::network::{Policy, Reach, Reason};
use belljar_egress::{Destination, Verdict};
use belljar_packages::promise::{self, Asked, Downloads, Page, Unreadable};
use belljar_packages::{Index, Indexes, Learned, Trust, Url, rules};
use tokio::sync::Semaphore;

use super::url;
use crate::upstream::Place;

/// Hosts that pages may name, beside their own.
const MOST_HOSTS: usize = 4096;
/// Large pages that a session may have in memory.
const LARGE_PAGES: usize = 2;

/// The packages of a policy. Replaced with the policy; what was promised stays
/// as long as the indexes do.
#[derive(Debug)]
pub(crate) struct Access {
    /// The session's, but of its allowances those for the indexes only.
    policy: Policy,
    indexes: Arc<Indexes>,
    known: Arc<Mutex<Known>>,
    pub(super) large_pages: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Known {
    learned: Learned,
    /// Where promised files lie.
    hosts: HashSet<Destination>,
    /// By the URL of the index.
    downloads: HashMap<Url, Downloads>,
}

impl Access {
    /// None: the policy names no index.
    pub(crate) fn of(policy: &Policy, before: Option<&Self>) -> Option<Arc<Self>> {
        if policy.packages.is_empty() {
            return None;
        }
        let indexes = Indexes::of_policy(&policy.packages);
        for note in &indexes.notes {
            tracing::warn!(%note, "invalid package index in policy");
        }
        let reach = Reach::Allow(rules::of(&indexes));
        let policy = Policy { reach, ..policy.clone() };
        let before = before.filter(|before| before.policy.packages == policy.packages);
        let (indexes, known, large_pages) = match before {
            Some(Self { indexes, known, large_pages, .. }) => {
                (Arc::clone(indexes), Arc::clone(known), Arc::clone(large_pages))
            }
            None => (Arc::new(indexes), Arc::default(), Arc::new(Semaphore::new(LARGE_PAGES))),
        };
        Some(Arc::new(Self { policy, indexes, known, large_pages }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn judge(&self, to: &Destination) -> Verdict {
        match belljar_egress::judge(&self.policy, to) {
            Verdict::Deny(Reason::NotAllowed | Reason::Port) if self.known().hosts.contains(to) => {
                Verdict::Content
            }
            verdict => verdict,
        }
    }

    pub(crate) fn judge_request(
        &self,
        place: &Place,
        method: &str,
        asked: &str,
    ) -> Result<(), Reason> {
        let target = &unescaped_scope(asked);
        let judged =
            belljar_egress::judge_request(&self.policy, &place.destination, method, target);
        let Err(reason @ (Reason::NotAllowed | Reason::Port | Reason::Path)) = judged else {
            return judged;
        };
        let is_named = self.known().hosts.contains(&place.destination);
        match (url(place, asked).and_then(|url| self.trust(&url)), method) {
            (Some(_), "GET" | "HEAD") => Ok(()),
            (None, "GET" | "HEAD") if is_named => Err(Reason::Path),
            (None, "GET" | "HEAD") => Err(reason),
            _ if is_named => Err(Reason::Method),
            _ => Err(reason),
        }
    }

    /// What is known of a file; none when no page named it.
    pub(super) fn trust(&self, url: &Url) -> Option<Trust> {
        self.known().learned.find(url)
    }

    pub(super) fn index_above(&self, url: &Url) -> Option<&Index> {
        self.indexes.above(url)
    }

    pub(super) fn redirect(&self, from: &Url, location: &str) {
        let mut known = self.known();
        if let Some(to) = known.learned.redirect(from, location) {
            known.name_host(&to);
        }
    }

    /// Takes in what a page says. Takes a while for large ones.
    pub(super) fn learn(
        &self,
        index: &Index,
        page: &Url,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Result<(), Unreadable> {
        let downloads = self.known().downloads.get(&index.url).cloned();
        let asked = Asked {
            manager: index.manager,
            role: &index.role,
            index: &index.url,
            page,
            content_type,
            downloads: downloads.as_ref(),
        };
        match promise::read(asked, body)? {
            Page::Files { files, .. } => {
                let mut known = self.known();
                for file in &files {
                    known.name_host(&file.url);
                }
                let contested = known.learned.learn(page, files);
                if contested > 0 {
                    tracing::warn!(contested, page = %page, "index pages list different digests");
                }
            }
            Page::Downloads(downloads) => {
                self.known().downloads.insert(index.url.clone(), downloads);
            }
            Page::Other => {}
        }
        Ok(())
    }
}

impl Known {
    fn name_host(&mut self, url: &Url) {
        if self.hosts.len() < MOST_HOSTS {
            let (host, port) = (url.host().clone(), url.port());
            self.hosts.insert(Destination { host, port });
        }
    }
}

/// npm asks for `@scope%2fname`. Paths with escaped slashes are no plain ones and
/// never allowed below a prefix, so the path is judged as it is meant: with this
/// one as a slash, after which nothing of it may be escaped but what is plain.
fn unescaped_scope(target: &str) -> Cow<'_, str> {
    let path = target.split('?').next().unwrap_or_default();
    let scope = path.find("/@").map(|at| at + 1);
    let slash = scope.and_then(|start| {
        let segment = path.get(start..)?.split('/').next().unwrap_or_default();
        ["%2f", "%2F"].iter().filter_map(|slash| segment.find(slash)).min().map(|at| start + at)
    });
    let around = slash.and_then(|at| target.get(..at).zip(target.get(at + 3..)));
    match around {
        Some((before, after)) => Cow::Owned(format!("{before}/{after}")),
        None => Cow::Borrowed(target),
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::network::{IndexKind, PackageIndex};

    use super::*;

    #[test]
    fn scoped_packages_of_an_index_below_a_path_are_read() {
        let url = "https://n.example/npm/all/".to_owned();
        let packages = vec![PackageIndex { kind: IndexKind::Npm, url }];
        let policy = Policy { packages, ..Policy::default() };
        let access = Access::of(&policy, None).unwrap();
        let destination = Destination { host: "n.example".parse().unwrap(), port: 443 };
        let place = Place { destination, secure: true };
        for (target, want) in [
            ("/npm/all/@scope%2fname", Ok(())),
            ("/npm/all/@scope%2Fname?write=true", Ok(())),
            ("/npm/all/@scope/name/-/name-1.0.0.tgz", Ok(())),
            ("/npm/all/name%2fother", Err(Reason::Path)),
            ("/npm/all/@scope%2f..", Err(Reason::Path)),
            ("/npm/all/@scope%2f..%2f..%2f..", Err(Reason::Path)),
            ("/npm/all/@..%2f%2e%2e/x", Err(Reason::Path)),
            ("/npm/@all%2fx", Err(Reason::Path)),
            ("/npm%2fall/x", Err(Reason::Path)),
        ] {
            assert_eq!(access.judge_request(&place, "GET", target), want, "{target}");
        }
        assert_eq!(access.judge_request(&place, "PUT", "/npm/all/@s%2fn"), Err(Reason::Method));
    }
}
