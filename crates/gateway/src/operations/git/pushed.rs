//! The body of a push on its way out.
//!
//! The end of the pack is held back until it is known that every branch only moves forward. A
//! server changes nothing before it has the whole pack. So a push that is refused this late is cut
//! without its check sum, and has no effect.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use super::Refused;
use super::commands::Update;
use super::pack::{Pack, TRAILER};
use super::source::Source;
use crate::operations::refuse::Refusal;

/// The reason that a push was cut, for its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict(Arc<OnceLock<Refusal>>);

impl Verdict {
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.0.get().cloned()
    }
}

pub(super) struct Pushed {
    head: Bytes,
    /// Came together with the head.
    ahead: Bytes,
    source: Source,
    scan: Option<Scan>,
    verdict: Verdict,
    is_over: bool,
    left: Option<u64>,
}

/// A look at a pack that passes.
struct Scan {
    pack: Pack,
    updates: Vec<Update>,
    held: BytesMut,
}

impl Pushed {
    /// `updates` are branches that must only move forward.
    pub(super) fn new(
        head: Vec<u8>,
        ahead: Bytes,
        source: Source,
        updates: Vec<Update>,
        verdict: Verdict,
    ) -> Self {
        let known = (head.len() + ahead.len()) as u64;
        let left = source.length().map(|length| length + known);
        let scan = Scan { pack: Pack::default(), updates, held: BytesMut::new() };
        let scan = (!scan.updates.is_empty()).then_some(scan);
        Self { head: head.into(), ahead, source, scan, verdict, is_over: false, left }
    }

    fn refuse(&mut self, refusal: Refusal) -> io::Error {
        self.is_over = true;
        let _ = self.verdict.0.set(refusal);
        io::ErrorKind::InvalidData.into()
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        loop {
            if !self.head.is_empty() {
                return Poll::Ready(Some(Ok(std::mem::take(&mut self.head))));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let piece = if self.ahead.is_empty() {
                match ready!(self.source.poll_next(context)) {
                    Some(Ok(piece)) => piece,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => {
                        self.is_over = true;
                        let Some(scan) = &mut self.scan else { return Poll::Ready(None) };
                        return Poll::Ready(Some(scan.finish().map_err(Refusal::from)));
                    }
                }
            } else {
                std::mem::take(&mut self.ahead)
            };
            let Some(scan) = &mut self.scan else { return Poll::Ready(Some(Ok(piece))) };
            match scan.pass(&piece) {
                Ok(empty) if empty.is_empty() => {}
                passed => return Poll::Ready(Some(passed.map_err(Refusal::from))),
            }
        }
    }
}

impl Scan {
    /// The bytes that may go on now.
    fn pass(&mut self, piece: &Bytes) -> Result<Bytes, Refused> {
        self.pack.read(piece).map_err(Refused::Pack)?;
        self.held.extend_from_slice(piece);
        let free = self.held.len().saturating_sub(TRAILER);
        Ok(self.held.split_to(free).freeze())
    }

    /// The last bytes, if nothing is against the push.
    fn finish(&mut self) -> Result<Bytes, Refused> {
        if !self.pack.is_over() {
            return Err(Refused::Pack(super::pack::BadPack::Malformed));
        }
        let is_lost = |update: &&Update| !self.pack.shows(&update.old, &update.new);
        match self.updates.iter().find(is_lost) {
            Some(lost) => Err(Refused::Force(lost.branch().unwrap_or(&lost.name).to_owned())),
            None => Ok(std::mem::take(&mut self.held).freeze()),
        }
    }
}

impl Body for Pushed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        Poll::Ready(match ready!(this.poll_next(context)) {
            Some(Ok(bytes)) => {
                this.left = this.left.map(|left| left.saturating_sub(bytes.len() as u64));
                Some(Ok(Frame::data(bytes)))
            }
            Some(Err(refusal)) => Some(Err(this.refuse(refusal))),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
