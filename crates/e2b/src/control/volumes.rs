//! Volumes: which there are. Their content is in [`crate::volumes`].

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Volume};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use super::body::Body;
use crate::error::RestError;

#[derive(Debug, Deserialize)]
pub(crate) struct NewVolume {
    name: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    #[serde(rename = "volumeID")]
    id: String,
    name: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    #[serde(flatten)]
    listed: Listed,
    token: String,
}

impl From<&Volume> for Listed {
    fn from(volume: &Volume) -> Self {
        Self { id: volume.id().to_owned(), name: volume.name().to_owned() }
    }
}

impl From<&Volume> for Shown {
    fn from(volume: &Volume) -> Self {
        Self { listed: volume.into(), token: volume.token().expose().to_owned() }
    }
}

pub(crate) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Body(body): Body<NewVolume>,
) -> Result<Response, RestError> {
    let made = actions.create_volume(&tenant, &body.name)?;
    Ok((StatusCode::CREATED, Json(Shown::from(&*made))).into_response())
}

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
) -> Json<Vec<Listed>> {
    let own = actions.list_volumes(&tenant);
    Json(own.iter().map(|volume| Listed::from(&**volume)).collect())
}

pub(crate) async fn info(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Json<Shown>, RestError> {
    Ok(Json(Shown::from(&*actions.volume(&tenant, &id)?)))
}

pub(crate) async fn delete(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, RestError> {
    let done = tokio::task::spawn_blocking(move || actions.delete_volume(&tenant, &id)).await;
    super::joined(done)?;
    Ok(StatusCode::NO_CONTENT)
}
