//! What has come on one channel and was not taken yet.
//!
//! The guest may be in a stranger's hands, and whoever takes what comes may be slow on purpose. So
//! all that waits here is bounded in bytes: data by the credit that was granted for it, whatever
//! the size of its pieces; other messages by a window of the same size; answers by questions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_guest_proto::{
    Counters, Exit, Failure, FromGuest, Reply, WINDOW, WatchEvent, WatchKind,
};
use tokio::sync::Notify;

use super::run::{Run, Stream};

/// A message on one channel, owned.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply(Result<Reply, Failure>),
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Data(Vec<u8>),
    Eof,
    Exited(Exit),
    Changed(WatchEvent),
    Credit(u32),
}

/// What a guest has told of a call that its own kernel counts: what matters is
/// the latest, whether or not anyone takes what came before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) first: Option<Counters>,
    pub(crate) last: Option<Counters>,
}

/// Whether what waits is bounded. It is, but for tests that show that it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bounds {
    Kept,
    Off,
}

/// What a message that waits takes beside its body.
const MESSAGE_COST: usize = 256;

/// More has come than may wait, or an answer to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMuch;

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Debug)]
enum Waiting {
    Data(Run),
    /// With what it counts for.
    Message(Incoming, usize),
}

#[derive(Debug)]
struct State {
    bounds: Bounds,
    waiting: VecDeque<Waiting>,
    /// Bytes of data that the guest may still send.
    credit: u64,
    /// Bytes of other messages that may still wait.
    room: usize,
    /// Questions without an answer.
    unanswered: u32,
    /// Whether events of a watch were lost because nobody took them.
    overflow: bool,
    counted: Counted,
    /// Whether nothing more will come.
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(bounds: Bounds) -> Self {
        let state = State {
            bounds,
            waiting: VecDeque::new(),
            credit: WINDOW.into(),
            room: WINDOW as usize,
            unanswered: 0,
            overflow: false,
            counted: Counted::default(),
            is_closed: false,
        };
        Self { state: Mutex::new(state), came: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a message whose body has this length.
    pub(super) fn push(&self, message: FromGuest<'_>, length: usize) -> Result<(), TooMuch> {
        self.lock().push(message, length)?;
        self.came.notify_one();
        Ok(())
    }

    /// A question was sent: one more answer may come.
    pub(super) fn expect_answer(&self) {
        let mut state = self.lock();
        state.unanswered = state.unanswered.saturating_add(1);
    }

    /// The guest may send as many bytes of data more.
    pub(super) fn grant(&self, bytes: u32) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_add(bytes.into());
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.came.notify_one();
    }

    pub(super) fn counted(&self) -> Counted {
        self.lock().counted
    }

    pub(super) fn try_next(&self) -> Option<Incoming> {
        self.lock().take()
    }

    /// The next message; `None` when nothing more will come. For one taker at a time.
    pub(super) async fn next(&self) -> Option<Incoming> {
        loop {
            {
                let mut state = self.lock();
                if let Some(incoming) = state.take() {
                    return Some(incoming);
                }
                if state.is_closed {
                    return None;
                }
            }
            self.came.notified().await;
        }
    }
}

impl State {
    fn push(&mut self, message: FromGuest<'_>, length: usize) -> Result<(), TooMuch> {
        let incoming = match message {
            FromGuest::Hello(_) => return Ok(()),
            FromGuest::Counters(counters) => {
                self.counted.first.get_or_insert(counters);
                self.counted.last = Some(counters);
                return Ok(());
            }
            FromGuest::Stdout(bytes) => return self.push_data(Stream::Stdout, bytes),
            FromGuest::Stderr(bytes) => return self.push_data(Stream::Stderr, bytes),
            FromGuest::Data(bytes) => return self.push_data(Stream::Data, bytes),
            // What was answered may still fail: a connection is reset after it was made.
            FromGuest::Reply(Err(failure)) if self.unanswered == 0 => Incoming::Reply(Err(failure)),
            FromGuest::Reply(reply) => {
                let unanswered = self.unanswered.checked_sub(1);
                self.unanswered = self.judge(unanswered)?;
                self.waiting.push_back(Waiting::Message(Incoming::Reply(reply), 0));
                return Ok(());
            }
            FromGuest::Eof => Incoming::Eof,
            FromGuest::Exited(exit) => {
                self.counted.last = exit.counters.or(self.counted.last);
                Incoming::Exited(exit)
            }
            FromGuest::Changed(event) => Incoming::Changed(event),
            FromGuest::Credit(bytes) => Incoming::Credit(bytes),
        };
        let cost = length.saturating_add(MESSAGE_COST);
        match self.room.checked_sub(cost) {
            Some(room) => {
                self.room = room;
                self.waiting.push_back(Waiting::Message(incoming, cost));
                Ok(())
            }
            // Files can change faster than anyone looks; that is no offence.
            None if self.bounds == Bounds::Off => {
                self.waiting.push_back(Waiting::Message(incoming, 0));
                Ok(())
            }
            None if matches!(incoming, Incoming::Changed(_)) => {
                self.overflow = true;
                Ok(())
            }
            None => Err(TooMuch),
        }
    }

    /// What is left of an allowance, if there was enough.
    fn judge<T: Default>(&self, left: Option<T>) -> Result<T, TooMuch> {
        match self.bounds {
            Bounds::Kept => left.ok_or(TooMuch),
            Bounds::Off => Ok(left.unwrap_or_default()),
        }
    }

