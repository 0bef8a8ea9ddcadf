//! Bodies of requests, unpacked, as something to read from.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, ReadBuf};

use super::encoding::{Encoding, Unpacking};

/// The content of a body.
pub(super) struct Content {
    body: BodyDataStream,
    unpacking: Option<Unpacking>,
    /// Packed bytes that wait, so that little is unpacked at once.
    packed: Bytes,
    ready: VecDeque<Bytes>,
}

impl Content {
    pub(super) fn new(body: Body, encoding: Encoding) -> Self {
        Self {
            body: body.into_data_stream(),
            unpacking: (encoding == Encoding::Gzip).then(Unpacking::new),
            packed: Bytes::new(),
            ready: VecDeque::new(),
        }
    }

    /// Takes what is left off the caller's hands, up to a limit: many clients
    /// read an answer only when all is sent.
    pub(super) async fn drain(mut self) {
        const MOST: usize = 64 << 20;
        let mut taken = 0;
        while let Some(Ok(bytes)) = self.body.next().await {
            taken += bytes.len();
            if taken > MOST {
                return;
            }
        }
    }

    fn unpack(&mut self) -> io::Result<()> {
        let Some(unpacking) = &mut self.unpacking else { return Ok(()) };
        let count = self.packed.len().min(Unpacking::MOST);
        let unpacked = unpacking.push(&self.packed.split_to(count))?;
        if !unpacked.is_empty() {
            self.ready.push_back(unpacked.into());
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(unpacking) = self.unpacking.take() {
            let rest = unpacking.finish()?;
            if !rest.is_empty() {
                self.ready.push_back(rest.into());
            }
        }
        Ok(())
    }
}

impl Stream for Content {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if !self.packed.is_empty() {
                if let Err(error) = self.unpack() {
                    return Poll::Ready(Some(Err(error)));
                }
                continue;
            }
            match std::task::ready!(self.body.poll_next_unpin(context)) {
                Some(Ok(bytes)) if self.unpacking.is_some() => self.packed = bytes,
                Some(Ok(bytes)) => return Poll::Ready(Some(Ok(bytes))),
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                None if self.unpacking.is_some() => {
                    if let Err(error) = self.end() {
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Hands content to the reader of a form, which keeps whatever it is given: one
/// piece at a time, and never much that is part of no file.
pub(super) struct Paced<'a> {
    content: &'a mut Content,
    given: bool,
    unclaimed: Arc<AtomicUsize>,
}

/// Bytes of a form between two pieces of files: names, and whatever else.
const MOST_UNCLAIMED: usize = 1 << 20;

impl<'a> Paced<'a> {
    /// Whoever reads the form sets the counter to zero when it has a piece.
    pub(super) fn new(content: &'a mut Content, unclaimed: Arc<AtomicUsize>) -> Self {
        Self { content, given: false, unclaimed }
    }
}

impl Stream for Paced<'_> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.given) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let piece = std::task::ready!(self.content.poll_next_unpin(context));
        self.given = true;
        if let Some(Ok(bytes)) = &piece {
            let unclaimed = self.unclaimed.fetch_add(bytes.len(), Ordering::Relaxed);
            if unclaimed > MOST_UNCLAIMED {
                let message = "a form has too much that is no file";
                return Poll::Ready(Some(Err(io::Error::other(message))));
            }
        }
        Poll::Ready(piece)
    }
}

/// Reads from a stream of pieces.
pub(super) struct Reader<S> {
    pieces: S,
    rest: Bytes,
}

impl<S> Reader<S> {
    pub(super) fn new(pieces: S) -> Self {
        Self { pieces, rest: Bytes::new() }
    }
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> AsyncRead for Reader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match std::task::ready!(self.pieces.poll_next_unpin(context)) {
                Some(Ok(bytes)) => self.rest = bytes,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(into.remaining());
        into.put_slice(&self.rest.split_to(count));
        Poll::Ready(Ok(()))
    }
}
