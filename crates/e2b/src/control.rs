//! The control plane: REST with JSON.
//!
//! Success codes are exact: the Python SDK reads the body of no other.

mod auth;
mod sandboxes;

use axum::Router;
use axum::routing::{delete, get, post};
use belljar_actions::Actions;

/// Every route, in one place.
pub(crate) fn router(actions: Actions) -> Router {
    Router::new()
        .route("/sandboxes", post(sandboxes::create).get(sandboxes::list))
        .route("/v2/sandboxes", post(sandboxes::create).get(sandboxes::list))
        .route("/sandboxes/{id}", delete(sandboxes::kill).get(sandboxes::info))
        .route("/health", get(|| async { http::StatusCode::NO_CONTENT }))
        .with_state(actions)
}
