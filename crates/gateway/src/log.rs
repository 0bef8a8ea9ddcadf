//! The log: one row for everything that was attempted, whatever became of it.
//!
//! An [`Entry`] is a promise of a row. It is kept when the entry is dropped, so
//! that a task that is cut, or fails half-way, leaves its row behind as well.
//!
//! Room for the row is taken when the entry is made. When nobody takes rows
//! away, sandboxes wait; rows are never lost and memory is bounded.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use belljar_domain::network::{Bytes, Charge, Decision, Host, Kind, Reason, Row};
use belljar_peer_proto::gateway::FromGateway;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::charge_log::ChargeLogError;
use crate::connection::Connection;
use crate::session::Session;
use crate::wire::Tally;

/// Rows that may wait, or be promised, at the same time.
const MOST: usize = 1 << 16;
/// Rows of one batch, and how long the first of them waits for the rest.
const BATCH: usize = 64;
const LINGER: Duration = Duration::from_millis(50);
/// Paths are cut to this length, so that a batch stays a packet.
const LONGEST_PATH: usize = 1024;

/// Where rows go to.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    room: Arc<Semaphore>,
    rows: mpsc::UnboundedSender<(Row, OwnedSemaphorePermit)>,
    events: mpsc::Sender<FromGateway>,
}

impl Log {
    /// Rows are handed to `events` in batches by the returned future.
    pub(crate) fn new(
        events: mpsc::Sender<FromGateway>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        // Unbounded in type only: each row carries its permit.
        let (rows, waiting) = mpsc::unbounded_channel();
        let log = Self { room: Arc::new(Semaphore::new(MOST)), rows, events: events.clone() };
        (log, deliver(waiting, events))
    }

    /// Answers once no row is promised or waiting, and `last` is done. Whatever begins after this
    /// waits behind it: only for a gateway that is about to end.
    pub(crate) async fn finish(self, sequence: u64, last: impl Future<Output = ()>) {
        let all = u32::try_from(MOST).unwrap_or(u32::MAX);
        let _all = self.room.acquire_many(all).await;
        last.await;
        // The same way that rows go, so behind the last of them.
        let _ = self.events.send(FromGateway::Done { sequence }).await;
    }
}

async fn deliver(
    mut waiting: mpsc::UnboundedReceiver<(Row, OwnedSemaphorePermit)>,
    events: mpsc::Sender<FromGateway>,
) {
    let mut batch = Vec::with_capacity(BATCH);
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        if batch.len() < BATCH {
            // Nobody waits for rows meanwhile, so that writing one wakes nobody.
            tokio::time::sleep(LINGER).await;
            while batch.len() < BATCH
                && let Ok(row) = waiting.try_recv()
            {
                batch.push(row);
            }
        }
        let (rows, _permits): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
        if events.send(FromGateway::Rows { rows }).await.is_err() {
            return;
        }
    }
}

/// A row to be. Fields that nobody sets stay empty; an entry that nobody
/// decided about says `failed`, and why its connection was cut.
#[derive(Debug)]
pub(crate) struct Entry {
    connection: Arc<Connection>,
    row: Option<Row>,
    tally: Option<Arc<Tally>>,
    permit: Option<OwnedSemaphorePermit>,
    began: Instant,
    /// The last charge in the charge log.
    ended_with: Option<Charge>,
}

impl Entry {
    /// Waits for room in the log.
    pub(crate) async fn begin(connection: &Arc<Connection>, kind: Kind) -> Self {
        let log = connection.session.log();
        // The semaphore is never closed.
        let permit = Arc::clone(&log.room).acquire_owned().await.ok();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let row = Row {
            sequence: 0,
            within: Some(connection.number),
            subject: connection.subject(),
            kind,
            decision: Decision::Failed,
            reason: Reason::Ended,
            host: None,
            port: None,
            address: None,
            method: None,
            path: None,
            status: None,
            operation: None,
            charge_id: None,
            charge: None,
            bytes: Bytes::default(),
            began: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
            first_byte_micros: None,
            micros: 0,
        };
        let connection = Arc::clone(connection);
        Self {
            connection,
            row: Some(row),
            tally: None,
            permit,
            began: Instant::now(),
            ended_with: None,
        }
    }

