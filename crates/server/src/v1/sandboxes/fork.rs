//! `POST /v1/sandboxes/{sandbox}/fork`

use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use belljar_api::sandbox as api;
use belljar_sandboxes::Actions;
use http::StatusCode;

use super::view;
use crate::v1::authenticate::{Called, Caller};
use crate::v1::failure::{Failure, envelope};
use crate::v1::label::RequestId;
use crate::v1::read::{At, Body};

pub(in crate::v1) async fn fork(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    Extension(request): Extension<RequestId>,
    At(id): At<String>,
    Body(wish): Body<api::ForkSandbox>,
) -> Result<(StatusCode, Json<api::Forks>), Failure> {
    let count = wish.count.map_or(1, |count| usize::try_from(count.get()).unwrap_or(usize::MAX));
    let life = wish.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get()));
    let copies = actions.fork(&tenant, &id, count, life, &ids).await?;
    let items = copies.into_iter().map(|copy| match copy {
        Ok(sandbox) => api::Fork::Sandbox(view(&actions, &sandbox)),
        Err(problem) => api::Fork::Problem(envelope(problem, &request.0)),
    });
    Ok((StatusCode::CREATED, Json(api::Forks { items: items.collect() })))
}
