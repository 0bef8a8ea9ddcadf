//! Behind control: whose word counts.
//!
//! Whoever comes with control's word is who it says; whoever comes without it can
//! reach into sandboxes that he has a token of, and nothing else.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use belljar_actions::{Keys, OnBehalf, Tenant};
use belljar_bus::behalf::{Behalf, ClusterKey, HEADER, Unproven, about, is_fresh};
use belljar_bus::member::Registered;
use http::Request;

/// The platform that a node belongs to; cheap to clone.
#[derive(Debug, Clone)]
pub struct Cluster {
    key: ClusterKey,
    /// How far control's clock is ahead of ours, in milliseconds: what is fresh is
    /// judged by control's, so that a clock that jumps locks nobody out.
    ahead: Arc<AtomicI64>,
    /// Who this node is to the platform; none: nobody, and it serves nothing.
    registered: Arc<RwLock<Option<Registered>>>,
    /// Whether it is about to stop.
    leaving: Arc<AtomicBool>,
    /// Counts what is said.
    sequence: Arc<AtomicU64>,
}

impl Cluster {
    pub fn new(key: ClusterKey) -> Self {
        Self {
            key,
            ahead: Arc::default(),
            registered: Arc::default(),
            leaving: Arc::default(),
            sequence: Arc::default(),
        }
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn set_serving(&self, registered: Option<Registered>) {
        *self.registered.write().unwrap_or_else(PoisonError::into_inner) = registered;
    }

    /// Who this node is, if it is anybody now.
    pub fn registered(&self) -> Option<Registered> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// It takes nothing new from now on.
    pub fn set_leaving(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    pub fn key(&self) -> &ClusterKey {
        &self.key
    }

    /// Control said what time it is.
    pub fn set_clock(&self, theirs: u64) {
        let ahead = i128::from(theirs) - i128::from(now());
        self.ahead.store(i64::try_from(ahead).unwrap_or_default(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        now().saturating_add_signed(self.ahead.load(Ordering::Relaxed))
    }

    /// Takes control's word from a request, and everything that only control may
    /// look at.
    pub(crate) fn receive(&self, keys: &Keys, request: &mut Request<Body>) -> Result<(), Unproven> {
        request.headers_mut().remove("x-api-key");
        let Some(word) = request.headers_mut().remove(HEADER) else { return Ok(()) };
        let word = word.to_str().map_err(|_| Unproven::Form)?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let what = about(request.method().as_str(), path);
        let Behalf { tenant, floor, ids, at } = self.key.verify(&what, word)?;
        if !is_fresh(at, self.now()) {
            return Err(Unproven::Stale);
        }
        let tenant = Tenant::new(&tenant);
        keys.believe(&tenant, floor);
        request.extensions_mut().insert(OnBehalf { tenant, ids });
        Ok(())
    }
}

/// Our own clock, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(word: Option<&str>) -> Request<Body> {
        let mut request = Request::builder().uri("/sandboxes?x=1").header("x-api-key", "k");
        if let Some(word) = word {
            request = request.header(HEADER, word);
        }
        request.body(Body::empty()).unwrap()
    }

    fn received(cluster: &Cluster, word: Option<&str>) -> Result<Option<OnBehalf>, Unproven> {
        let mut request = request(word);
        cluster.receive(&Keys::elsewhere(), &mut request)?;
        assert!(!request.headers().contains_key("x-api-key"));
        assert!(!request.headers().contains_key(HEADER));
        Ok(request.extensions().get().cloned())
    }

    fn word(key: &ClusterKey, what: &str, at: u64) -> String {
        let behalf = Behalf { tenant: "one".into(), floor: None, ids: Vec::new(), at };
        key.sign(what, &behalf).unwrap()
    }

    #[test]
    fn controls_word_is_believed_and_nobody_elses() {
        let cluster = Cluster::new(ClusterKey::of("k"));
        let what = "GET /sandboxes?x=1";
        let good = word(cluster.key(), what, now());
        let behalf = received(&cluster, Some(&good)).unwrap().unwrap();
        assert_eq!(behalf.tenant.as_str(), "one");
        assert!(received(&cluster, None).unwrap().is_none());
        let others = word(&ClusterKey::of("l"), what, now());
        assert_eq!(received(&cluster, Some(&others)).unwrap_err(), Unproven::Proof);
        let elsewhere = word(cluster.key(), "GET /sandboxes", now());
        assert_eq!(received(&cluster, Some(&elsewhere)).unwrap_err(), Unproven::Proof);
    }

    #[test]
    fn what_is_fresh_is_judged_by_controls_clock() {
        let cluster = Cluster::new(ClusterKey::of("k"));
        let hour = 3_600_000;
        let early = word(cluster.key(), "GET /sandboxes?x=1", now() - hour);
        assert_eq!(received(&cluster, Some(&early)).unwrap_err(), Unproven::Stale);
        cluster.set_clock(now() - hour);
        assert!(received(&cluster, Some(&early)).is_ok());
    }
}
