//! `POST /v1/checkpoints/{checkpoint}/fork`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use belljar_api::checkpoint as api;
use belljar_api::sandbox::Sandbox;
use belljar_sandboxes::{Actions, Create};
use http::StatusCode;

use crate::v1::authenticate::{Called, Caller};
use crate::v1::failure::Failure;
use crate::v1::read::{At, Body};
use crate::v1::sandboxes;

pub(in crate::v1) async fn fork(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    At(id): At<String>,
    Body(wish): Body<api::ForkCheckpoint>,
) -> Result<(StatusCode, Json<Sandbox>), Failure> {
    // A template of the same name is not meant.
    let checkpoint = actions.find_snapshot(&tenant, &id)?;
    let wish = Create {
        template: checkpoint.id.clone(),
        timeout: wish.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get())),
        metadata: wish.metadata,
        env: wish.env,
        id: ids.into_iter().next(),
        ..Create::default()
    };
    let made = actions.create(&tenant, &wish).await?;
    Ok((StatusCode::CREATED, Json(sandboxes::view(&actions, &made))))
}
