//! `POST /v1/sandboxes`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use belljar_api::sandbox as api;
use belljar_sandboxes::{Actions, Create, Digest, InvalidDigest, OnTimeout, PauseMode, Problem};
use http::{HeaderMap, StatusCode};

use super::view;
use crate::v1::authenticate::{Called, Caller, Capped};
use crate::v1::failure::Failure;
use crate::v1::network;
use crate::v1::once::idempotency_key;
use crate::v1::read::Body;

pub(in crate::v1) async fn create(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Called(ids): Called,
    Capped(caps): Capped,
    headers: HeaderMap,
    Body(wish): Body<api::CreateSandbox>,
) -> Result<(StatusCode, Json<api::Sandbox>), Failure> {
    let repeated = idempotency_key(&headers)?;
    let mut wish = translate(wish)?;
    wish.id = ids.into_iter().next();
    actions.allow_operations(&caps, &wish.operations)?;
    let made = match repeated {
        Some(key) => actions.create_once(&tenant, key, &wish).await?,
        None => actions.create(&tenant, &wish).await?,
    };
    Ok((StatusCode::CREATED, Json(view(&actions, &made))))
}

fn translate(wish: api::CreateSandbox) -> Result<Create, Problem> {
    Ok(Create {
        template: wish.template.as_str().to_owned(),
        timeout: wish.timeout_seconds.map(|seconds| Duration::from_secs(seconds.get())),
        metadata: wish.metadata,
        env: wish.env,
        on_timeout: match wish.on_timeout {
            api::OnTimeout::Kill => OnTimeout::Kill,
            api::OnTimeout::Pause => OnTimeout::Pause(PauseMode::Full),
            api::OnTimeout::PauseFiles => OnTimeout::Pause(PauseMode::Filesystem),
        },
        auto_resume: wish.auto_resume,
        private_traffic: wish.private_traffic,
        tier: wish.tier.map(Into::into),
        profile: wish.profile.map(Into::into),
        limits: wish.limits.into(),
        network: wish.network.as_ref().map(network::wish).transpose()?,
        operations: wish.operations.into_iter().map(String::from).collect(),
        data: wish.data.into_iter().map(shown).collect::<Result<_, _>>()?,
        ..Create::default()
    })
}

fn shown(dataset: api::ShownDataset) -> Result<(String, Digest), Problem> {
    let digest = dataset.sha256.as_str().parse();
    let digest = digest.map_err(|error: InvalidDigest| Problem::invalid(error.to_string()))?;
    Ok((dataset.name.into(), digest))
}
