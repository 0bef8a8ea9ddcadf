//! `DELETE /v1/webhooks/{webhook}` and `POST /v1/webhooks/{webhook}/…`

use axum::Json;
use belljar_api::webhook as api;
use belljar_sandboxes::{Kind, Problem};
use belljar_webhooks::{MAX_QUEUE, QueueOutcome};
use http::StatusCode;

use super::{Hooks, delivery, failed, unknown, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn delete(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<StatusCode, Failure> {
    let removed = webhooks.remove(tenant.as_str(), &id).await.map_err(|error| failed(&error))?;
    if removed { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

pub(in crate::v1) async fn test(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<(StatusCode, Json<api::WebhookDelivery>), Failure> {
    let queued = webhooks.test(tenant.as_str(), &id).await.map_err(|error| failed(&error))?;
    match queued {
        QueueOutcome::Queued(record) => Ok((StatusCode::ACCEPTED, Json(delivery(record)))),
        QueueOutcome::NoWebhook => Err(unknown()),
        QueueOutcome::Disabled => {
            Err(Problem::new(Kind::Conflict, "webhook_disabled", "the webhook is disabled")
                .hint("enable it: POST /v1/webhooks/…/enable")
                .into())
        }
        QueueOutcome::Full => {
            let message = format!("{MAX_QUEUE} messages wait for the webhook, the maximum");
            Err(Problem::new(Kind::TooMany, "webhook_queue_full", message).into())
        }
    }
}

pub(in crate::v1) async fn rotate(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Webhook>, Failure> {
    let found = webhooks.rotate(tenant.as_str(), &id).await.map_err(|error| failed(&error))?;
    let (webhook, secret) = found.ok_or_else(unknown)?;
    Ok(Json(view(webhook, Some(&secret))))
}

pub(in crate::v1) async fn enable(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Webhook>, Failure> {
    let found = webhooks.enable(tenant.as_str(), &id).await.map_err(|error| failed(&error))?;
    Ok(Json(view(found.ok_or_else(unknown)?, None)))
}
