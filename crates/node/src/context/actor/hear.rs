//! What an interpreter says, and who is shown it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use belljar_domain::{EndReason, Usage};
use belljar_guest_proto::context::FromContext;
use tokio::sync::mpsc;

use super::end::ended;
use super::{Actor, Cell, Parking, Taken};
use crate::context::cell::{CellEnd, CellError, CellEvent};
use crate::counts::Counts;
use crate::link::Incoming;

/// How a cell ended, apart from what it used.
pub(super) struct Conclusion {
    pub(super) reason: EndReason,
    pub(super) ok: bool,
    pub(super) count: u64,
    pub(super) alive: bool,
}

impl Actor {
    pub(super) async fn take(&mut self, incoming: Incoming, cell: &mut Option<Cell>) -> Taken {
        match incoming {
            Incoming::Stdout(bytes) => {
                self.owed += bytes.len();
                self.show(cell, CellEvent::Stdout(bytes))
            }
            Incoming::Stderr(bytes) => {
                self.owed += bytes.len();
                self.show(cell, CellEvent::Stderr(bytes))
            }
            Incoming::Data(bytes) => {
                self.owed += bytes.len();
                self.reader.push(&bytes);
                Taken::On
            }
            Incoming::Credit(bytes) => {
                self.input.grant(bytes);
                let _ = self.input.flush(&self.channel).await;
                Taken::On
            }
            Incoming::Exited(exit) => {
                self.status = ended(exit);
                Taken::Over(self.reason_of(exit))
            }
            Incoming::Eof => Taken::Over(None),
            Incoming::Reply(_) | Incoming::Changed(_) => Taken::On,
        }
    }

    /// Hears what the interpreter has said, until an event of it must wait for room. Then the
    /// guest may send as much again.
    pub(super) async fn hear_all(
        &mut self,
        cell: &mut Option<Cell>,
        parking: &mut Option<Parking>,
    ) -> Taken {
        while !cell.as_ref().is_some_and(Cell::is_stalled) {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    if let Taken::Over(reason) = self.hear(message, cell, parking) {
                        return Taken::Over(reason);
                    }
                }
                Ok(None) => {
                    let owed = std::mem::take(&mut self.owed);
                    if let Some(cell) = cell.as_mut().filter(|cell| !cell.unsent.is_empty()) {
                        cell.unsent_bytes += owed;
                    }
                    if owed > 0 {
                        let _ = self.channel.grant(owed).await;
                    }
                    break;
                }
                // It does not speak the protocol any more.
                Err(_) => return Taken::Over(Some(EndReason::Policy)),
            }
        }
        Taken::On
    }

    fn hear(
        &mut self,
        message: FromContext,
        cell: &mut Option<Cell>,
        parking: &mut Option<Parking>,
    ) -> Taken {
        let event = match message {
            FromContext::Stdout { text } => CellEvent::Stdout(text.into_bytes()),
            FromContext::Stderr { text } => CellEvent::Stderr(text.into_bytes()),
            FromContext::Display(display) => CellEvent::Display(display),
            FromContext::Result { data, metadata, .. } => CellEvent::Result { data, metadata },
            FromContext::Error { name, value, traceback } => {
                CellEvent::Error(CellError { name, value, traceback })
            }
            FromContext::Done { id, ok, count } => {
                if let Some(done) = cell.take_if(|cell| cell.id == id) {
                    let now = self.counts();
                    // A process that the cell had started may have been killed for
                    // want of memory; the interpreter goes on.
                    let starved = now.oom_kills > done.before.oom_kills;
                    let came = if starved { EndReason::Oom } else { EndReason::Done };
                    let reason = done.stopping.map_or(came, |(reason, _)| reason);
                    let end = Conclusion { reason, ok, count, alive: true };
                    self.conclude(done, &now, end);
                }
                return Taken::On;
            }
            FromContext::Parked(parked) => {
                if let Some(answer) = parking.as_mut().and_then(|parking| parking.answer.take()) {
                    let _ = answer.send(parked);
                }
                return Taken::On;
            }
            FromContext::Ready { .. } | FromContext::Awake { .. } | FromContext::Unfit { .. } => {
                return Taken::On;
            }
        };
        self.show(cell, event)
    }

    /// Passes an event on to whoever runs the cell, or keeps it until there is room.
    fn show(&mut self, cell: &mut Option<Cell>, event: CellEvent) -> Taken {
        // Between cells there is nobody to show it to.
        let Some(cell) = cell else { return Taken::On };
        cell.output_bytes += size_of(&event) as u64;
        if cell.output_bytes > self.limits.output_bytes {
            return Taken::Over(Some(EndReason::Output));
        }
        // When nobody listens any more, the cell runs on all the same. One that
        // listens slowly holds the interpreter back, not its time.
        let sent = match cell.unsent.is_empty() {
            true => cell.events.try_send(event),
            false => Err(mpsc::error::TrySendError::Full(event)),
        };
        if let Err(mpsc::error::TrySendError::Full(event)) = sent {
            cell.unsent.push_back(event);
        }
        Taken::On
    }

    pub(super) fn conclude(&self, cell: Cell, now: &Counts, end: Conclusion) {
        self.ledger.end_cell(self.number);
        self.busy.fetch_sub(1, Ordering::Relaxed);
        let usage = Usage {
            wall: cell.started.elapsed(),
            cpu: now.cpu_since(&cell.before),
            peak_memory_bytes: now.peak_memory_bytes,
            written_bytes: now.written_since(&cell.before, self.channel.counted()),
            output_bytes: cell.output_bytes,
        };
        let Conclusion { reason, ok, count, alive } = end;
        let end = CellEnd { reason, ok, count, usage, alive };
        deliver(cell.events, cell.unsent.into_iter().chain([CellEvent::End(end)]));
    }
}

/// Delivers the last events of a cell. Whoever reads slowly gets them later, and holds nobody
/// up: the interpreter is free, or gone.
pub(super) fn deliver(events: mpsc::Sender<CellEvent>, last: impl IntoIterator<Item = CellEvent>) {
    let mut last: VecDeque<CellEvent> = last.into_iter().collect();
    while let Some(event) = last.pop_front() {
        if let Err(mpsc::error::TrySendError::Full(event)) = events.try_send(event) {
            last.push_front(event);
            break;
        }
    }
    if !last.is_empty() {
        tokio::spawn(async move {
            for event in last {
                let _ = events.send(event).await;
            }
        });
    }
}

fn size_of(event: &CellEvent) -> usize {
    match event {
        CellEvent::Stdout(bytes) | CellEvent::Stderr(bytes) => bytes.len(),
        CellEvent::Display(display) => bundle_size(display.data.values()),
        CellEvent::Result { data, .. } => bundle_size(data.values()),
        CellEvent::Error(error) => error.traceback.iter().map(String::len).sum(),
        CellEvent::End(_) => 0,
    }
}

fn bundle_size<'a>(values: impl Iterator<Item = &'a serde_json::Value>) -> usize {
    values.map(|value| value.as_str().map_or(64, str::len)).sum()
}
