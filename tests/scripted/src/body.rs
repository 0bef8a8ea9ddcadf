//! Bodies of answers, step by step: bytes, silence, and ways to go wrong.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Bytes),
    Wait(Duration),
    /// Nothing more, and no end.
    Stall,
    /// The same bytes without end.
    Forever(Bytes),
    /// The connection breaks.
    Cut,
}

/// Steps are shared, so an answer that is prepared once is sent without a copy.
#[derive(Debug)]
pub(crate) struct Steps {
    steps: Arc<[Step]>,
    next: usize,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Steps {
    pub(crate) fn new(steps: Arc<[Step]>) -> Self {
        Self { steps, next: 0, waiting: None }
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(Arc::new([Step::Send(bytes.into())]))
    }

    pub(crate) fn empty() -> Self {
        Self::new(Arc::new([]))
    }
}

impl Body for Steps {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(sleep) = &mut this.waiting {
                if sleep.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                this.waiting = None;
                this.next += 1;
            }
            return match this.steps.get(this.next) {
                None => Poll::Ready(None),
                Some(Step::Send(bytes)) => {
                    this.next += 1;
                    Poll::Ready(Some(Ok(Frame::data(bytes.clone()))))
                }
                Some(Step::Wait(time)) => {
                    this.waiting = Some(Box::pin(tokio::time::sleep(*time)));
                    continue;
                }
                // The connection's own task ends with the connection.
                Some(Step::Stall) => Poll::Pending,
                Some(Step::Forever(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes.clone())))),
                Some(Step::Cut) => {
                    Poll::Ready(Some(Err(io::Error::other("cut, as the script says"))))
                }
            };
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.steps.len()
    }

    fn size_hint(&self) -> SizeHint {
        match &*self.steps {
            [] => SizeHint::with_exact(0),
            [Step::Send(bytes)] if self.next == 0 => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
