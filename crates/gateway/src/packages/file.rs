//! Promised files: from the cache, or into it on their way to the client.
//!
//! The last bytes of a file are passed on only when all of them together were
//! the promised ones. A transfer that ends well is a right file.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use belljar_domain::network::{Decision, Reason};
use belljar_packages::cache::{Key, Reader, Scope, WriteError, Writer};
use belljar_packages::{Digest, Hasher, Url};
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::keeper::{self, Kept};
use super::{Access, is_packed};
use crate::body::Answer;
use crate::forward::{self, Outcome, Passing, Sending, pass_back};
use crate::log::Entry;
use crate::meter::Way;

pub(super) async fn fetch(
    access: &Access,
    sending: Sending<'_>,
    url: &Url,
    digest: Digest,
) -> Outcome {
    // Which indexes there are was decided by the operator, or for a template
    // that the operator installed: what they promise is for everybody.
    let key = Key { scope: Scope::Shared, digest };
    let sink = match keeper::find(&sending.connection.session.shared, key).await {
        Kept::Here(reader) => return Outcome::Answered(kept(sending.entry, reader)),
        Kept::Wanted(writer) => Sink::Cache(writer),
        Kept::Not => Sink::Check(Box::new(digest.hasher())),
    };
    let (answer, mut passing) = match sending.send().await {
        Ok(answered) => answered,
        Err(answer) => return Outcome::Refused(answer),
    };
    access.follow(url, &answer);
    if answer.status() != StatusCode::OK || is_packed(answer.headers()) {
        return Outcome::Answered(pass_back(answer, passing));
    }
    let (parts, body) = forward::head(answer, &mut passing);
    let length = body.size_hint().exact();
    let coming = Coming { body, held: Bytes::new(), sink: Some(sink), passing: Some(passing) };
    let body = Measured::new(unfold(coming, Coming::next).boxed(), length);
    Outcome::Answered(Response::from_parts(parts, body.boxed_unsync()))
}

/// An answer from the cache.
fn kept(mut entry: Entry, reader: Reader) -> Answer {
    entry.decide(Decision::Played, Reason::Cached);
    entry.row().status = Some(StatusCode::OK.as_u16());
    entry.first_byte();
    let length = Some(reader.size());
    let pieces = unfold(Some((entry, reader)), |state| async {
        let (mut entry, mut reader) = state?;
        let piece = off_thread(move || (reader.next_piece(), reader)).await;
        Some(match piece {
            Ok((Ok(Some(piece)), reader)) => match charge(&mut entry, piece.len()).await {
                Ok(()) => (Ok(Bytes::from(piece)), Some((entry, reader))),
                Err(error) => (Err(error), None),
            },
            Ok((Ok(None), _)) => return None,
            Ok((Err(error), _)) => {
                entry.decide(Decision::Failed, Reason::BadAnswer);
                (Err(io::Error::other(error)), None)
            }
            Err(error) => (Err(error), None),
        })
    });
    let body = Measured::new(pieces.boxed(), length);
    let mut answer = Response::new(body.boxed_unsync());
    let octets = HeaderValue::from_static("application/octet-stream");
    answer.headers_mut().insert(CONTENT_TYPE, octets);
    answer
}

/// What comes from here costs what it would have cost from elsewhere.
async fn charge(entry: &mut Entry, bytes: usize) -> io::Result<()> {
    let session = Arc::clone(&entry.connection().session);
    let throttle = session.policy().throttle;
    match session.meter.take(Way::In, bytes as u64, &throttle) {
        Ok(wait) => {
            tokio::time::sleep(wait).await;
            entry.row().bytes.into += bytes as u64;
            Ok(())
        }
        Err(reason) => {
            entry.decide(Decision::Denied, reason);
            Err(io::Error::other("the bytes that the policy allows are used up"))
        }
    }
}

/// Where the bytes of a file go to, beside the client.
enum Sink {
    Cache(Box<Writer>),
    /// Not kept, but checked all the same.
    Check(Box<Hasher>),
}

impl Sink {
    /// Blocks on the disk. A disk that does not take it does not stop it.
    fn write(self, bytes: &[u8]) -> Self {
        match self {
            Self::Cache(mut writer) => match writer.write(bytes) {
                Ok(()) => Self::Cache(writer),
                Err(error) => {
                    tracing::warn!(%error, "package not cached");
                    Self::Check(Box::new(writer.hasher()))
                }
            },
            Self::Check(mut hasher) => {
                hasher.update(bytes);
                Self::Check(hasher)
            }
        }
    }

    /// Whether it was the promised file.
    fn finish(self) -> bool {
        match self {
            Self::Cache(writer) => match writer.finish() {
                Ok(_) => true,
                Err(error @ WriteError::Mismatch { .. }) => {
                    tracing::warn!(%error, "package does not match its digest");
                    false
                }
                Err(error) => {
                    tracing::warn!(%error, "package not cached");
                    true
                }
            },
            Self::Check(hasher) => hasher.is_met(),
        }
    }
}

/// A file on its way to the client and into the cache.
struct Coming {
    body: Incoming,
    /// Passed on when the next bytes are there, or all was right.
    held: Bytes,
    /// None after the end.
    sink: Option<Sink>,
    passing: Option<Passing>,
}

impl Coming {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        loop {
            let sink = self.sink.take()?;
            let data = match self.body.frame().await {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Some(self.fail(Reason::Upstream, error)),
                None => {
                    if !off_thread(move || sink.finish()).await.unwrap_or(false) {
                        let error = "the file is not the promised one";
                        return Some(self.fail(Reason::BadAnswer, error));
                    }
                    if let Some(passing) = self.passing.take() {
                        passing.finish();
                    }
                    let last = std::mem::take(&mut self.held);
                    return (!last.is_empty()).then_some((Ok(last), self));
                }
            };
            if data.is_empty() {
                self.sink = Some(sink);
                continue;
            }
            if let Some(passing) = &mut self.passing {
                passing.entry.row().bytes.into += data.len() as u64;
            }
            let piece = data.clone();
            match off_thread(move || sink.write(&piece)).await {
                Ok(sink) => self.sink = Some(sink),
                Err(error) => return Some(self.fail(Reason::Ended, error)),
            }
            let before = std::mem::replace(&mut self.held, data);
            if !before.is_empty() {
                return Some((Ok(before), self));
            }
        }
    }

    /// Breaks it off: the client must not take it for whole.
    fn fail(
        mut self,
        reason: Reason,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> (io::Result<Bytes>, Self) {
        if let Some(mut passing) = self.passing.take() {
            passing.entry.decide(Decision::Failed, reason);
        }
        (Err(io::Error::other(error)), self)
    }
}

fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = io::Result<T>> {
    let working = tokio::task::spawn_blocking(work);
    async { working.await.map_err(io::Error::other) }
}

/// A body whose length may be known before its bytes are.
struct Measured {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// What is left of it.
    length: Option<u64>,
    /// Whether the last piece was given. Nothing is over before its first piece
    /// was asked for: an empty file is checked as well.
    is_over: bool,
}

impl Measured {
    fn new(pieces: BoxStream<'static, io::Result<Bytes>>, length: Option<u64>) -> Self {
        Self { pieces, length, is_over: false }
    }
}

impl Body for Measured {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let piece = ready!(this.pieces.poll_next_unpin(context));
        if let (Some(length), Some(Ok(piece))) = (&mut this.length, &piece) {
            *length = length.saturating_sub(piece.len() as u64);
            this.is_over = *length == 0;
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    /// Lets a recording be whole before the client knows that the answer is.
    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
