//! The operations on webhooks that surfaces offer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;

use crate::event::{EventKind, Message};
use crate::schedule::Schedule;
use crate::send::Sender;
use crate::shelf::{
    DeliveryRecord, MAX_WEBHOOKS, NewWebhook, QueueOutcome, Shelf, ShelfError, Webhook,
};
use crate::sign::{self, NoRandom, Secret};
use crate::target::TargetError;
use crate::worker::Signal;

/// The settings of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    pub schedule: Schedule,
    /// A webhook that fails for longer is disabled.
    pub patience: Duration,
    /// Validity of the old secret after a rotation.
    pub overlap: Duration,
    /// Retention of messages that ended.
    pub retention: Duration,
    /// Time between two looks for messages that are due.
    pub poll: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Settings {
    fn default() -> Self {
        Self {
            schedule: Schedule::default(),
            patience: 3 * DAY,
            overlap: DAY,
            retention: 3 * DAY,
            poll: Duration::from_millis(500),
        }
    }
}

/// The webhook cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("a webhook needs at least one event kind, and `webhook.test` is none to choose")]
    Kinds,
    #[error("you have {MAX_WEBHOOKS} webhooks, the maximum")]
    TooMany,
    #[error(transparent)]
    Shelf(#[from] ShelfError),
}

impl From<NoRandom> for ShelfError {
    fn from(error: NoRandom) -> Self {
        Self::new(error)
    }
}

/// Webhooks of all tenants; cheap to clone.
#[derive(Clone)]
pub struct Webhooks(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) shelf: Arc<dyn Shelf>,
    pub(crate) sender: Sender,
    pub(crate) settings: Settings,
    pub(crate) signal: Box<dyn Fn(Signal) + Send + Sync>,
}

impl Webhooks {
    /// `signal` hears of each attempt and of the queue, for metrics.
    pub fn new(
        shelf: Arc<dyn Shelf>,
        sender: Sender,
        settings: Settings,
        signal: impl Fn(Signal) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner { shelf, sender, settings, signal: Box::new(signal) }))
    }

    /// Adds a webhook. The secret is shown here and never again.
    pub async fn create(
        &self,
        tenant: &str,
        url: &str,
        mut kinds: Vec<EventKind>,
    ) -> Result<(Webhook, Secret), CreateError> {
        self.0.sender.reach().target(url)?;
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.is_empty() || kinds.contains(&EventKind::Test) {
            return Err(CreateError::Kinds);
        }
        let secret = Secret::generate().map_err(ShelfError::from)?;
        let new = NewWebhook {
            id: sign::random_id("wh_").map_err(ShelfError::from)?,
            tenant: tenant.to_owned(),
            url: url.to_owned(),
            kinds,
            secret: secret.clone(),
        };
        let made = self.0.shelf.add(&new).await?.ok_or(CreateError::TooMany)?;
        Ok((made, secret))
    }

    pub async fn list(&self, tenant: &str) -> Result<Vec<Webhook>, ShelfError> {
        self.0.shelf.list(tenant).await
    }

    pub async fn find(&self, tenant: &str, id: &str) -> Result<Option<Webhook>, ShelfError> {
        Ok(self.list(tenant).await?.into_iter().find(|webhook| webhook.id == id))
    }

    pub async fn remove(&self, tenant: &str, id: &str) -> Result<bool, ShelfError> {
        self.0.shelf.remove(tenant, id).await
    }

    /// Makes a new secret. For a day, messages are signed with both.
    pub async fn rotate(
        &self,
        tenant: &str,
        id: &str,
    ) -> Result<Option<(Webhook, Secret)>, ShelfError> {
        let secret = Secret::generate()?;
        let found = self.0.shelf.rotate(tenant, id, &secret, self.0.settings.overlap).await?;
        Ok(found.map(|webhook| (webhook, secret)))
    }

    pub async fn enable(&self, tenant: &str, id: &str) -> Result<Option<Webhook>, ShelfError> {
        self.0.shelf.enable(tenant, id).await
    }

    /// Queues a message of the kind `webhook.test`.
    pub async fn test(&self, tenant: &str, id: &str) -> Result<QueueOutcome, ShelfError> {
        let data = serde_json::Map::from_iter([("webhook".to_owned(), id.into())]);
        let message = sign::random_id("msg_")?;
        let message = Message::new(message, EventKind::Test, OffsetDateTime::now_utc(), data);
        self.0.shelf.queue(tenant, id, &message).await
    }

    pub async fn deliveries(
        &self,
        tenant: &str,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<DeliveryRecord>>, ShelfError> {
        self.0.shelf.deliveries(tenant, id, most).await
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
