//! Webhooks.

mod change;
mod create;
mod look;

use axum::extract::FromRequestParts;
use belljar_api::webhook as api;
use belljar_sandboxes::{Kind, Problem};
use belljar_webhooks::{DeliveryRecord, Secret, ShelfError, Webhook, Webhooks};
use http::StatusCode;
use http::request::Parts;

use super::failure::Failure;
use super::runs::moment;

pub(super) use change::{delete, enable, rotate, test};
pub(super) use create::create;
pub(super) use look::{deliveries, get, list};

/// The webhooks that this process offers, if any; beside every request.
#[derive(Debug, Clone)]
pub(super) struct OfferedWebhooks(pub(super) Option<Webhooks>);

/// The webhooks that a request is about.
#[derive(Debug)]
pub(super) struct Hooks(pub(super) Webhooks);

impl<S: Sync> FromRequestParts<S> for Hooks {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let offered = parts.extensions.get::<OfferedWebhooks>();
        offered.and_then(|offered| offered.0.clone()).map(Self).ok_or_else(|| {
            let message = "this server does not offer webhooks";
            Failure::new(StatusCode::NOT_FOUND, "webhooks_not_offered", message)
        })
    }
}

/// The same for a webhook of another tenant.
fn unknown() -> Failure {
    let message = "the webhook does not exist or you don't have access to it";
    Problem::new(Kind::NotFound, "webhook_not_found", message).into()
}

fn failed(error: &ShelfError) -> Failure {
    tracing::error!(error = error as &dyn std::error::Error, "webhook store request failed");
    Problem::new(Kind::Busy, "webhooks_unavailable", "the store of webhooks is unavailable").into()
}

/// A webhook, with its secret where that is new.
fn view(webhook: Webhook, secret: Option<&Secret>) -> api::Webhook {
    let Webhook { id, tenant: _, url, kinds, made_at, failing_since, disabled } = webhook;
    api::Webhook {
        id,
        url,
        kinds: kinds.iter().map(ToString::to_string).collect(),
        made_at: moment(made_at),
        secret: secret.map(Secret::expose),
        failing_since: failing_since.map(moment),
        disabled: disabled.map(|reason| reason.as_str().to_owned()),
    }
}

fn delivery(record: DeliveryRecord) -> api::WebhookDelivery {
    api::WebhookDelivery {
        message: record.message,
        kind: record.kind.to_string(),
        state: record.state.as_str().to_owned(),
        attempts: record.attempts,
        made_at: moment(record.made_at),
        next_at: record.next_at.map(moment),
        status: record.status,
        error: record.error,
    }
}
