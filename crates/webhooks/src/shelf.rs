//! The contract of the places where webhooks and their messages are kept.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::event::{EventKind, Message};
use crate::sign::Secret;

/// Webhooks of one tenant.
pub const MAX_WEBHOOKS: usize = 20;
/// Messages that wait for one webhook. So many disable it: `queue_full`.
pub const MAX_QUEUE: usize = 10_000;
/// Messages that one step of [`Shelf::sweep`] ends.
pub const SWEEP_STEP: usize = 1000;
/// The error of a message that ended because its webhook is disabled.
pub const DISABLED_ERROR: &str = "the webhook was disabled";

/// The shelf could not do it.
#[derive(Debug, thiserror::Error)]
#[error("the store of webhooks is unavailable")]
pub struct ShelfError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

impl ShelfError {
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// The reason the platform stopped calling a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// No attempt succeeded for days.
    Failing,
    /// The receiver answered 410.
    Gone,
    /// Too many messages wait.
    QueueFull,
}

impl DisabledReason {
    pub const ALL: [Self; 3] = [Self::Failing, Self::Gone, Self::QueueFull];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Gone => "gone",
            Self::QueueFull => "queue_full",
        }
    }
}

/// A webhook, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    pub id: String,
    pub tenant: String,
    pub url: String,
    pub kinds: Vec<EventKind>,
    #[serde(with = "time::serde::rfc3339")]
    pub made_at: OffsetDateTime,
    /// The first failed attempt since the last one that succeeded.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub failing_since: Option<OffsetDateTime>,
    pub disabled: Option<DisabledReason>,
}

/// A webhook that is to be.
#[derive(Debug, Clone)]
pub struct NewWebhook {
    pub id: String,
    pub tenant: String,
    pub url: String,
    pub kinds: Vec<EventKind>,
    pub secret: Secret,
}

/// The state of a message to one webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits for its next attempt, or is being sent.
    Waiting,
    Delivered,
    /// No attempt is left.
    Failed,
}

impl DeliveryState {
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Delivered, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// A message to one webhook, and its attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeliveryRecord {
    /// The message's id, as in the header `webhook-id`.
    pub message: String,
    pub kind: EventKind,
    pub state: DeliveryState,
    pub attempts: u32,
    #[serde(with = "time::serde::rfc3339")]
    pub made_at: OffsetDateTime,
    /// The earliest time of the next attempt, while it waits.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub next_at: Option<OffsetDateTime>,
    /// The status of the last response.
    pub status: Option<u16>,
    /// The reason the last attempt failed.
    pub error: Option<String>,
}

/// The result of [`Shelf::queue`].
#[derive(Debug, Clone, PartialEq)]
pub enum QueueOutcome {
    Queued(DeliveryRecord),
    NoWebhook,
    /// The webhook is disabled.
    Disabled,
    /// [`MAX_QUEUE`] messages wait.
    Full,
}

/// A message that one worker may send until its lease ends.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub number: u64,
    /// Counted from 1. It is the fencing token: a later claim has a higher one.
    pub attempt: u32,
    pub tenant: String,
    pub url: String,
    /// The newest first.
    pub secrets: Vec<Secret>,
    pub message: Message,
    pub failing_since: Option<OffsetDateTime>,
}

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Delivered {
        status: u16,
    },
    /// None of `retry_in`: no attempt is left.
    Failed {
        status: Option<u16>,
        error: String,
        retry_in: Option<Duration>,
        disable: Option<DisabledReason>,
    },
}

/// A durable place for webhooks and messages.
///
/// Every method names the tenant, and finds nothing of another one.
pub trait Shelf: fmt::Debug + Send + Sync {
    /// Adds a webhook. None: the tenant has [`MAX_WEBHOOKS`].
    fn add<'a>(&'a self, new: &'a NewWebhook)
    -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>>;

    /// Lists a tenant's webhooks, the oldest first.
    fn list<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<Vec<Webhook>, ShelfError>>;

    /// Removes a webhook and its messages. False: there is none.
    fn remove<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<bool, ShelfError>>;

    /// Gives a webhook a new secret. The old one stays valid for `keep`.
    fn rotate<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        secret: &'a Secret,
        keep: Duration,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>>;

    /// Calls a disabled webhook again.
    fn enable<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>>;

    /// Queues a message for one webhook, whatever its kinds, unless it is disabled or full.
    fn queue<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<QueueOutcome, ShelfError>>;

    /// Lists the newest messages of a webhook. None: there is no such webhook.
    fn deliveries<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<DeliveryRecord>>, ShelfError>>;

    /// Claims messages that are due, at most [`CLAIMED_OF_TENANT`] of each tenant that is not
    /// `busy`. Tenants take turns. When the lease ends, another worker may claim them.
    fn claim<'a>(
        &'a self,
        most: usize,
        busy: &'a [String],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Claimed>, ShelfError>>;

    /// Records an attempt, unless a later one has begun.
    fn settle<'a>(
        &'a self,
        claimed: &'a Claimed,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<(), ShelfError>>;

    /// Returns the number of waiting messages of enabled webhooks, and the age of the oldest.
    fn waiting(&self) -> BoxFuture<'_, Result<(u64, Duration), ShelfError>>;

    /// Disables webhooks whose queue is full, and ends up to [`SWEEP_STEP`] messages that wait for
    /// disabled ones.
    fn sweep(&self) -> BoxFuture<'_, Result<(), ShelfError>>;

    /// Removes messages that ended longer ago than this.
    fn forget(&self, longer_ago: Duration) -> BoxFuture<'_, Result<(), ShelfError>>;
}

/// Messages of one tenant that one claim takes.
pub const CLAIMED_OF_TENANT: usize = 4;
