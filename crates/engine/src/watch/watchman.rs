//! The thread that looks at all watched sandboxes of an engine, each when it is due.
//!
//! It is a thread of its own because a look reads files that can make it wait, and because
//! a limit must hold while the engine is busy.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

use super::{Watch, lock};

/// Ends its thread when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Watchman {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    rounds: Mutex<Rounds>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    /// A sandbox that is gone has no watch any more.
    watches: Vec<Weak<Watch>>,
    is_running: bool,
    is_over: bool,
}

impl Watchman {
    /// Watches a sandbox until its watch is dropped.
    pub(crate) fn add(&self, watch: &Arc<Watch>) -> std::io::Result<()> {
        let mut rounds = lock(&self.shared.rounds);
        rounds.watches.push(Arc::downgrade(watch));
        if !rounds.is_running {
            let shared = self.shared.clone();
            std::thread::Builder::new().name("limit-watch".into()).spawn(move || shared.walk())?;
            rounds.is_running = true;
        }
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        lock(&self.shared.rounds).is_over = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn walk(&self) {
        let mut rounds = lock(&self.rounds);
        while !rounds.is_over {
            let now = Instant::now();
            rounds.watches.retain(|watch| watch.strong_count() > 0);
            let live: Vec<Arc<Watch>> = rounds.watches.iter().filter_map(Weak::upgrade).collect();
            let due = |watch: &Arc<Watch>| watch.next_look().is_none_or(|at| at <= now);
            if live.iter().any(due) {
                drop(rounds);
                live.iter().filter(|watch| due(watch)).for_each(|watch| watch.look());
                drop(live);
                rounds = lock(&self.rounds);
                continue;
            }
            let next = live.iter().filter_map(|watch| watch.next_look()).min();
            drop(live);
            rounds = match next {
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(rounds, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(rounds).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
