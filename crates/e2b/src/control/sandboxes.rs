//! Sandboxes: create, list, show, kill.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_actions::{Actions, Create, Sandbox};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use super::auth::Caller;
use crate::ENVD_VERSION;
use crate::error::RestError;

#[derive(Debug, Deserialize)]
pub(crate) struct NewSandbox {
    #[serde(rename = "templateID")]
    template: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default, rename = "envVars")]
    env: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    #[serde(rename = "templateID")]
    template: String,
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(rename = "clientID")]
    client: String,
    envd_version: &'static str,
    envd_access_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
}

impl Shown {
    fn new(actions: &Actions, sandbox: &Sandbox) -> Self {
        Self {
            template: sandbox.facts().template.clone(),
            id: sandbox.id().to_string(),
            client: "belljar".to_owned(),
            envd_version: ENVD_VERSION,
            envd_access_token: sandbox.facts().token.expose().to_owned(),
            domain: actions.config().domain.clone(),
        }
    }
}

pub(crate) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Json(body): Json<NewSandbox>,
) -> Result<Response, RestError> {
    let wish = Create {
        template: body.template,
        timeout: body.timeout.map(Duration::from_secs),
        metadata: body.metadata,
        env: body.env,
        ..Create::default()
    };
    let sandbox = actions.create(&tenant, &wish).await?;
    Ok((StatusCode::CREATED, Json(Shown::new(&actions, &sandbox))).into_response())
}

pub(crate) async fn list(Caller(_): Caller) -> Json<Vec<Shown>> {
    Json(Vec::new())
}

pub(crate) async fn info(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Json<Shown>, RestError> {
    let sandbox = actions.registry().find(&tenant, &id)?;
    Ok(Json(Shown::new(&actions, &sandbox)))
}

pub(crate) async fn kill(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, RestError> {
    actions.kill(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
