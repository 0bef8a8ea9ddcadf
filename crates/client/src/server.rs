//! Whatever answers requests.

use std::fmt::Debug;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

use crate::error::Transport;

/// A body that comes, or goes, piece by piece.
pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Answers one request. Its URI is a path and a query: where the server is, and in
/// whose name it is asked, is the implementation's to know.
pub trait Server: Debug + Send + Sync {
    fn send(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Transport>>;
}
