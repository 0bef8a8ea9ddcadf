//! `POST /v1/webhooks`

use axum::Json;
use belljar_api::webhook as api;
use belljar_sandboxes::{Kind, Problem};
use belljar_webhooks::{CreateError, EventKind};
use http::StatusCode;

use super::{Hooks, failed, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::Body;

pub(in crate::v1) async fn create(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    Body(wanted): Body<api::CreateWebhook>,
) -> Result<(StatusCode, Json<api::Webhook>), Failure> {
    let kinds = wanted.kinds.into_iter().map(kind).collect();
    let made = webhooks.create(tenant.as_str(), wanted.url.as_str(), kinds).await;
    let (made, secret) = made.map_err(|error| refused(&error))?;
    Ok((StatusCode::CREATED, Json(view(made, Some(&secret)))))
}

fn kind(kind: api::WebhookKind) -> EventKind {
    match kind {
        api::WebhookKind::SandboxCreated => EventKind::SandboxCreated,
        api::WebhookKind::SandboxPaused => EventKind::SandboxPaused,
        api::WebhookKind::SandboxResumed => EventKind::SandboxResumed,
        api::WebhookKind::SandboxEnded => EventKind::SandboxEnded,
        api::WebhookKind::RunCreated => EventKind::RunCreated,
        api::WebhookKind::RunPaused => EventKind::RunPaused,
        api::WebhookKind::RunWaiting => EventKind::RunWaiting,
        api::WebhookKind::RunResumed => EventKind::RunResumed,
        api::WebhookKind::RunEnded => EventKind::RunEnded,
    }
}

fn refused(error: &CreateError) -> Failure {
    let message = error.to_string();
    match error {
        CreateError::Target(_) => Problem::new(Kind::Invalid, "webhook_url_refused", message)
            .hint("use an https URL with a public address; operators open ranges with --webhook-allow")
            .into(),
        CreateError::Kinds => Problem::new(Kind::Invalid, "webhook_kinds", message).into(),
        CreateError::TooMany => Problem::new(Kind::TooMany, "too_many_webhooks", message)
            .hint("delete one: DELETE /v1/webhooks/…")
            .into(),
        CreateError::Shelf(error) => failed(error),
    }
}
