//! A node of a platform: what control decides here, and what it is told.
//!
//! Control says what sandboxes are called, so that their ids say where they are.
//! It hears what changes here within a moment, and what ended until it says that
//! it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belljar_domain::{EndReason, OperationCaps, SandboxId};
use belljar_peer_proto::member::{Gone, Has};
use tokio::sync::Notify;

use crate::events::EventKind;
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};
use crate::sandbox::Sandbox;
use crate::start::Actions;

/// In whose name a request comes, proven; among its extensions.
#[derive(Debug, Clone)]
pub struct OnBehalf {
    pub tenant: Tenant,
    /// What the sandboxes that it makes are called.
    pub ids: Vec<SandboxId>,
    /// The caps on operations that hold for the request.
    pub caps: OperationCaps,
}

/// What control has not heard yet.
#[derive(Debug, Default)]
pub(crate) struct News {
    inner: Mutex<Inner>,
    some: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    changed: BTreeSet<SandboxId>,
    /// No longer to be found, and not ended either: what takes its time must not be
    /// missed meanwhile, or control takes it for lost.
    ending: BTreeMap<SandboxId, Has>,
    ended: BTreeMap<SandboxId, Gone>,
}

impl News {
    pub(crate) fn happened(&self, id: &SandboxId, kind: EventKind) {
        let matters = matches!(
            kind,
            EventKind::Created | EventKind::Extended | EventKind::Paused | EventKind::Resumed
        );
        if matters {
            self.lock().changed.insert(id.clone());
            self.some.notify_one();
        }
    }

    /// Said before it is out of the registry; until [`Self::ended`], or until
    /// [`Self::is_not_ending`].
    pub(crate) fn ending(&self, sandbox: &Sandbox) {
        self.is_ending(has(sandbox));
    }

    fn is_ending(&self, has: Has) {
        self.lock().ending.insert(has.id.clone(), has);
    }

    pub(crate) fn is_not_ending(&self, id: &SandboxId) {
        self.lock().ending.remove(id);
    }

    /// Also what is ending; `there` was read before.
    fn with_ending(&self, mut there: Vec<Has>) -> Vec<Has> {
        let inner = self.lock();
        let known: BTreeSet<_> = there.iter().map(|has| has.id.clone()).collect();
        there.extend(inner.ending.values().filter(|has| !known.contains(&has.id)).cloned());
        there
    }

    pub(crate) fn ended(&self, sandbox: &Sandbox, reason: EndReason) {
        let ran_ms = millis(sandbox.ran());
        self.is_gone(Gone { id: sandbox.id().clone(), reason, ran_ms });
    }

    fn is_gone(&self, gone: Gone) {
        let mut inner = self.lock();
        inner.changed.remove(&gone.id);
        inner.ending.remove(&gone.id);
        inner.ended.insert(gone.id.clone(), gone);
        drop(inner);
        self.some.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Actions {
    /// Where control decides how sandboxes are called, nothing is made without.
    pub(crate) fn require_ids(&self, ids: &[SandboxId], count: usize) -> Result<(), Problem> {
        if !self.config().is_member || ids.len() >= count {
            return Ok(());
        }
        let message = "this node creates only sandboxes that control has placed on it";
        Err(Problem::new(Kind::Conflict, "not_placed", message).hint("send the request to control"))
    }

    /// Everything that is here, for whoever tells control.
    pub fn roster(&self) -> Vec<Has> {
        self.news().lock().changed.clear();
        let there = self.registry().all().iter().map(|sandbox| has(sandbox)).collect();
        self.news().with_ending(there)
    }

    /// Templates that sandboxes are started from at once, by every name.
    pub fn warm(&self) -> Vec<String> {
        self.templates().warming().warm()
    }

    /// Sandboxes that waited in a pool when they were asked for, and those that had
    /// to be made.
    pub fn pool_hits(&self) -> (u64, u64) {
        let pools = self.node().pools();
        pools
            .iter()
            .fold((0, 0), |(hits, misses), (_, pool)| (hits + pool.hits, misses + pool.misses))
    }

    /// Waits until there is something that control has not heard.
    pub async fn some_news(&self) {
        self.news().some.notified().await;
    }

    /// What changed since the last time that anybody asked.
    pub fn changed(&self) -> Vec<Has> {
        let changed = std::mem::take(&mut self.news().lock().changed);
        let there = changed.iter().filter_map(|id| self.registry().by_id(id.as_str()));
        there.map(|sandbox| has(&sandbox)).collect()
    }

    /// What ended, and control has not said that it knows.
    pub fn unheard_ends(&self) -> Vec<Gone> {
        self.news().lock().ended.values().cloned().collect()
    }

    /// Control knows these.
    pub fn heard(&self, ends: &[Gone]) {
        let mut inner = self.news().lock();
        for gone in ends {
            inner.ended.remove(&gone.id);
        }
    }

    /// Ends what must not be here. Whoever asks knows of it, and is not told.
    pub async fn end_by_order(&self, id: &SandboxId, reason: EndReason) {
        if let Some(sandbox) = self.registry().by_id(id.as_str()) {
            self.end(&sandbox, reason).await;
            self.news().lock().ended.remove(id);
        }
    }

    /// Ends everything that runs or stands still in memory, and all else too:
    /// somebody gave this node up.
    pub async fn end_everything(&self, reason: EndReason) {
        self.end_all(self.registry().all(), reason).await;
    }
}

fn has(sandbox: &Sandbox) -> Has {
    Has {
        id: sandbox.id().clone(),
        tier: sandbox.facts().tier,
        is_paused: sandbox.is_paused(),
        left_ms: millis(sandbox.deadline().remaining()),
        ran_ms: millis(sandbox.ran()),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use belljar_domain::Tier;

    use super::*;

    #[test]
    fn an_end_is_said_until_it_is_heard() {
        let news = News::default();
        let id = SandboxId::from_random([1; 16]);
        news.happened(&id, EventKind::Created);
        news.happened(&id, EventKind::CellStarted);
        assert_eq!(news.lock().changed.len(), 1);
        let gone = Gone { id: id.clone(), reason: EndReason::Killed, ran_ms: 7 };
        news.is_gone(gone.clone());
        let inner = news.lock();
        assert!(inner.changed.is_empty());
        assert_eq!(inner.ended.get(&id), Some(&gone));
    }

    #[test]
    fn what_takes_its_time_to_end_is_not_missed_meanwhile() {
        let news = News::default();
        let id = SandboxId::from_random([1; 16]);
        let has = Has { id: id.clone(), tier: Tier::Jail, is_paused: false, left_ms: 1, ran_ms: 1 };
        news.is_ending(has.clone());
        // Found in the registry as well, it is said once.
        assert_eq!(news.with_ending(vec![has.clone()]).len(), 1);
        assert_eq!(news.with_ending(Vec::new()).len(), 1);
        news.is_gone(Gone { id: id.clone(), reason: EndReason::Killed, ran_ms: 7 });
        assert!(news.with_ending(Vec::new()).is_empty());
        assert!(news.lock().ended.contains_key(&id));
        news.is_ending(has);
        news.is_not_ending(&id);
        assert!(news.with_ending(Vec::new()).is_empty());
    }
}
