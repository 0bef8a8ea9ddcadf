//! The body of an answer, on its way from the upstream to the sandbox.
//!
//! Every piece is passed on as it comes; on the way it is searched for the
//! credential and read for what it costs. Whichever way it ends (the upstream's
//! end, a client that leaves, a token that dies, a credential that comes back),
//! the reservation is settled and the row is written exactly once, when this is
//! dropped.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use belljar_domain::network::{Charge, Decision, Reason};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::connect::Reply;
use super::echo::Echo;
use super::metering::{self, End, Metering, Said};
use super::operation::Operation;
use super::read::Held;
use crate::budget::{Amount, Reservation};
use crate::log::Entry;
use crate::tokens::{Death, Token};

/// Answers of at most so many bytes are looked at as a whole before they begin.
const SHORT: u64 = 256 << 10;

/// An answer that is under way.
pub(super) struct Stream {
    upstream: Option<Reply>,
    /// What may go on and has not yet.
    ready: VecDeque<Bytes>,
    operation: Arc<Operation>,
    /// Bytes that the upstream may still send.
    room: u64,
    echo: Echo,
    /// Nothing of `ready` goes on until the next piece is here.
    holds: bool,
    metering: Option<Metering>,
    death: Pin<Box<dyn Future<Output = Death> + Send>>,
    idle: Pin<Box<Sleep>>,
    /// What the upstream said the whole is long; none where we change it.
    left: Option<u64>,
    end: Option<End>,
    /// The reason in the row of an answer that came to its end.
    allowed: Reason,
    account: Settling,
}

/// What has to be done at the end, once.
struct Settling {
    reservation: Option<Reservation>,
    entry: Option<Entry>,
    charge: Option<Charge>,
    /// Other things that must live as long as the answer.
    _request: Held,
}

/// What a stream is made of.
pub(super) struct Parts {
    pub(super) upstream: Reply,
    pub(super) operation: Arc<Operation>,
    pub(super) token: Arc<Token>,
    pub(super) metering: Option<Metering>,
    pub(super) reservation: Reservation,
    pub(super) request: Held,
    /// The reason for which the request was allowed.
    pub(super) allowed: Reason,
}