    /// Writes a request to the charge log, with the most that it can cost. It must not leave before.
    pub(crate) async fn begin_charge(&mut self, charge: Charge) -> Result<(), ChargeLogError> {
        let session = Arc::clone(&self.connection.session);
        let Some(log) = session.charge_log() else { return Ok(()) };
        // Set at once: if the client leaves meanwhile, the row ends what is in the log.
        self.row().charge_id = Some(log.next_id());
        let mut record = record_of(&session, self.row());
        record.charge = Some(charge);
        let begun = log.begin(&record).await;
        if begun.is_err() {
            self.row().charge_id = None;
        }
        begun
    }

    /// Writes the cost of a whole answer to the charge log, before its last byte goes on.
    pub(crate) fn end_charge(&mut self, charge: &Charge) {
        let session = Arc::clone(&self.connection.session);
        let Some(log) = session.charge_log() else { return };
        if self.row().charge_id.is_none() || self.ended_with.as_ref() == Some(charge) {
            return;
        }
        let mut record = record_of(&session, self.row());
        record.decision = Decision::Allowed;
        record.reason = Reason::Operation;
        record.charge = Some(charge.clone());
        record.micros = micros(self.began);
        log.end(&record);
        self.ended_with = Some(charge.clone());
    }

    /// Has the bytes counted by somebody else.
    pub(crate) fn count_by(&mut self, tally: &Arc<Tally>) {
        self.tally = Some(Arc::clone(tally));
    }

    /// What is written so far.
    pub(crate) fn row(&mut self) -> &mut Row {
        // Only `drop` takes it.
        self.row.as_mut().expect("an entry has its row until it is dropped")
    }

    pub(crate) fn to(&mut self, host: Host, port: u16) {
        let row = self.row();
        row.host = Some(host);
        row.port = Some(port);
    }

    pub(crate) fn asks(&mut self, method: &http::Method, path: &str) {
        let row = self.row();
        row.method = Some(method.as_str().chars().take(32).collect());
        row.path = Some(path.chars().take(LONGEST_PATH).collect());
    }

    pub(crate) fn decide(&mut self, decision: Decision, reason: Reason) {
        let row = self.row();
        row.decision = decision;
        row.reason = reason;
    }

    /// Takes the promise back: somebody else writes the row.
    pub(crate) fn forget(mut self) {
        self.row = None;
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The first byte of an answer is here.
    pub(crate) fn first_byte(&mut self) {
        let micros = micros(self.began);
        self.row().first_byte_micros.get_or_insert(micros);
    }
}

/// A row as the charge log has it. Another process may send it, which knows of no connection.
fn record_of(session: &Session, row: &Row) -> Row {
    let mut record = Row { within: None, ..row.clone() };
    if let Some(charged) = &session.charged {
        record.subject.sandbox.clone_from(charged);
    }
    record
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Drop for Entry {
    fn drop(&mut self) {
        let (Some(mut row), Some(permit)) = (self.row.take(), self.permit.take()) else { return };
        row.micros = micros(self.began);
        if let Some(tally) = &self.tally {
            row.bytes.out += tally.out.load(Ordering::Relaxed);
            row.bytes.into += tally.into.load(Ordering::Relaxed);
        }
        if let Some(reason) = self.connection.why_cut()
            && row.decision != Decision::Denied
        {
            row.decision = Decision::Failed;
            row.reason = reason;
        }
        if row.charge_id.is_some()
            && let Some(log) = self.connection.session.charge_log()
        {
            if row.charge != self.ended_with || row.charge.is_none() {
                log.end(&record_of(&self.connection.session, &row));
            }
            log.sent(&row);
        }
        self.connection.session.write(row, permit);
    }
}

impl Log {
    /// Called with rows of one sandbox in order.
    pub(crate) fn push(&self, row: Row, permit: OwnedSemaphorePermit) {
        let _ = self.rows.send((row, permit));
    }
}
