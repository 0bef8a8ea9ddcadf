//! Bodies as they move through the gateway.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

/// What a handler answers.
pub(crate) type Answer = http::Response<AnswerBody>;
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Among the extensions of an answer that somebody else gave; ours have it not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromUpstream;

/// The body of a request.
#[derive(Debug, Default)]
pub(crate) enum Inner {
    #[default]
    Empty,
    Whole(Bytes),
    /// Anything else: what the client still sends, above all.
    Streamed(AnswerBody),
}

impl From<Bytes> for Inner {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::Empty } else { Self::Whole(bytes) }
    }
}

impl Body for Inner {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        match this {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Self::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Self::Streamed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(_) => false,
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}

/// A body that is there already.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> AnswerBody {
    let never = |error: Infallible| match error {};
    http_body_util::Full::new(bytes.into()).map_err(never).boxed_unsync()
}
