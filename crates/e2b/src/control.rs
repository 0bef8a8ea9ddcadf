//! The control plane: REST with JSON.
//!
//! Success codes are exact: the Python SDK reads the body of no other. Errors
//! have one envelope, also those of paths and methods that do not exist.

mod auth;
mod body;
mod domain;
mod logs;
mod metrics;
mod query;
mod sandboxes;
mod secrets;
mod snapshots;
mod templates;
mod volumes;

use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use belljar_sandboxes::{Actions, Page, Problem};
use http::{HeaderValue, Method, Uri};
use serde::Serialize;

pub(crate) use body::Body;
pub(crate) use query::Query;

use crate::error::RestError;

/// Every route, in one place.
pub(crate) fn router(actions: Actions) -> Router {
    Router::new()
        .route("/sandboxes", post(sandboxes::create_v1).get(sandboxes::list_v1))
        .route("/v2/sandboxes", post(sandboxes::create).get(sandboxes::list))
        .route("/sandboxes/metrics", get(metrics::of_several))
        .route("/sandboxes/{id}", delete(sandboxes::kill).get(sandboxes::info))
        .route("/sandboxes/{id}/timeout", post(sandboxes::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(sandboxes::refresh))
        .route("/sandboxes/{id}/pause", post(sandboxes::pause))
        .route("/sandboxes/{id}/resume", post(sandboxes::resume))
        .route("/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/v2/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/sandboxes/{id}/fork", post(sandboxes::fork))
        .route("/sandboxes/{id}/network", put(sandboxes::update_network))
        .route("/sandboxes/{id}/metrics", get(metrics::of_one))
        .route("/sandboxes/{id}/logs", get(logs::first))
        .route("/v2/sandboxes/{id}/logs", get(logs::second))
        .route("/sandboxes/{id}/snapshots", post(snapshots::create))
        .route("/snapshots", get(snapshots::list))
        .route("/v3/templates", post(templates::request))
        .route("/v2/templates", get(templates::list))
        .route("/templates", get(templates::list))
        .route("/templates/tags", post(templates::assign).delete(templates::remove_tags))
        .route("/templates/aliases/{name}", get(templates::alias))
        .route("/templates/{id}", get(templates::info).delete(templates::delete))
        .route("/templates/{id}/tags", get(templates::list_tags))
        .route("/templates/{id}/files/{hash}", get(templates::slot))
        .route("/template-files/{token}", put(templates::receive))
        .route("/v2/templates/{id}/builds/{build}", post(templates::start))
        .route("/templates/{id}/builds/{build}/status", get(templates::status))
        .route("/templates/{id}/builds/{build}/logs", get(templates::logs))
        .route("/volumes", post(volumes::create).get(volumes::list))
        .route("/volumes/{id}", get(volumes::info).delete(volumes::delete))
        .route("/secrets", post(secrets::create).get(secrets::list))
        .route("/secrets/{name}", get(secrets::info).post(secrets::update).delete(secrets::delete))
        .route("/health", get(|| async { http::StatusCode::NO_CONTENT }))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .with_state(actions)
}

async fn no_such_route(method: Method, uri: Uri) -> RestError {
    RestError(Problem::no_route(method.as_str(), uri.path()))
}

/// One page of a list; where the next begins stands in a header.
fn paged<T, U: Serialize>(page: Page<T>, show: impl FnMut(T) -> U) -> Response {
    let items: Vec<U> = page.items.into_iter().map(show).collect();
    let mut response = Json(items).into_response();
    response.extensions_mut().insert(page.keys);
    if let Some(token) = page.next.and_then(|next| HeaderValue::try_from(next).ok()) {
        response.headers_mut().insert("x-next-token", token);
    }
    response
}

/// What work on another thread came to.
pub(crate) fn joined<T>(
    done: Result<Result<T, Problem>, tokio::task::JoinError>,
) -> Result<T, Problem> {
    done.unwrap_or_else(|error| Err(Problem::internal("finish a request", &error)))
}
