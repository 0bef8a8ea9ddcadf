//! An answer that is recorded while it is passed on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use belljar_cassette::{Exchange, RecordError};
use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;

use super::deck::Deck;
use crate::body::{Answer, AnswerBody};

/// A request that waits for its answer.
#[derive(Debug)]
pub(crate) struct Begun {
    begun: belljar_cassette::Begun,
    deck: Arc<Deck>,
}

impl Begun {
    pub(super) fn new(begun: belljar_cassette::Begun, deck: Arc<Deck>) -> Self {
        Self { begun, deck }
    }

    /// Records the answer as it is read. When it cannot be kept, it breaks off: a
    /// run that seems recorded, and is not, is worse than one that fails.
    pub(crate) fn answer(self, answer: Answer) -> Answer {
        let (parts, body) = answer.into_parts();
        let headers: Vec<(&str, &[u8])> =
            parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let exchange = self.begun.answer(parts.status.as_u16(), &headers);
        let (exchange, error) = match exchange {
            Ok(exchange) => (Some(exchange), None),
            Err(error) => (None, Some(io::Error::other(error))),
        };
        let mut body = Recorded { body, exchange, deck: self.deck, kept: None, last: None, error };
        if body.body.is_end_stream() {
            body.finish();
        }
        Response::from_parts(parts, body.boxed_unsync())
    }
}

struct Recorded {
    body: AnswerBody,
    exchange: Option<Exchange>,
    deck: Arc<Deck>,
    /// The end is being written.
    kept: Option<JoinHandle<Result<(), RecordError>>>,
    /// What the client sees after that: whoever has the whole answer can rely on
    /// its being recorded.
    last: Option<Frame<Bytes>>,
    error: Option<io::Error>,
}

impl Recorded {
    /// Writes the end in a thread that may wait for the disk, whatever becomes of
    /// the client.
    fn finish(&mut self) {
        let Some(exchange) = self.exchange.take() else { return };
        let deck = Arc::clone(&self.deck);
        self.kept = Some(tokio::task::spawn_blocking(move || {
            deck.learn(exchange.finish()?);
            Ok(())
        }));
    }

    fn poll_kept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(kept) = &mut self.kept else { return Poll::Ready(Ok(())) };
        let kept = ready!(Pin::new(kept).poll(context));
        self.kept = None;
        let kept = kept.map_err(io::Error::other);
        Poll::Ready(kept.and_then(|kept| kept.map_err(io::Error::other)))
    }

    /// The upstream broke off: so will the recording.
    fn break_off(&mut self) {
        let Some(exchange) = self.exchange.take() else { return };
        let deck = Arc::clone(&self.deck);
        tokio::task::spawn_blocking(move || {
            if let Ok(entry) = exchange.abort() {
                deck.learn(entry);
            }
        });
    }
}

impl Body for Recorded {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if this.last.is_some() {
            ready!(this.poll_kept(context))?;
            return Poll::Ready(this.last.take().map(Ok));
        }
        match ready!(Pin::new(&mut this.body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let (Some(data), Some(exchange)) = (frame.data_ref(), &mut this.exchange)
                    && let Err(error) = exchange.push(data)
                {
                    this.exchange = None;
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                if !this.body.is_end_stream() {
                    return Poll::Ready(Some(Ok(frame)));
                }
                this.finish();
                this.last = Some(frame);
                ready!(this.poll_kept(context))?;
                Poll::Ready(this.last.take().map(Ok))
            }
            Some(Err(error)) => {
                this.break_off();
                Poll::Ready(Some(Err(error)))
            }
            None => {
                this.finish();
                ready!(this.poll_kept(context))?;
                Poll::Ready(None)
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
