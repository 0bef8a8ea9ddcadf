//! `GET /v1/webhooks` and `GET /v1/webhooks/{webhook}`, and its messages

use axum::Json;
use belljar_api::webhook as api;

use super::{Hooks, delivery, failed, unknown, view};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

/// Messages of a list that names no limit.
const DEFAULT_LIMIT: u64 = 100;

pub(in crate::v1) async fn list(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
) -> Result<Json<api::WebhookList>, Failure> {
    let found = webhooks.list(tenant.as_str()).await.map_err(|error| failed(&error))?;
    let items = found.into_iter().map(|webhook| view(webhook, None)).collect();
    Ok(Json(api::WebhookList { items }))
}

pub(in crate::v1) async fn get(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
) -> Result<Json<api::Webhook>, Failure> {
    let found = webhooks.find(tenant.as_str(), &id).await.map_err(|error| failed(&error))?;
    Ok(Json(view(found.ok_or_else(unknown)?, None)))
}

pub(in crate::v1) async fn deliveries(
    Hooks(webhooks): Hooks,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::ListWebhookDeliveries>,
) -> Result<Json<api::WebhookDeliveryList>, Failure> {
    let limit = query.limit.map_or(DEFAULT_LIMIT, Into::into);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = webhooks.deliveries(tenant.as_str(), &id, limit).await;
    let found = found.map_err(|error| failed(&error))?.ok_or_else(unknown)?;
    Ok(Json(api::WebhookDeliveryList { items: found.into_iter().map(delivery).collect() }))
}
