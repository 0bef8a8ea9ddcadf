//! `POST /v1/sandboxes/{sandbox}/checkpoints`

use axum::Json;
use axum::extract::State;
use belljar_api::checkpoint as api;
use belljar_api::sandbox::Keep;
use belljar_sandboxes::{Actions, PauseMode};
use http::StatusCode;

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::CreateCheckpoint>,
) -> Result<(StatusCode, Json<api::Checkpoint>), Failure> {
    let mode = match wish.keep {
        Keep::Memory => PauseMode::Full,
        Keep::Files => PauseMode::Filesystem,
    };
    let name = wish.name.as_ref().map(|name| name.as_str());
    let made = actions.snapshot(&tenant, &id, name, mode).await?;
    Ok((StatusCode::CREATED, Json(view(&made))))
}
