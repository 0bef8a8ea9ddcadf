//! Snapshots of sandboxes.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, PauseMode, Snapshot};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use super::body::Body;
use super::paged;
use super::query::Query;
use crate::error::RestError;

#[derive(Debug, Deserialize)]
pub(crate) struct NewSnapshot {
    name: Option<String>,
    memory: Option<bool>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    #[serde(rename = "snapshotID")]
    id: String,
    names: Vec<String>,
}

impl Shown {
    fn new(snapshot: &Snapshot) -> Self {
        Self { id: snapshot.id.clone(), names: snapshot.name.iter().cloned().collect() }
    }
}

pub(crate) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(body): Body<NewSnapshot>,
) -> Result<Response, RestError> {
    let mode = match body.memory {
        Some(false) => PauseMode::Filesystem,
        Some(true) | None => PauseMode::Full,
    };
    let snapshot = actions.snapshot(&tenant, &id, body.name.as_deref(), mode).await?;
    Ok((StatusCode::CREATED, Json(Shown::new(&snapshot))).into_response())
}

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    query: Query,
) -> Result<Response, RestError> {
    let (sandbox, name) = (query.get("sandboxID"), query.get("name"));
    let (limit, after) = (query.limit()?, query.get("nextToken"));
    let page = actions.list_snapshots(&tenant, sandbox, name, limit, after)?;
    Ok(paged(page, |snapshot| Shown::new(&snapshot)))
}
