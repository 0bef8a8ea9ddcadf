//! Webhooks: URLs that are called when something happens to sandboxes and runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Number, Text};

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WebhookKind {
    #[serde(rename = "sandbox.created")]
    SandboxCreated,
    #[serde(rename = "sandbox.paused")]
    SandboxPaused,
    #[serde(rename = "sandbox.resumed")]
    SandboxResumed,
    #[serde(rename = "sandbox.ended")]
    SandboxEnded,
    #[serde(rename = "run.created")]
    RunCreated,
    #[serde(rename = "run.paused")]
    RunPaused,
    /// The run asked a question and waits for an answer.
    #[serde(rename = "run.waiting")]
    RunWaiting,
    #[serde(rename = "run.resumed")]
    RunResumed,
    #[serde(rename = "run.ended")]
    RunEnded,
}

/// A new webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateWebhook {
    /// An https URL with a public address.
    pub url: Text<1, 2048>,
    /// The kinds of events that it is called for. At least one.
    pub kinds: Vec<WebhookKind>,
}

/// A webhook.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    pub id: String,
    pub url: String,
    pub kinds: Vec<String>,
    pub made_at: DateTime,
    /// The key of the signatures: `whsec_` and Base64. Present only in the response to a creation
    /// or a rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The first failed attempt since the last one that succeeded. Absent if the last attempt
    /// succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<DateTime>,
    /// The reason that the webhook is not called any more: `failing`, `gone` or `queue_full`.
    /// Absent while it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<String>,
}

/// All your webhooks, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebhookList {
    pub items: Vec<Webhook>,
}

/// A message to a webhook, and its attempts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebhookDelivery {
    /// The message's id, as in the header `webhook-id`.
    pub message: String,
    /// The kind of the event, or `webhook.test`.
    pub kind: String,
    /// `waiting`, `delivered` or `failed`.
    pub state: String,
    /// Attempts so far.
    pub attempts: u32,
    pub made_at: DateTime,
    /// The earliest time of the next attempt, while it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<DateTime>,
    /// The status of the last response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Messages to a webhook, newest first. Those that ended are kept for three days.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WebhookDeliveryList {
    pub items: Vec<WebhookDelivery>,
}

/// The length of a list of messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListWebhookDeliveries {
    /// Maximum number of messages. Default: 100.
    #[serde(default)]
    pub limit: Option<Number<1, 1000>>,
}
