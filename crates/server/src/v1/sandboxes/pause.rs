//! `POST /v1/sandboxes/{sandbox}/pause`

use axum::Json;
use axum::extract::State;
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, PauseMode};

use super::view;
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn pause(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Body(wish): Body<api::PauseSandbox>,
) -> Result<Json<api::Sandbox>, Failure> {
    let sandbox = actions.registry().find(&tenant, &id)?;
    let mode = match wish.keep {
        api::Keep::Memory => PauseMode::Full,
        api::Keep::Files => PauseMode::Filesystem,
    };
    actions.pause(&tenant, &id, mode).await?;
    Ok(Json(view(&actions, &sandbox)))
}
