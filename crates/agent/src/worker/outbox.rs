//! Events that a worker has decided on and not yet written, so that several are one write.
//!
//! ```text
//!   answer ─► [responded, intended, started] ─► call ─► [finished, built, requested] ─► answer
//!                         one write                               one write
//! ```
//!
//! An event that may wait is gathered here and acts on the worker's own view at once. The next one
//! that may not is written together with all that wait, before anything is done outside of the
//! log. A batch with a decision in it is only written if nothing has come in between. Otherwise
//! what has happened is written, and the decisions are made anew.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use belljar_domain::Sequence;
use belljar_journal::event::{Body, Event, Injected};
use belljar_journal::{AppendError, AppendedAll, Batch, BlobRef, Key, NewEvent};
use time::OffsetDateTime;

use super::{PART, Work, WorkError};

/// A longer blob is kept by itself, before the event that names it.
pub(super) const MOST_GATHERED_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Outbox(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The last event that is written, as far as is known here.
    head: Sequence,
    waiting: Vec<NewEvent>,
    /// Contents that these name.
    blobs: Vec<Vec<u8>>,
    /// Events that are written and not yet in the worker's view.
    written: Vec<Event>,
    /// True if the log has to be read: something else is in it.
    is_stale: bool,
}

impl Outbox {
    pub(super) fn new(head: Sequence) -> Self {
        Self(Mutex::new(Inner { head, ..Inner::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: NewEvent) {
        self.lock().waiting.push(event);
    }

    /// Takes what waits, and where the log ends.
    fn take(&self) -> (Batch, Sequence) {
        let mut inner = self.lock();
        let (events, blobs) = (mem::take(&mut inner.waiting), mem::take(&mut inner.blobs));
        (Batch { events, blobs }, inner.head)
    }

    fn wrote(&self, done: AppendedAll) {
        let mut inner = self.lock();
        let is_next = |events: &Vec<Event>| {
            events.first().is_some_and(|first| first.seq == inner.head.next())
        };
        match done.events.filter(is_next) {
            Some(events) if !inner.is_stale => inner.written.extend(events),
            _ => inner.is_stale = true,
        }
        inner.head = done.last.max(inner.head);
    }

    pub(super) fn must_read(&self) {
        self.lock().is_stale = true;
    }

    /// Takes events that were written. None: the log has to be read.
    fn news(&self) -> Option<Vec<Event>> {
        let mut inner = self.lock();
        let written = mem::take(&mut inner.written);
        (!mem::take(&mut inner.is_stale)).then_some(written)
    }
}

/// Returns true if an event tells of something that has happened. Others are decisions: if they
/// are not written, nothing is lost.
fn is_outcome(body: &Body) -> bool {
    match body {
        Body::LlmResponded(_)
        | Body::LlmFailed(_)
        | Body::SandboxAttached(_)
        | Body::SnapshotTaken(_)
        | Body::SnapshotRefused(_)
        | Body::StageMessage(_)
        | Body::SessionSaved(_)
        | Body::ToolFinished(_)
        | Body::GuardReported(_)
        | Body::NetworkUsed(_)
        | Body::ParameterDeviated(_) => true,
        // Without a call it is the result of the end that was decided on, as is a recording.
        Body::ArtifactAdded(added) => added.call.is_some(),
        Body::InjectedMessage(message) => message.kind == Injected::Restored,
        _ => false,
    }
}

/// The request that an event answers, whose answer is kept until then.
fn answers(event: &NewEvent) -> Option<Sequence> {
    match &event.body {
        Body::LlmResponded(responded) => Some(responded.asked),
        _ => None,
    }
}

impl Work<'_> {
    /// Writes an event down, and all that wait for it. One that may wait is only gathered: its
    /// number is the one that it will have if nothing comes in between.
    pub(super) async fn append(&self, event: NewEvent) -> Result<Sequence, WorkError> {
        let may_wait = event.may_wait;
        let known = event.key.as_ref().and_then(|key| self.written_under(key));
        if known.is_none() {
            self.outbox.push(event);
        }
        if may_wait {
            let inner = self.outbox.lock();
            let next = Sequence(inner.head.0 + inner.waiting.len() as u64);
            return Ok(known.unwrap_or(next));
        }
        let last = self.flush().await?;
        Ok(known.unwrap_or(last))
    }

    /// Keeps what an event names that comes next: with it, unless it is long.
    pub(super) async fn keep_blob(&self, content: Vec<u8>) -> Result<BlobRef, WorkError> {
        if content.len() > MOST_GATHERED_BYTES {
            self.flush().await?;
            return Ok(self.worker.journal.put_blob(&self.lease.address, content).await?);
        }
        let blob = BlobRef::of(&content);
        self.outbox.lock().blobs.push(content);
        Ok(blob)
    }

    /// The event of this run, without those of its parents, that has this key already.
    pub(super) fn written_under(&self, key: &Key) -> Option<Sequence> {
        let own = self.events.iter().rev();
        let mut own = own.take_while(|event| !matches!(event.body, Body::ForkedFrom(_)));
        own.find(|event| event.key.as_ref() == Some(key)).map(|event| event.seq)
    }

    /// Writes what waits. Answers the last event that is written.
    pub(super) async fn flush(&self) -> Result<Sequence, WorkError> {
        let (batch, head) = self.outbox.take();
        if batch.events.is_empty() {
            return Ok(head);
        }
        let (journal, lease) = (&self.worker.journal, &self.lease);
        let has_decision = batch.events.iter().any(|event| !is_outcome(&event.body));
        let answered: Vec<Sequence> = batch.events.iter().filter_map(answers).collect();
        let done = journal.append_all(lease, batch.clone(), has_decision.then_some(head)).await;
        for event in &batch.events {
            belljar_fault::point_at("run", event.body.kind());
        }
        let error = match done {
            Ok(done) => {
                let last = done.last;
                self.outbox.wrote(done);
                self.forget_answers(&answered).await;
                return Ok(last);
            }
            Err(error) => error,
        };
        self.outbox.must_read();
        if matches!(error, AppendError::Unseen { .. }) {
            let Batch { mut events, blobs } = batch;
            events.retain(|event| is_outcome(&event.body));
            if !events.is_empty() {
                let written = journal.append_all(lease, Batch { events, blobs }, None).await;
                written.map_err(WorkError::Append)?;
                self.forget_answers(&answered).await;
            }
        }
        Err(WorkError::Append(error))
    }

    /// Takes over what was written since, by this worker or by others, and what waits to be.
    pub(super) async fn catch_up(&mut self) -> Result<(), WorkError> {
        self.events.truncate(self.written_events);
        match self.outbox.news() {
            Some(events) => events.into_iter().for_each(|event| self.take(event)),
            None => self.read_on().await?,
        }
        self.written_events = self.events.len();
        self.story = self.written_story.clone();
        let mut seq = self.story.view.head;
        let now = OffsetDateTime::now_utc();
        for NewEvent { body, key, .. } in self.outbox.lock().waiting.iter().cloned() {
            seq = seq.next();
            let lease = Some(self.lease.generation);
            let event = Event { seq, at: now, lease, key, body };
            self.story.apply(&event);
            self.events.push(event);
        }
        Ok(())
    }

    async fn read_on(&mut self) -> Result<(), WorkError> {
        loop {
            let from = self.written_story.view.head.next();
            let part = self.worker.journal.read(&self.lease.address, from, PART).await?;
            let is_last = part.len() < PART;
            part.into_iter().for_each(|event| self.take(event));
            if is_last {
                break;
            }
        }
        let mut inner = self.outbox.lock();
        inner.head = self.written_story.view.head;
        Ok(())
    }

    fn take(&mut self, event: Event) {
        let before = &self.written_story.view;
        self.worker.tell(&self.lease, &self.told, &mut self.reporter, before, &event);
        self.written_story.apply(&event);
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::{Artifact, ArtifactAdded, CallRef, Cancelled};

    use super::*;

    fn event(seq: u64) -> Event {
        let body = Cancelled { answers: Sequence(1) }.into();
        let at = OffsetDateTime::UNIX_EPOCH;
        Event { seq: Sequence(seq), at, lease: None, key: None, body }
    }

    fn done(seqs: &[u64]) -> AppendedAll {
        let events: Vec<_> = seqs.iter().map(|seq| event(*seq)).collect();
        AppendedAll { last: events.last().unwrap().seq, events: Some(events) }
    }

    #[test]
    fn events_that_follow_are_news_and_a_gap_has_to_be_read() {
        let outbox = Outbox::new(Sequence(3));
        outbox.wrote(done(&[4, 5]));
        outbox.wrote(done(&[6]));
        let news = outbox.news().unwrap();
        assert_eq!(news.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [4, 5, 6]);
        outbox.wrote(done(&[8]));
        assert!(outbox.news().is_none());
        // It was read meanwhile.
        assert!(outbox.news().unwrap().is_empty());
        outbox.wrote(AppendedAll { last: Sequence(9), events: None });
        assert!(outbox.news().is_none());
    }

    #[test]
    fn decisions_are_made_anew_and_outcomes_are_kept() {
        let restored = |kind| {
            let text = String::new();
            belljar_journal::event::InjectedMessage { kind, turn: 1, text, answers: None }
        };
        assert!(!is_outcome(&event(1).body));
        assert!(is_outcome(&restored(Injected::Restored).into()));
        assert!(!is_outcome(&restored(Injected::Final).into()));
        let added = |call| {
            let name = "result.md".to_owned();
            let content = BlobRef::of(b"1");
            let artifact = Artifact { name, media_type: "text/markdown".to_owned(), content };
            Body::from(ArtifactAdded { artifact, call })
        };
        // The result of an end that is decided anew may be another one.
        assert!(!is_outcome(&added(None)));
        assert!(is_outcome(&added(Some(CallRef { turn: 1, id: "c1".to_owned() }))));
    }
}
