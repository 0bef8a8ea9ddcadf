//! What changes the state of a sandbox.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, PauseMode, ResumeMode};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::Made;
use crate::control::auth::{Called, Caller};
use crate::control::body::Body;
use crate::control::domain::Domain;
use crate::error::{self, RestError};

#[derive(Debug, Deserialize)]
pub(crate) struct Timeout {
    timeout: u64,
}

pub(crate) async fn set_timeout(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(body): Body<Timeout>,
) -> Result<StatusCode, RestError> {
    actions.set_timeout(&tenant, &id, Duration::from_secs(body.timeout))?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Refresh {
    duration: Option<u64>,
}

/// How long a refreshed sandbox lives at least, when nobody says.
const REFRESHED: Duration = Duration::from_secs(15);

pub(crate) async fn refresh(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(body): Body<Refresh>,
) -> Result<StatusCode, RestError> {
    let life = body.duration.map_or(REFRESHED, Duration::from_secs);
    actions.keep_alive(&tenant, &id, life)?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pause {
    memory: Option<bool>,
    require_healthy_guest: Option<bool>,
}

pub(crate) async fn pause(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(body): Body<Pause>,
) -> Result<StatusCode, RestError> {
    if body.require_healthy_guest == Some(true) {
        actions.require_healthy(&tenant, &id).await?;
    }
    let mode = match body.memory {
        Some(false) => PauseMode::Filesystem,
        Some(true) | None => PauseMode::Full,
    };
    actions.pause(&tenant, &id, mode).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Connect {
    timeout: Option<u64>,
    memory: Option<bool>,
}

impl Connect {
    async fn run(
        &self,
        actions: &Actions,
        Caller(tenant): &Caller,
        domain: &Domain,
        id: &str,
    ) -> Result<(bool, Json<Made>), RestError> {
        let mode = match self.memory {
            Some(false) => ResumeMode::Reboot,
            Some(true) | None => ResumeMode::Kept,
        };
        let life = self.timeout.map(Duration::from_secs);
        let connected = actions.connect(tenant, id, life, mode).await?;
        Ok((connected.resumed, Json(Made::new(domain, &connected.sandbox))))
    }
}

pub(crate) async fn connect(
    State(actions): State<Actions>,
    caller: Caller,
    domain: Domain,
    Path(id): Path<String>,
    Body(body): Body<Connect>,
) -> Result<Response, RestError> {
    let (resumed, made) = body.run(&actions, &caller, &domain, &id).await?;
    let status = if resumed { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, made).into_response())
}

/// As the first clients knew it; they read one status only.
pub(crate) async fn resume(
    State(actions): State<Actions>,
    caller: Caller,
    domain: Domain,
    Path(id): Path<String>,
    Body(body): Body<Connect>,
) -> Result<Response, RestError> {
    let (_, made) = body.run(&actions, &caller, &domain, &id).await?;
    Ok((StatusCode::CREATED, made).into_response())
}

#[derive(Debug, Deserialize)]
pub(crate) struct Fork {
    timeout: Option<u64>,
    count: Option<usize>,
}

/// One for each copy: the copy, or why there is none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Forked {
    Sandbox(Made),
    Error(error::Envelope),
}

pub(crate) async fn fork(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    domain: Domain,
    Path(id): Path<String>,
    Body(body): Body<Fork>,
) -> Result<Response, RestError> {
    let life = body.timeout.map(Duration::from_secs);
    let copies = actions.fork(&tenant, &id, body.count.unwrap_or(1), life, &ids).await?;
    let copies: Vec<_> = copies
        .iter()
        .map(|copy| match copy {
            Ok(sandbox) => Forked::Sandbox(Made::new(&domain, sandbox)),
            Err(problem) => Forked::Error(error::Envelope::new(problem)),
        })
        .collect();
    Ok((StatusCode::CREATED, Json(copies)).into_response())
}
