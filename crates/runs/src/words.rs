//! Words of models, from the worker of a run to those that follow it.
//!
//! ```text
//!   worker ──► hub of its process ──► followers there
//!                 │ relay: other processes, only while one of them follows the run
//!                 └──────► hub of another replica ──► followers there
//! ```
//!
//! Nothing is stored. A follower that is slower than the model misses words, and finds them in the
//! event of the answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use belljar_agent::{WordListener, Words};
use belljar_journal::Address;
use tokio::sync::broadcast;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Pieces that wait for a slow follower. Older ones are dropped.
const WAITING: usize = 256;

/// The interval at which a follower says that it is still there.
const RENEWED: Duration = Duration::from_secs(5);

/// A way for words to other processes, and for the wish to hear them.
pub trait WordRelay: fmt::Debug + Send + Sync {
    /// Passes words on, if another process follows the run. Never blocks.
    fn pass(&self, run: &Address, words: &Words);

    /// Tells other processes that this one follows a run. Said again every few seconds.
    fn follow(&self, run: &Address);
}

/// The words of all runs that this process hears of; cheap to clone.
#[derive(Debug, Clone)]
pub struct WordHub {
    heard: broadcast::Sender<Arc<(Address, Words)>>,
    relay: Option<Arc<dyn WordRelay>>,
}

impl Default for WordHub {
    fn default() -> Self {
        Self { heard: broadcast::channel(WAITING).0, relay: None }
    }
}

impl WordHub {
    /// The same hub, connected with other processes.
    #[must_use]
    pub fn with_relay(self, relay: Arc<dyn WordRelay>) -> Self {
        Self { relay: Some(relay), ..self }
    }

    /// Takes words that came from another process.
    pub fn receive(&self, run: Address, words: Words) {
        // An error says that nothing follows any run.
        drop(self.heard.send(Arc::new((run, words))));
    }

    /// Follows a run, and says so again for as long as words are asked for.
    pub fn follow(&self, run: Address) -> WordFollower {
        self.follow_renewed(run, RENEWED)
    }

    fn follow_renewed(&self, run: Address, every: Duration) -> WordFollower {
        let mut renewal = interval_at(Instant::now() + every, every);
        renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let heard = self.heard.subscribe();
        let follower = WordFollower { hub: self.clone(), heard, run, renewal };
        follower.renew();
        follower
    }
}

impl WordListener for WordHub {
    fn hear(&self, run: &Address, words: Words) {
        if let Some(relay) = &self.relay {
            relay.pass(run, &words);
        }
        self.receive(run.clone(), words);
    }
}

/// The words of one run from now on.
#[derive(Debug)]
pub struct WordFollower {
    hub: WordHub,
    heard: broadcast::Receiver<Arc<(Address, Words)>>,
    run: Address,
    /// Outlives each wait for words: those that come often do not put it off.
    renewal: Interval,
}

impl WordFollower {
    /// The next words. May be dropped while it waits. Never returns once all workers are gone.
    pub async fn next(&mut self) -> Words {
        loop {
            let heard = tokio::select! {
                biased;
                _ = self.renewal.tick() => {
                    self.renew();
                    continue;
                }
                heard = self.heard.recv() => heard,
            };
            match heard {
                Ok(heard) if heard.0 == self.run => return heard.1.clone(),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Says again that this process follows the run.
    fn renew(&self) {
        if let Some(relay) = &self.hub.relay {
            relay.follow(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use belljar_domain::RunId;

    use super::*;

    #[tokio::test]
    async fn a_follower_hears_its_own_run_alone() {
        let run = |tenant: &str| Address { tenant: tenant.into(), run: RunId::from_bits([1; 16]) };
        let words = |text: &str| Words { turn: 1, from: 0, text: text.into() };
        let hub = WordHub::default();
        let mut follower = hub.follow(run("a"));
        // The same id of another tenant is another run.
        hub.hear(&run("b"), words("theirs"));
        hub.hear(&run("a"), words("ours"));
        assert_eq!(follower.next().await, words("ours"));
        for _ in 0..=WAITING {
            hub.hear(&run("a"), words("more"));
        }
        assert_eq!(follower.next().await, words("more"), "a slow follower goes on");
    }

    /// Counts what other processes are told.
    #[derive(Debug, Default)]
    struct Counter(AtomicUsize);

    impl WordRelay for Counter {
        fn pass(&self, _: &Address, _: &Words) {}

        fn follow(&self, _: &Address) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_follower_says_that_it_is_there_while_words_come_often() {
        let every = Duration::from_millis(40);
        let counter = Arc::new(Counter::default());
        let hub = WordHub::default().with_relay(counter.clone());
        let run = Address { tenant: "a".into(), run: RunId::from_bits([1; 16]) };
        let mut follower = hub.follow_renewed(run.clone(), every);
        // Each word comes before the time for another renewal is over.
        for _ in 0..40 {
            hub.receive(run.clone(), Words { turn: 1, from: 0, text: "w".into() });
            follower.next().await;
            tokio::time::sleep(every / 8).await;
        }
        assert!(counter.0.load(Ordering::Relaxed) > 2, "said once alone");
    }
}
