//! Traffic to servers inside a sandbox.

use axum::body::Body;
use axum::response::Response;
use belljar_actions::{Actions, Sandbox};
use http::Request;
use std::sync::Arc;

use crate::error;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: &Arc<Sandbox>,
    port: u16,
    _request: Request<Body>,
) -> Response {
    if actions.wake(sandbox).await.is_err() {
        return error::sandbox_gone(sandbox.id().as_str());
    }
    error::port_closed(sandbox.id().as_str(), port)
}
