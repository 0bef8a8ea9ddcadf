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
use super::source::{MAX_WORK, Source};
use crate::operations::refuse::Refusal;
use crate::room::TakenRoom;

/// Bytes of a pack that are read at once: a thousandfold of it is unpacked.
const STEP: usize = 4 << 10;

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
    /// Came already, and was not read yet.
    ahead: Bytes,
    source: Source,
    scan: Option<Scan>,
    verdict: Verdict,
    is_over: bool,
    left: Option<u64>,
}

/// A look at a pack that passes.
pub(super) struct Scan {
    pack: Pack,
    updates: Vec<Update>,
    shallow: Vec<String>,
    held: BytesMut,
    /// Work since the task last yielded.
    work: usize,
    /// Room for the commits that are kept, until the pack has passed.
    _room: Option<TakenRoom>,
}

impl Pushed {
    pub(super) fn new(
        head: Vec<u8>,
        ahead: Bytes,
        source: Source,
        scan: Option<Scan>,
        verdict: Verdict,
    ) -> Self {
        let known = (head.len() + ahead.len()) as u64;
        let left = source.length().map(|length| length + known);
        Self { head: head.into(), ahead, source, scan, verdict, is_over: false, left }
    }

    fn refuse(&mut self, refusal: Refusal) -> io::Error {
        self.is_over = true;
        self.scan = None;
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
            if let Some(scan) = &mut self.scan
                && scan.work >= MAX_WORK
            {
                scan.work = 0;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut piece = if self.ahead.is_empty() {
                match ready!(self.source.poll_next(context)) {
                    Some(Ok(piece)) => piece,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => {
                        self.is_over = true;
                        let Some(mut scan) = self.scan.take() else { return Poll::Ready(None) };
                        return Poll::Ready(Some(scan.finish().map_err(Refusal::from)));
                    }
                }
            } else {
                std::mem::take(&mut self.ahead)
            };
            let Some(scan) = &mut self.scan else { return Poll::Ready(Some(Ok(piece))) };
            if piece.len() > STEP {
                self.ahead = piece.split_off(STEP);
            }
            match scan.pass(&piece) {
                Ok(empty) if empty.is_empty() => {}
                passed => return Poll::Ready(Some(passed.map_err(Refusal::from))),
            }
        }
    }
}

impl Scan {
    /// `updates` are branches that must only move forward; none: nothing is looked at. `most`
    /// bounds the pack.
    pub(super) fn new(
        updates: Vec<Update>,
        shallow: Vec<String>,
        most: u64,
        room: Option<TakenRoom>,
    ) -> Option<Self> {
        let pack = Pack::new(most);
        let scan = Self { pack, updates, shallow, held: BytesMut::new(), work: 0, _room: room };
        (!scan.updates.is_empty()).then_some(scan)
    }

    /// The bytes that may go on now.
    fn pass(&mut self, piece: &Bytes) -> Result<Bytes, Refused> {
        self.pack.read(piece).map_err(Refused::Pack)?;
        self.work += self.pack.take_work();
        self.held.extend_from_slice(piece);
        let free = self.held.len().saturating_sub(TRAILER);
        Ok(self.held.split_to(free).freeze())
    }

    /// The last bytes, if nothing is against the push.
    fn finish(&mut self) -> Result<Bytes, Refused> {
        if !self.pack.is_over() {
            return Err(Refused::Pack(super::pack::BadPack::Malformed));
        }
        let is_lost = |update: &&Update| !self.pack.shows(&update.old, &update.new, &self.shallow);
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::task::Waker;

    use ::http::header::{CONTENT_ENCODING, HeaderMap};
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::body::Inner;
    use crate::operations::git::pack::BadPack;
    use crate::room::BodyRoom;

    /// A pack of one blob of `1 << 26` zeros, packed once more.
    fn bomb() -> Bytes {
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
        // A blob, and its size: four bits, then seven by seven.
        pack.extend_from_slice(&[0xb0, 0x80, 0x80, 0x80, 0x02]);
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&vec![0; 1 << 26]).unwrap();
        pack.extend_from_slice(&encoder.finish().unwrap());
        pack.extend_from_slice(&[0; TRAILER]);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&pack).unwrap();
        encoder.finish().unwrap().into()
    }

    fn pushed(most: u64, room: Option<TakenRoom>) -> (Pushed, Verdict) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, "gzip".parse().unwrap());
        let source = Source::new(&headers, Inner::Whole(bomb()), most).unwrap();
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let update = Update { old, new, name: "refs/heads/a".to_owned() };
        let verdict = Verdict::default();
        let scan = Scan::new(vec![update], Vec::new(), most, room);
        (Pushed::new(Vec::new(), Bytes::new(), source, scan, verdict.clone()), verdict)
    }

    /// Polls until the end; returns the number of times that the body yielded.
    fn turns(pushed: &mut Pushed) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 0;
        loop {
            match Pin::new(&mut *pushed).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => {
                    assert!(frame.data_ref().is_some_and(|data| data.len() <= STEP + TRAILER));
                }
                Poll::Ready(_) => return turns,
                Poll::Pending => turns += 1,
            }
        }
    }

    /// GW-28/turns: what is packed twice leaves other tasks their turn.
    #[test]
    fn a_scan_yields() {
        let (mut pushed, verdict) = pushed(1 << 30, None);
        let turns = turns(&mut pushed);
        assert!(turns >= 10, "{turns}");
        assert_eq!(verdict.refusal(), Some(Refusal::from(Refused::Force("a".to_owned()))));
    }

    /// The upstream may take long to answer; the room is for others then.
    #[test]
    fn room_is_free_once_the_pack_has_passed() {
        let room = Arc::new(Semaphore::new(1));
        let taken = BodyRoom::new(Arc::clone(&room), 1 << 10).try_take(1).unwrap();
        let (mut pushed, _) = pushed(1 << 30, Some(taken));
        assert_eq!(room.available_permits(), 0);
        turns(&mut pushed);
        assert_eq!(room.available_permits(), 1);
    }

    /// GW-28/ratio: what is unpacked is bounded by what an operation takes.
    #[test]
    fn a_pack_unpacks_to_a_multiple_of_the_bound() {
        let (mut pushed, verdict) = pushed(1 << 20, None);
        assert_eq!(turns(&mut pushed), 0);
        assert_eq!(verdict.refusal(), Some(Refusal::from(Refused::Pack(BadPack::TooMuch))));
    }
}
