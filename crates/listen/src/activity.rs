//! Requests of one connection that are under way.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::watch;

/// Counts the requests of one connection; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Activity(watch::Sender<usize>);

impl Activity {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(crate) fn begin(&self) -> Running {
        self.0.send_modify(|running| *running += 1);
        Running(self.0.clone())
    }

    /// Resolves when there has been no request for so long.
    pub(crate) async fn idle(&self, patience: Duration) {
        let mut running = self.0.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = running.wait_for(|running| *running == 0).await.is_ok();
            if tokio::time::timeout(patience, running.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// A request, until its answer was sent to the end or dropped.
#[derive(Debug)]
pub(crate) struct Running(watch::Sender<usize>);

impl Running {
    /// Counts the request for as long as its answer has a body to send.
    pub(crate) fn until_sent(self, response: Response) -> Response {
        if response.body().is_end_stream() {
            return response;
        }
        response.map(|body| Body::new(Counted { body, _running: self }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

struct Counted {
    body: Body,
    _running: Running,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
