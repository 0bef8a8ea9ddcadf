//! What one session has been promised: URLs that it may GET because an allowed
//! index named them, and what their bytes must hash to.
//!
//! The table belongs to one session and one policy. Nothing that another session
//! was told is in it, so no tenant can put words into an index's mouth for
//! another. Within a session two pages may still contradict each other about
//! one URL; then neither is believed, and the file is passed on without ever
//! touching the cache. Its user checks the hash from the page it chose.

use std::collections::{HashMap, VecDeque};

use sha2::{Digest as _, Sha256};

use belljar_domain::network::Scheme;

use crate::digest::Digest;
use crate::promise::Promised;
use crate::url::Url;

/// Promises of a session, the oldest forgotten first.
#[derive(Debug)]
pub struct Learned {
    entries: HashMap<Name, Entry>,
    order: VecDeque<Name>,
    most: usize,
}

/// What is known of a URL that may be fetched with GET or HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// What the bytes must be: the cache may answer, and may keep them.
    Digest(Digest),
    /// No digest, or only a weak one: not for the cache.
    Unverified,
    /// Two pages promised different bytes: not for the cache.
    Contested,
}

/// A URL's key, or a page's, hashed: URLs are long, and a session is told of
/// hundreds of thousands.
type Name = [u8; 32];

#[derive(Debug, Clone, Copy)]
struct Entry {
    trust: Trust,
    /// The page that promised it.
    page: Name,
    /// How many redirects away from what the page said.
    hops: u8,
}

/// About 20 MB when full.
const MOST: usize = 100_000;
const MOST_HOPS: u8 = 5;

impl Default for Learned {
    fn default() -> Self {
        Self::with_room_for(MOST)
    }
}

impl Learned {
    pub fn with_room_for(most: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), most: most.max(1) }
    }

    /// Takes in what a page promises; answers how many URLs it contests.
    ///
    /// `page` is the URL that was asked for: a page may change its mind about a
    /// file, but not about what another page promised.
    pub fn learn(&mut self, page: &Url, files: impl IntoIterator<Item = Promised>) -> usize {
        let page = name(page);
        let mut contested = 0;
        for file in files {
            let trust = file.digest.map_or(Trust::Unverified, Trust::Digest);
            let entry = Entry { trust, page, hops: 0 };
            contested += usize::from(self.put(name(&file.url), entry) == Trust::Contested);
        }
        contested
    }

    /// What is known of a URL; none when no page named it.
    pub fn find(&self, asked: &Url) -> Option<Trust> {
        self.entries.get(&name(asked)).map(|entry| entry.trust)
    }

    /// A promised file was answered with a redirect: where it leads may be asked
    /// for as well, and must have the same bytes.
    pub fn redirect(&mut self, from: &Url, location: &str) -> Option<Url> {
        let entry = *self.entries.get(&name(from))?;
        let to = from.join(location).ok()?;
        let is_downgrade = from.scheme() == Scheme::Https && to.scheme() == Scheme::Http;
        if is_downgrade || entry.hops == MOST_HOPS {
            return None;
        }
        self.put(name(&to), Entry { hops: entry.hops + 1, ..entry });
        Some(to)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn put(&mut self, name: Name, new: Entry) -> Trust {
        let merged = match self.entries.get(&name) {
            Some(old) => Entry { trust: merge(old, &new), ..new },
            None => {
                self.make_room();
                self.order.push_back(name);
                new
            }
        };
        self.entries.insert(name, merged);
        merged.trust
    }

    fn make_room(&mut self) {
        while self.entries.len() >= self.most {
            let Some(oldest) = self.order.pop_front() else { return };
            self.entries.remove(&oldest);
        }
    }
}

/// A page that says nothing about the bytes never weakens one that does.
fn merge(old: &Entry, new: &Entry) -> Trust {
    match (old.trust, new.trust) {
        (old_trust, Trust::Unverified) => old_trust,
        (Trust::Unverified, new_trust) => new_trust,
        (Trust::Digest(_), new_trust) if old.page == new.page => new_trust,
        (old_trust, new_trust) if old_trust == new_trust => old_trust,
        _ => Trust::Contested,
    }
}

fn name(url: &Url) -> Name {
    Sha256::digest(url.key().as_str()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Digest = Digest::Sha256([1; 32]);
    const TWO: Digest = Digest::Sha256([2; 32]);
    const FILE: &str = "https://f.example/a.whl";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn learn(learned: &mut Learned, page: &str, digest: Option<Digest>) -> usize {
        learned.learn(&url(page), [Promised { url: url(FILE), digest }])
    }

    #[test]
    fn only_the_exact_url_is_known() {
        let mut learned = Learned::default();
        learn(&mut learned, "https://i.example/p/", Some(ONE));
        assert_eq!(learned.find(&url(FILE)), Some(Trust::Digest(ONE)));
        for other in [
            "http://f.example/a.whl",
            "https://f.example:8443/a.whl",
            "https://f.example/",
            "https://f.example/b.whl",
            "https://f.example/a.whl/",
            "https://f.example/a.whl?leak=1",
            "https://g.example/a.whl",
        ] {
            assert_eq!(learned.find(&url(other)), None, "{other}");
        }
    }

    #[test]
    fn pages_that_contradict_each_other_are_not_believed() {
        let mut learned = Learned::default();
        assert_eq!(learn(&mut learned, "https://i.example/p/", Some(ONE)), 0);
        assert_eq!(learn(&mut learned, "https://evil.example/p/", Some(TWO)), 1);
        assert_eq!(learned.find(&url(FILE)), Some(Trust::Contested));
        // Neither saying it again nor saying nothing settles it.
        assert_eq!(learn(&mut learned, "https://evil.example/p/", Some(TWO)), 1);
        learn(&mut learned, "https://evil.example/q/", None);
        assert_eq!(learned.find(&url(FILE)), Some(Trust::Contested));
    }

    #[test]
    fn a_page_may_change_its_mind_and_another_may_not_weaken_it() {
        let mut learned = Learned::default();
        learn(&mut learned, "https://i.example/p/", Some(ONE));
        learn(&mut learned, "https://evil.example/p/", None);
        assert_eq!(learned.find(&url(FILE)), Some(Trust::Digest(ONE)));
        let mut learned = Learned::default();
        learn(&mut learned, "https://i.example/p/", Some(ONE));
        learn(&mut learned, "https://i.example/p/", Some(TWO));
        assert_eq!(learned.find(&url(FILE)), Some(Trust::Digest(TWO)));
    }

    #[test]
    fn a_redirect_carries_the_promise_a_few_steps() {
        let mut learned = Learned::default();
        learn(&mut learned, "https://i.example/p/", Some(ONE));
        assert_eq!(learned.redirect(&url("https://f.example/other"), "https://x.example/"), None);
        assert_eq!(learned.redirect(&url(FILE), "http://x.example/a"), None);
        let mut at = url(FILE);
        for step in 0..5 {
            at = learned.redirect(&at, &format!("/step/{step}?signed=1")).unwrap();
            assert_eq!(learned.find(&at), Some(Trust::Digest(ONE)));
        }
        assert_eq!(learned.redirect(&at, "/again"), None);
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut learned = Learned::with_room_for(3);
        let file = |n: u32| url(&format!("https://f.example/{n}"));
        let files = (0..10).map(|n| Promised { url: file(n), digest: None });
        learned.learn(&url("https://i.example/"), files);
        assert_eq!(learned.len(), 3);
        assert_eq!(learned.find(&file(6)), None);
        assert_eq!(learned.find(&file(9)), Some(Trust::Unverified));
    }
}
