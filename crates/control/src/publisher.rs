//! Carries the outbox to the stream.
//!
//! ```text
//!   take a batch ──► publish, all acknowledged ──► say so, commit
//!        │                    │ not all
//!        ◄────────────────────┘ roll back: the same rows, under the same ids
//! ```
//!
//! Whoever dies on the way has perhaps published; the next publishes again, and
//! the stream knows the ids. Any number of replicas do this at the same time, as
//! each takes rows that no other holds.

use std::time::{Duration, Instant};

use belljar_nats::{Doorbell, OutboxError, Stream, Waiting};
use belljar_store::{Message, Store, StoreError};

const BATCH: u32 = 100;
/// What a row waits at most while everything is well.
const IDLE: Duration = Duration::from_millis(200);
/// Between two attempts while something is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// What was published is kept for so long, to be sent again to a stream that has
/// lost it.
const KEPT: Duration = Duration::from_hours(1);
/// A stream that nobody publishes to is lost unnoticed, unless somebody looks.
const LOOK: Duration = Duration::from_secs(10);
const SWEEP: Duration = Duration::from_mins(1);

/// Why a turn came to nothing. The next may not.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error("cannot read or write the outbox")]
    Store(#[from] StoreError),
    #[error("cannot publish the outbox")]
    Outbox(#[from] OutboxError),
}

enum Turn {
    Sent,
    Nothing,
}

/// Publishes for ever. Dropped at any moment, nothing is lost.
pub async fn run(store: Store, doorbell: Doorbell) {
    let mut publisher = Publisher { store, doorbell, owes: false, looked: None, swept: None };
    let mut pause = IDLE;
    let mut is_well = true;
    loop {
        match publisher.turn().await {
            Ok(turn) => {
                if !is_well {
                    tracing::info!("publishing resumed");
                }
                (is_well, pause) = (true, IDLE);
                if matches!(turn, Turn::Sent) {
                    continue;
                }
            }
            Err(error) => {
                // Said once: an outage may be long.
                if is_well {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "publishing delayed: NATS unavailable");
                }
                is_well = false;
                pause = LONGEST_PAUSE.min(pause * 2);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

struct Publisher {
    store: Store,
    doorbell: Doorbell,
    /// The stream has lost something, and that was not noted in the database yet.
    owes: bool,
    /// When the stream was found last, and after how many reconnects.
    looked: Option<(Instant, u64)>,
    swept: Option<Instant>,
}

impl Publisher {
    async fn turn(&mut self) -> Result<Turn, TurnError> {
        // Asked first: rows are not held while there is nobody to take them.
        self.look().await?;
        self.sweep().await?;
        let outgoing = self.store.outgoing(BATCH).await?;
        if outgoing.messages.is_empty() {
            return Ok(Turn::Nothing);
        }
        let waiting: Vec<_> = outgoing.messages.iter().map(waiting).collect();
        let stream = match self.doorbell.publish_outbox(&waiting).await {
            Ok(stream) => stream,
            Err(error) => {
                self.looked = None;
                return Err(error.into());
            }
        };
        // Before these rows are published ones: the stream has them.
        self.repair(stream).await?;
        belljar_fault::point("control.published");
        outgoing.sent().await?;
        Ok(Turn::Sent)
    }

    async fn look(&mut self) -> Result<(), TurnError> {
        if self.owes {
            self.repair(Stream::Lessened).await?;
        }
        let reconnects = self.doorbell.figures().reconnects;
        let is_fresh = |(at, before): (Instant, u64)| at.elapsed() < LOOK && before == reconnects;
        if self.looked.is_some_and(is_fresh) && self.doorbell.is_connected() {
            return Ok(());
        }
        let stream = self.doorbell.look().await?;
        self.repair(stream).await?;
        self.looked = Some((Instant::now(), reconnects));
        Ok(())
    }

    /// Has what was lost sent again. Noted in the database before the stream is made:
    /// whoever dies in between leaves one that is still missing.
    async fn repair(&mut self, stream: Stream) -> Result<(), TurnError> {
        if stream == Stream::Whole {
            return Ok(());
        }
        self.owes = true;
        let again = self.store.send_again(KEPT).await?;
        self.owes = false;
        if again > 0 {
            tracing::warn!(?stream, again, "republishing lost messages");
        }
        if stream == Stream::Missing {
            self.doorbell.make_stream().await?;
        }
        Ok(())
    }

    async fn sweep(&mut self) -> Result<(), TurnError> {
        if self.swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            self.store.forget_sent(KEPT).await?;
            self.swept = Some(Instant::now());
        }
        Ok(())
    }
}

fn waiting(message: &Message) -> Waiting<'_> {
    Waiting { id: &message.id, subject: &message.subject, body: &message.body }
}