impl Stream {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { upstream, operation, token, metering, reservation, request, allowed } = parts;
        let is_changed = metering.as_ref().is_some_and(Metering::changes);
        let left = if is_changed { None } else { upstream.size_hint().exact() };
        let idle = Box::pin(tokio::time::sleep(idle(&operation)));
        Self {
            upstream: Some(upstream),
            ready: VecDeque::with_capacity(2),
            room: operation.max_answer,
            operation,
            echo: Echo::default(),
            holds: false,
            metering,
            death: Box::pin(token.death()),
            idle,
            left,
            end: None,
            allowed,
            account: Settling {
                reservation: Some(reservation),
                entry: None,
                charge: None,
                _request: request,
            },
        }
    }

    /// Whose row this is. Before, whoever made the stream writes the row.
    pub(super) fn log_with(&mut self, mut entry: Entry) {
        if let Some(charge) = &self.account.charge {
            entry.end_charge(charge);
        }
        self.account.entry = Some(entry);
    }

    /// The answer is not passed on. What it cost so far is paid all the same.
    pub(super) fn give_up(&mut self) -> Option<Charge> {
        self.upstream = None;
        self.ready.clear();
        let metering = self.metering.take();
        self.account.charge = self.account.charge.take().or(metering.map(|one| one.finish().1));
        self.account.charge.clone()
    }

    /// Waits for all of an answer that is short and says so. What is wrong with
    /// it can then still be answered properly.
    pub(super) async fn fetch_if_short(&mut self) -> Result<(), End> {
        if self.left.is_none_or(|length| length > SHORT) {
            return Ok(());
        }
        while self.upstream.is_some() {
            std::future::poll_fn(|context| self.poll_upstream(context)).await?;
        }
        Ok(())
    }

    /// One step: a piece of the upstream's, or its end.
    fn poll_upstream(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        if let Poll::Ready(death) = self.death.as_mut().poll(context) {
            return Poll::Ready(Err(End::Token(death)));
        }
        let Some(upstream) = &mut self.upstream else { return Poll::Ready(Ok(())) };
        match Pin::new(&mut *upstream).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let is_last = upstream.is_end_stream();
                // Trailers are not passed on.
                if let Ok(chunk) = frame.into_data() {
                    self.take(chunk)?;
                }
                if is_last {
                    self.finish();
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(End::Upstream)),
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(Ok(()))
            }
            Poll::Pending => self.idle.as_mut().poll(context).map(|()| Err(End::Idle)),
        }
    }

    /// Takes a piece of the upstream's. What of it may go on waits in `ready`.
    fn take(&mut self, chunk: Bytes) -> Result<(), End> {
        self.room = self.room.checked_sub(chunk.len() as u64).ok_or(End::TooLong)?;
        let deadline = Instant::now() + idle(&self.operation);
        self.idle.as_mut().reset(deadline);
        match &self.operation.secret {
            Some(secret) => {
                let passed = self.echo.pass(secret.needle(), chunk);
                let (held, now) = passed.map_err(|_| End::Echoed)?;
                self.go_on(held);
                self.go_on(now);
                if let (Some(metering), Some(secret)) = (&mut self.metering, &self.operation.secret)
                {
                    let said = metering.search(secret.needle()).map_err(|_| End::Echoed)?;
                    self.holds = said == Said::ItsBeginning;
                }
            }
            None => self.go_on(chunk),
        }
        // Before the chunk goes on: it may be the last that the client waits for.
        if let (Some(entry), Some(metering)) = (&mut self.account.entry, &self.metering)
            && let Some(charge) = metering.settled()
        {
            entry.end_charge(&charge);
        }
        Ok(())
    }

    fn go_on(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        match &mut self.metering {
            Some(metering) => metering.feed(chunk, &mut self.ready),
            None => self.ready.push_back(chunk),
        }
    }

    /// The upstream has said everything.
    fn finish(&mut self) {
        self.upstream = None;
        self.holds = false;
        if let Some(secret) = &self.operation.secret {
            let held = self.echo.finish(secret.needle());
            self.go_on(held);
        }
        if let Some(metering) = self.metering.take() {
            let (held, charge) = metering.finish();
            if !held.is_empty() {
                self.ready.push_back(held);
            }
            if let Some(entry) = &mut self.account.entry {
                entry.end_charge(&charge);
            }
            self.account.charge = Some(charge);
        }
        self.end = Some(End::Complete);
    }

    /// Ends it early. The upstream is let go at once.
    fn cut(&mut self, end: End) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.upstream = None;
        self.ready.clear();
        self.end = Some(end);
        let last = self.metering.as_ref().and_then(|metering| metering.last_words(end));
        match last {
            // The client is told in its own words; then it is over.
            Some(last) => Poll::Ready(Some(Ok(self.count(last)))),
            None => Poll::Ready(Some(Err(io::Error::other(end.to_string())))),
        }
    }

    fn count(&mut self, chunk: Bytes) -> Frame<Bytes> {
        if let Some(entry) = &mut self.account.entry {
            entry.row().bytes.into += chunk.len() as u64;
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(chunk.len() as u64);
        }
        Frame::data(chunk)
    }
}

fn idle(operation: &Operation) -> Duration {
    Duration::from_secs(operation.timeouts.idle_seconds)
}

impl Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        loop {
            if !this.holds
                && let Some(chunk) = this.ready.pop_front()
            {
                return Poll::Ready(Some(Ok(this.count(chunk))));
            }
            if this.upstream.is_none() {
                return Poll::Ready(None);
            }
            if let Err(end) = ready!(this.poll_upstream(context)) {
                return this.cut(end);
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.upstream.is_none() && self.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let end = self.end.unwrap_or(End::Gone);
        let Settling { reservation, entry, charge, .. } = &mut self.account;
        let cut = self.metering.take().map(|metering| metering.finish().1);
        let charge = charge.take().or(cut);
        if let Some(reservation) = reservation.take() {
            let one = Amount { requests: 1, ..Amount::default() };
            reservation.settle(charge.as_ref().map_or(one, metering::amount));
        }
        if let Some(mut entry) = entry.take() {
            let (decision, reason) = match end {
                End::Complete => (Decision::Allowed, self.allowed),
                other => other.decision(),
            };
            entry.decide(decision, reason);
            entry.row().charge = charge;
        }
    }
}

impl End {
    fn decision(self) -> (Decision, Reason) {
        match self {
            Self::Complete => (Decision::Allowed, Reason::Operation),
            Self::Gone => (Decision::Failed, Reason::Ended),
            Self::Token(_) => (Decision::Failed, Reason::Token),
            Self::Echoed | Self::TooLong => (Decision::Failed, Reason::BadAnswer),
            Self::Upstream | Self::Idle => (Decision::Failed, Reason::Upstream),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("operation", &self.operation.name).finish_non_exhaustive()
    }
}
