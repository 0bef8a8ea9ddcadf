//! Gives every request an id, which the answer and the log bear.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Json, response::IntoResponse};
use belljar_telemetry::Route;
use http::{HeaderName, HeaderValue, header};
use tracing::Span;

use super::failure::Failure;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id of the request that is being answered.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub(super) String);

impl RequestId {
    /// The server's own, whatever the client sent: it ends up in logs.
    fn next() -> Self {
        static RUN: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("req_{:08x}{number:08x}", *RUN >> 32))
    }
}

pub(super) async fn label(mut request: Request, next: Next) -> Response {
    let id = RequestId::next();
    Span::current().record("request_id", id.0.as_str());
    let route = request.extensions().get::<MatchedPath>().cloned();
    if let Some(pattern) = &route {
        belljar_telemetry::name_sandbox(pattern.as_str(), request.uri().path());
    }
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(Route(route.as_str().to_owned().into()));
    }
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = with_body(response, failure, &id.0);
    }
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The problem as JSON, with the status and the headers that it had.
fn with_body(response: Response, failure: Failure, id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    let (body, new) = {
        let (new, body) = Json(failure.envelope(id)).into_response().into_parts();
        (body, new)
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(new.headers);
    Response::from_parts(parts, body)
}
