//! `POST /v1/sandboxes/{sandbox}/resume`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, ResumeMode};

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn resume(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::ResumeSandbox>,
) -> Result<Json<api::Sandbox>, Failure> {
    let life = wish.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get()));
    let connected = actions.connect(&tenant, &id, life, ResumeMode::Kept).await?;
    Ok(Json(view(&actions, &connected.sandbox)))
}
