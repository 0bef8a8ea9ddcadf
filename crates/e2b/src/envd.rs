//! The agent's protocol (port 49983): processes, files, watchers.

pub(crate) mod signature;

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_actions::{Actions, Sandbox};
use http::{Method, Request, StatusCode};

use crate::error;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: Arc<Sandbox>,
    request: Request<Body>,
) -> Response {
    let Ok(_live) = actions.wake(&sandbox).await else {
        return error::sandbox_gone(sandbox.id().as_str());
    };
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => StatusCode::NO_CONTENT.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}
