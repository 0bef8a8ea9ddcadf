//! A server of this very process.

use std::fmt;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;

use crate::error::Transport;
use crate::server::{Body, Server};

/// Hands requests to a function. In whose name it answers is decided by whoever
/// made the function: nothing in a request says it.
pub struct Within<F>(F);

impl<F> Within<F> {
    pub fn new<A, B>(answer: F) -> Self
    where
        F: Fn(Request<Body>) -> A + Send + Sync,
        A: Future<Output = Response<B>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self(answer)
    }
}

impl<F> fmt::Debug for Within<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").finish_non_exhaustive()
    }
}

impl<F, A, B> Server for Within<F>
where
    F: Fn(Request<Body>) -> A + Send + Sync,
    A: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Transport>> {
        let answer = (self.0)(request);
        async { Ok(answer.await.map(|body| body.map_err(Into::into).boxed_unsync())) }.boxed()
    }
}
