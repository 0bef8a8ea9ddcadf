//! A call that is executed once, and whoever listens to it.
//!
//! ```text
//!   recorder ─► say ─► log ◄─ next ◄─ listener, from the beginning
//!               │              │
//!               └─ waits while a listener lags, for as long as it reads on
//! ```
//!
//! Nobody who listens owns the call: it goes on when all of them are gone. One
//! who reads slowly holds it back, as a pipe would; one who reads nothing for a
//! while is waited for no longer, and is told what it missed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::log::{Amount, Log, Piece, weight};

/// How far a call may be ahead of one who listens to it.
const AHEAD: u64 = 256 << 10;

/// How long one may read nothing before the call goes on without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// One call.
#[derive(Debug)]
pub(crate) struct Recorded<T> {
    inner: Mutex<Inner<T>>,
    /// How many pieces were said.
    said: watch::Sender<u64>,
    /// Somebody read on, or left.
    heard: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    log: Log<T>,
    listeners: BTreeMap<u64, Place>,
    next_listener: u64,
}

/// How far a listener has come.
#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    seen: Amount,
    /// Whether the call waits for it.
    is_waited_for: bool,
}

/// What a listener is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told<T> {
    Said(T),
    /// So much was said here, and is not kept.
    Omitted(Amount),
}

/// Listens to a call from its beginning on. Dropped, it listens no longer; the
/// call goes on.
#[derive(Debug)]
pub struct Listening<T: Piece> {
    recorded: Arc<Recorded<T>>,
    said: watch::Receiver<u64>,
    id: u64,
    number: u64,
    seen: Amount,
}

/// What there was to take.
enum Taken<T> {
    Told(Told<T>),
    Nothing,
    Over,
}

impl<T: Piece> Recorded<T> {
    pub(super) fn new(log: Log<T>) -> Arc<Self> {
        let said = watch::Sender::new(log.next());
        let inner = Inner { log, listeners: BTreeMap::new(), next_listener: 0 };
        Arc::new(Self { inner: Mutex::new(inner), said, heard: Notify::new() })
    }

    /// Enters what the call says. Waits for those who listen, unless they do not
    /// read at all.
    pub(super) async fn say(&self, piece: T) {
        while self.lock().lags() {
            let heard = tokio::time::timeout(PATIENCE, self.heard.notified()).await;
            if heard.is_err() {
                self.lock().give_up();
            }
        }
        let mut inner = self.lock();
        inner.log.push(piece);
        inner.trim();
        self.said.send_replace(inner.log.next());
    }

    pub(crate) fn listen(self: &Arc<Self>) -> Listening<T> {
        let mut inner = self.lock();
        let id = inner.next_listener;
        inner.next_listener += 1;
        let place = Place { number: 0, seen: Amount::default(), is_waited_for: true };
        inner.listeners.insert(id, place);
        drop(inner);
        let said = self.said.subscribe();
        let seen = Amount::default();
        Listening { recorded: self.clone(), said, id, number: 0, seen }
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().log.is_over()
    }

    /// What it costs to keep.
    pub(super) fn weight(&self) -> u64 {
        self.lock().log.weight()
    }

    /// Keeps only how it ended.
    pub(super) fn shed(&self) {
        self.lock().log.shed();
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&Log<T>) -> R) -> R {
        look(&self.lock().log)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Piece> Inner<T> {
    fn lag(&self, place: &Place) -> u64 {
        weight(self.log.said() - place.seen, self.log.next() - place.number)
    }

    fn lags(&self) -> bool {
        self.listeners.values().any(|place| place.is_waited_for && self.lag(place) > AHEAD)
    }

    /// Waits no longer for those who lag.
    fn give_up(&mut self) {
        let (said, next) = (self.log.said(), self.log.next());
        for place in self.listeners.values_mut() {
            let lag = weight(said - place.seen, next - place.number);
            place.is_waited_for &= lag <= AHEAD;
        }
    }

    fn trim(&mut self) {
        let waited_for = self.listeners.values().filter(|place| place.is_waited_for);
        let needed = waited_for.map(|place| place.number).min();
        self.log.trim(needed.unwrap_or(u64::MAX));
    }
}

impl<T: Piece> Listening<T> {
    /// What comes next; none after the end. Nothing is lost when this is dropped
    /// half-way.
    pub async fn next(&mut self) -> Option<Told<T>> {
        loop {
            self.said.borrow_and_update();
            match self.take() {
                Taken::Told(told) => return Some(told),
                Taken::Over => return None,
                // The sender lives as long as what is recorded.
                Taken::Nothing => drop(self.said.changed().await),
            }
        }
    }

    fn take(&mut self) -> Taken<T> {
        let mut inner = self.recorded.lock();
        let Some(stored) = inner.log.first_from(self.number) else {
            return if inner.log.is_over() { Taken::Over } else { Taken::Nothing };
        };
        let missed = stored.before - self.seen;
        let told = if missed == Amount::default() {
            self.seen = stored.before + stored.piece.amount();
            self.number = stored.number + 1;
            Told::Said(stored.piece.clone())
        } else {
            (self.seen, self.number) = (stored.before, stored.number);
            Told::Omitted(missed)
        };
        if let Some(place) = inner.listeners.get_mut(&self.id) {
            (place.seen, place.number) = (self.seen, self.number);
        }
        inner.trim();
        drop(inner);
        self.recorded.heard.notify_one();
        Taken::Told(told)
    }
}

impl<T: Piece> Drop for Listening<T> {
    fn drop(&mut self) {
        let mut inner = self.recorded.lock();
        inner.listeners.remove(&self.id);
        inner.trim();
        drop(inner);
        self.recorded.heard.notify_one();
    }
}
