//! Secrets: everything but their values.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Moment, Secret, SecretInfo};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use super::body::Body;
use super::paged;
use super::query::Query;
use crate::error::RestError;

#[derive(Debug, Deserialize)]
pub(crate) struct NewSecret {
    name: String,
    value: Secret,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NewValue {
    value: Secret,
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    #[serde(rename = "secretID")]
    id: String,
    name: String,
    current_version: u64,
    metadata: BTreeMap<String, String>,
    created_at: Moment,
    updated_at: Moment,
}

impl From<SecretInfo> for Shown {
    fn from(info: SecretInfo) -> Self {
        Self {
            id: info.id,
            name: info.name,
            current_version: info.version,
            metadata: info.metadata,
            created_at: info.created_at,
            updated_at: info.updated_at,
        }
    }
}

pub(crate) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Body(body): Body<NewSecret>,
) -> Result<Response, RestError> {
    let metadata = body.metadata.unwrap_or_default();
    let made = actions.create_secret(&tenant, &body.name, body.value, metadata)?;
    Ok((StatusCode::CREATED, Json(Shown::from(made))).into_response())
}

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    query: Query,
) -> Result<Response, RestError> {
    let page = actions.list_secrets(&tenant, query.limit()?, query.get("nextToken"))?;
    Ok(paged(page, Shown::from))
}

pub(crate) async fn info(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(name): Path<String>,
) -> Result<Json<Shown>, RestError> {
    Ok(Json(actions.secret(&tenant, &name)?.into()))
}

pub(crate) async fn update(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(name): Path<String>,
    Body(body): Body<NewValue>,
) -> Result<Json<Shown>, RestError> {
    Ok(Json(actions.update_secret(&tenant, &name, body.value, body.metadata)?.into()))
}

pub(crate) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, RestError> {
    actions.delete_secret(&tenant, &name)?;
    Ok(StatusCode::NO_CONTENT)
}
