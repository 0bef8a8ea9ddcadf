//! The code interpreter's protocol (port 49999).

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_actions::{Actions, Sandbox};
use http::{Request, StatusCode};

use crate::error;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: Arc<Sandbox>,
    _request: Request<Body>,
) -> Response {
    let Ok(_live) = actions.wake(&sandbox).await else {
        return error::sandbox_gone(sandbox.id().as_str());
    };
    StatusCode::NOT_FOUND.into_response()
}
