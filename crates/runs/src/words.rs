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

use belljar_agent::{WordListener, Words};
use belljar_journal::Address;
use tokio::sync::broadcast;

/// Pieces that wait for a slow follower. Older ones are dropped.
const WAITING: usize = 256;

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

    pub fn follow(&self, run: Address) -> WordFollower {
        let follower = WordFollower { hub: self.clone(), heard: self.heard.subscribe(), run };
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
}

impl WordFollower {
    /// The next words. May be dropped while it waits. Never returns once all workers are gone.
    pub async fn next(&mut self) -> Words {
        loop {
            match self.heard.recv().await {
                Ok(heard) if heard.0 == self.run => return heard.1.clone(),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Says again that this process follows the run.
    pub fn renew(&self) {
        if let Some(relay) = &self.hub.relay {
            relay.follow(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_model::RunId;

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
}
