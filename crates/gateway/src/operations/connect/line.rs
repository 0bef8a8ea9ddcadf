//! One connection of HTTP/1 to an upstream, and an answer that comes on it.
//!
//! Nobody drives the connection but whoever waits for its answer, in the same
//! task: a piece of an answer is read, searched and written to the client without
//! another task, and often another core, being woken for each step.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{Request, Response, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;

use super::Pool;
use super::wire::Wire;
use crate::body::Inner;

/// Pieces that are there at the same time are one piece of up to about this size:
/// what is done with each then happens once. Nothing is waited for.
const MOST_AT_ONCE: usize = 32 << 10;
/// As many fields as are read of a request.
const MOST_FIELDS: usize = 128;

type Driver = Pin<Box<http1::Connection<Wire, Inner>>>;

/// A connection on which one request at a time is asked.
pub(super) struct Line {
    sender: http1::SendRequest<Inner>,
    driver: Driver,
    pub(super) peer: SocketAddr,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The server had closed the connection; nothing of the request was sent.
    Unsent(Box<Request<Inner>>),
    Failed(hyper::Error),
}

impl Line {
    pub(super) async fn new(wire: Wire) -> hyper::Result<Self> {
        let peer = wire.peer();
        let mut builder = http1::Builder::new();
        let (sender, driver) = builder.max_headers(MOST_FIELDS).handshake(wire).await?;
        Ok(Self { sender, driver: Box::pin(driver), peer })
    }

    /// Whether it can be asked again, as far as can be told now. What the server
    /// did since the last time is seen here.
    pub(super) fn poll_usable(&mut self, context: &mut Context<'_>) -> bool {
        let is_open = self.driver.as_mut().poll(context).is_pending();
        is_open && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(())))
    }

    pub(super) async fn ask(
        self,
        mut request: Request<Inner>,
    ) -> Result<(Response<Incoming>, Option<Self>), Unanswered> {
        let Self { mut sender, driver, peer } = self;
        let uri = request.uri().clone();
        *request.version_mut() = Version::HTTP_11;
        if let Some(path) = uri.path_and_query().cloned() {
            *request.uri_mut() = Uri::from(path);
        }
        let mut driver = Some(driver);
        let answered = {
            let mut answering = pin!(sender.try_send_request(request));
            std::future::poll_fn(|context| {
                if let Poll::Ready(answered) = answering.as_mut().poll(context) {
                    return Poll::Ready(answered);
                }
                // One that has ended is let go, so that its waiters hear of it.
                if let Some(running) = &mut driver
                    && running.as_mut().poll(context).is_ready()
                {
                    driver = None;
                }
                answering.as_mut().poll(context)
            })
            .await
        };
        match answered {
            Ok(answer) => Ok((answer, driver.map(|driver| Self { sender, driver, peer }))),
            Err(mut error) => Err(match error.take_message() {
                Some(mut unsent) => {
                    *unsent.uri_mut() = uri;
                    Unanswered::Unsent(Box::new(unsent))
                }
                None => Unanswered::Failed(error.into_error()),
            }),
        }
    }
}

/// The body of an answer. Its connection is kept once it was read to its end, and
/// closed when it is dropped before.
pub(crate) struct Reply {
    incoming: Incoming,
    line: Option<(Line, Pool)>,
    /// What came after the last piece and was no piece.
    next: Option<Polled>,
}

type Polled = Option<hyper::Result<Frame<Bytes>>>;

impl Reply {
    /// `line` is none where somebody else drives the connection.
    pub(super) fn new(incoming: Incoming, line: Option<(Line, Pool)>) -> Self {
        Self { incoming, line, next: None }
    }

    fn poll_incoming(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        let frame = ready!(self.poll_driven(context));
        // Whoever knows the length may not ask again after the last byte.
        if frame.is_none() || self.incoming.is_end_stream() {
            self.keep(context);
        }
        Poll::Ready(frame)
    }

    fn poll_driven(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            return Poll::Ready(frame);
        }
        let Some((line, _)) = &mut self.line else { return Poll::Pending };
        if line.driver.as_mut().poll(context).is_ready() {
            self.line = None;
        }
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    /// `first`, with whatever else is there.
    fn gather(&mut self, first: Bytes, context: &mut Context<'_>) -> Bytes {
        let mut whole = BytesMut::new();
        while first.len().max(whole.len()) < MOST_AT_ONCE && !self.incoming.is_end_stream() {
            let Poll::Ready(frame) = self.poll_incoming(context) else { break };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(more))) => {
                    if whole.is_empty() {
                        whole.extend_from_slice(&first);
                    }
                    whole.extend_from_slice(&more);
                }
                Some(Ok(Err(other))) => {
                    self.next = Some(Some(Ok(other)));
                    break;
                }
                Some(Err(error)) => {
                    self.next = Some(Some(Err(error)));
                    break;
                }
                None => {
                    self.next = Some(None);
                    break;
                }
            }
        }
        if whole.is_empty() { first } else { whole.freeze() }
    }

    fn keep(&mut self, context: &mut Context<'_>) {
        if let Some((mut line, pool)) = self.line.take()
            && line.poll_usable(context)
        {
            pool.keep(line);
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Polled> {
        let this = self.get_mut();
        if let Some(next) = this.next.take() {
            return Poll::Ready(next);
        }
        let frame = ready!(this.poll_incoming(context));
        Poll::Ready(match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(first))) => Some(Ok(Frame::data(this.gather(first, context)))),
            Some(Ok(Err(other))) => Some(Ok(other)),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.next {
            Some(next) => next.is_none(),
            None => self.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("peer", &self.peer).finish_non_exhaustive()
    }
}
