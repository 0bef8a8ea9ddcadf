//! The server itself.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Html, IntoResponse};
use axum::{Extension, Json};
use belljar_actions::Actions;
use belljar_api::service::{Health, Status};
use http::header;

use super::failure::Failure;

/// What does not change while the server runs.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    document: Arc<str>,
    page: Arc<str>,
}

impl Texts {
    pub(super) fn make() -> Self {
        let document = belljar_api::document().to_string();
        Self { document: document.into(), page: belljar_api::page().into() }
    }
}

fn well() -> Json<Health> {
    Json(Health { status: Status::Ok, version: env!("CARGO_PKG_VERSION").to_owned() })
}

pub(super) async fn health() -> Json<Health> {
    well()
}

pub(super) async fn ready(State(actions): State<Actions>) -> Result<Json<Health>, Failure> {
    actions.refuse_unless_ready()?;
    Ok(well())
}

pub(super) async fn document(Extension(texts): Extension<Texts>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], texts.document.to_string())
}

pub(super) async fn reference(Extension(texts): Extension<Texts>) -> impl IntoResponse {
    // Nothing is loaded from anywhere, so that nothing may be.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(texts.page.to_string()))
}