    /// Adds data to what waits, so that a byte that came alone takes hardly more than others.
    fn push_data(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), TooMuch> {
        let credit = self.credit.checked_sub(bytes.len() as u64);
        self.credit = self.judge(credit)?;
        if bytes.is_empty() {
            return Ok(());
        }
        if let Some(Waiting::Data(run)) = self.waiting.back_mut() {
            run.push(stream, bytes);
        } else {
            let mut run = Run::default();
            run.push(stream, bytes);
            self.waiting.push_back(Waiting::Data(run));
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Incoming> {
        let taken = match self.waiting.pop_front() {
            Some(Waiting::Message(incoming, cost)) => {
                self.room += cost;
                Some(incoming)
            }
            Some(Waiting::Data(mut run)) => {
                let taken = run.take();
                if !run.is_empty() {
                    self.waiting.push_front(Waiting::Data(run));
                }
                taken
            }
            None => {
                let event = WatchEvent { kind: WatchKind::Overflow, path: Vec::new() };
                return std::mem::take(&mut self.overflow).then_some(Incoming::Changed(event));
            }
        };
        if self.waiting.is_empty() {
            // A long queue was an exception, or an attack.
            self.waiting.shrink_to(64);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_BYTES: usize = WINDOW as usize;

    fn changed(length: usize) -> FromGuest<'static> {
        let path = vec![b'x'; length];
        FromGuest::Changed(WatchEvent { kind: WatchKind::Written, path })
    }

    /// What the queue holds, in bytes of bodies.
    fn held(queue: &Queue) -> usize {
        let state = queue.lock();
        let bytes = state.waiting.iter().map(|waiting| match waiting {
            Waiting::Data(run) => run.held(),
            Waiting::Message(_, cost) => *cost,
        });
        bytes.sum()
    }

    #[test]
    fn a_byte_that_comes_alone_takes_no_more_than_others() {
        let queue = Queue::new(Bounds::Kept);
        for _ in 0..WINDOW {
            queue.push(FromGuest::Data(b"x"), 1).unwrap();
        }
        assert_eq!(queue.push(FromGuest::Data(b"x"), 1), Err(TooMuch));
        assert!(held(&queue) <= 3 * WINDOW_BYTES, "{} bytes", held(&queue));
        let mut taken = 0;
        while let Some(Incoming::Data(bytes)) = queue.try_next() {
            taken += bytes.len();
        }
        assert_eq!(taken, WINDOW_BYTES);
    }

    #[test]
    fn streams_in_turns_take_little_more() {
        let queue = Queue::new(Bounds::Kept);
        for _ in 0..WINDOW / 2 {
            queue.push(FromGuest::Stdout(b"x"), 1).unwrap();
            queue.push(FromGuest::Stderr(b"y"), 1).unwrap();
        }
        // Eight bytes for each piece, in a buffer that grows by doubling.
        assert!(held(&queue) <= 20 * WINDOW_BYTES, "{} bytes", held(&queue));
        for _ in 0..WINDOW / 2 {
            assert!(matches!(queue.try_next(), Some(Incoming::Stdout(bytes)) if bytes == b"x"));
            assert!(matches!(queue.try_next(), Some(Incoming::Stderr(bytes)) if bytes == b"y"));
        }
        assert!(queue.try_next().is_none());
    }

    #[test]
    fn kinds_of_data_stay_apart_and_in_order() {
        let queue = Queue::new(Bounds::Kept);
        let pieces: [(FromGuest<'_>, usize); 4] = [
            (FromGuest::Stdout(b"a"), 1),
            (FromGuest::Stdout(b"b"), 1),
            (FromGuest::Stderr(b"c"), 1),
            (FromGuest::Stdout(b"d"), 1),
        ];
        for (piece, length) in pieces {
            queue.push(piece, length).unwrap();
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.try_next()).collect();
        assert!(
            matches!(&taken[..], [Incoming::Stdout(first), Incoming::Stderr(_), Incoming::Stdout(_)]
            if first == b"ab"),
            "{taken:?}"
        );
    }

    #[test]
    fn events_that_nobody_takes_are_bounded_in_bytes_and_told_as_lost() {
        let queue = Queue::new(Bounds::Kept);
        for _ in 0..10_000 {
            queue.push(changed(4000), 4010).unwrap();
        }
        assert!(held(&queue) <= WINDOW_BYTES, "{} bytes", held(&queue));
        let mut last = None;
        while let Some(incoming) = queue.try_next() {
            last = Some(incoming);
        }
        let Some(Incoming::Changed(event)) = last else { panic!("{last:?}") };
        assert_eq!(event.kind, WatchKind::Overflow);
        // What was taken makes room.
        queue.push(changed(10), 20).unwrap();
        assert!(
            matches!(queue.try_next(), Some(Incoming::Changed(event)) if event.path.len() == 10)
        );
    }

    #[test]
    fn other_messages_are_bounded_and_more_of_them_is_an_offence() {
        let queue = Queue::new(Bounds::Kept);
        let sent = (0..).take_while(|_| queue.push(FromGuest::Credit(1), 4).is_ok()).count();
        assert!(sent >= 4000, "only {sent} may wait");
        assert!(held(&queue) <= WINDOW_BYTES);
    }

    #[test]
    fn each_question_has_one_answer() {
        let queue = Queue::new(Bounds::Kept);
        let answer = || FromGuest::Reply(Ok(Reply::Done));
        assert_eq!(queue.push(answer(), 2), Err(TooMuch));
        queue.expect_answer();
        queue.push(answer(), 2).unwrap();
        assert_eq!(queue.push(answer(), 2), Err(TooMuch));
    }

    #[tokio::test]
    async fn what_came_is_taken_before_the_end_is_seen() {
        let queue = Queue::new(Bounds::Kept);
        queue.push(FromGuest::Eof, 0).unwrap();
        queue.close();
        assert!(matches!(queue.next().await, Some(Incoming::Eof)));
        assert!(queue.next().await.is_none());
    }
}
