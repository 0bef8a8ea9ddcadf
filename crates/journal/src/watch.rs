//! News of runs.
//!
//! Whoever watches looks again when somebody in this process wrote, and every so
//! often besides, because others may write, too. A bell that is not rung costs
//! time and nothing else, so a message bus may ring it, and may lose that.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use tokio::sync::Notify;

use crate::error::ReadError;
use crate::event::Event;
use crate::journal::{Address, Journal, State};

/// How long to wait before looking again: first, and at most.
const SOON: Duration = Duration::from_millis(10);
const LATE: Duration = Duration::from_millis(500);
/// How much to read at once.
const PART: usize = 200;

/// One bell for each run that is watched here.
#[derive(Debug, Default)]
pub struct Bells(Mutex<HashMap<RunId, Weak<Notify>>>);

impl Bells {
    /// Something happened in this run.
    pub fn ring(&self, run: &RunId) {
        let bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(run).and_then(Weak::upgrade) {
            bell.notify_waiters();
        }
    }

    fn hang(&self, run: &RunId) -> Arc<Notify> {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bell) = bells.get(run).and_then(Weak::upgrade) {
            return bell;
        }
        bells.retain(|_, bell| bell.strong_count() > 0);
        let bell = Arc::new(Notify::new());
        bells.insert(run.clone(), Arc::downgrade(&bell));
        bell
    }
}

/// Every event of a run from some point on, once and in order, as it happens.
#[derive(Debug)]
pub struct Watch {
    journal: Arc<dyn Journal>,
    run: Address,
    bell: Arc<Notify>,
    next: Sequence,
    read: VecDeque<Event>,
}

impl Watch {
    pub fn new(journal: Arc<dyn Journal>, run: Address, from: Sequence) -> Self {
        let bell = journal.bells().hang(&run.run);
        let next = from.max(Sequence(1));
        Self { journal, run, bell, next, read: VecDeque::new() }
    }

    /// Waits for the next one; none: the run is over. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Event>, ReadError> {
        let mut pause = SOON;
        loop {
            if let Some(event) = self.read.pop_front() {
                self.next = event.seq.next();
                return Ok(Some(event));
            }
            let bell = self.bell.clone();
            let mut rung = std::pin::pin!(bell.notified());
            // From here on no ring is missed.
            rung.as_mut().enable();
            let row = self.journal.find(&self.run).await?;
            if row.head >= self.next {
                self.read = self.journal.read(&self.run, self.next, PART).await?.into();
                continue;
            }
            if row.state == State::Finished {
                return Ok(None);
            }
            let _ = tokio::time::timeout(pause, rung).await;
            pause = LATE.min(pause * 2);
        }
    }
}
