//! Tags: names for builds.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Moment};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::control::Body;
use crate::control::auth::Caller;
use crate::error::RestError;

#[derive(Debug, Deserialize)]
pub(crate) struct Assignment {
    /// `name:tag` of a build.
    target: String,
    tags: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Assigned {
    tags: Vec<String>,
    #[serde(rename = "buildID")]
    build: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Removal {
    name: String,
    tags: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownTag {
    tag: String,
    #[serde(rename = "buildID")]
    build: String,
    created_at: Moment,
}

pub(crate) async fn assign(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Body(body): Body<Assignment>,
) -> Result<Response, RestError> {
    let (build, tags) = actions.assign_tags(&tenant, &body.target, &body.tags).await?;
    Ok((StatusCode::CREATED, Json(Assigned { tags, build })).into_response())
}

pub(crate) async fn remove(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Body(body): Body<Removal>,
) -> Result<StatusCode, RestError> {
    actions.remove_tags(&tenant, &body.name, &body.tags).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn list(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Json<Vec<ShownTag>>, RestError> {
    let record = actions.own_template(&tenant, &id).await?;
    let shown = record.tags.into_iter().map(|(tag, to)| ShownTag {
        tag,
        build: to.build,
        created_at: to.at,
    });
    Ok(Json(shown.collect()))
}
