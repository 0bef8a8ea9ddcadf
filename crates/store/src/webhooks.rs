//! Webhooks of a platform, and the messages to them.
//!
//! Triggers write messages in the transaction of the change that they tell of: see
//! `migrations/0016_webhooks.sql`. Replicas of control claim them with `for update skip locked`.

mod messages;
mod sealed;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_webhooks::{
    Claimed, DeliveryRecord, DisabledReason, EventKind, MAX_WEBHOOKS, Message, NewWebhook, Outcome,
    QueueOutcome, Secret, Shelf, ShelfError, Webhook,
};
use futures_util::future::BoxFuture;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::Store;
use crate::error::{StoreError, of};

pub use sealed::SecretSeal;

/// Webhooks in PostgreSQL; cheap to clone.
#[derive(Debug, Clone)]
pub struct WebhookRows {
    store: Store,
    /// Seals the secrets. None: they are stored as they are.
    seal: Option<Arc<dyn SecretSeal>>,
    /// Webhooks whose secrets the seal does not open, as was logged.
    closed: Arc<Mutex<BTreeSet<String>>>,
}

impl Store {
    pub fn webhooks(&self) -> WebhookRows {
        WebhookRows { store: self.clone(), seal: None, closed: Arc::default() }
    }
}

const COLUMNS: &str = "id, tenant, url, kinds, made_at, failing_since, disabled";

fn failed(error: StoreError) -> ShelfError {
    ShelfError::new(error)
}

fn kind(text: &str) -> Result<EventKind, StoreError> {
    let what = "a webhook's event kind";
    text.parse().map_err(|_| StoreError::Unreadable { what, value: text.to_owned() })
}

fn webhook(row: &PgRow) -> Result<Webhook, StoreError> {
    let kinds: Vec<String> = row.try_get("kinds")?;
    let disabled: Option<String> = row.try_get("disabled")?;
    let reason = |text: String| {
        let found = DisabledReason::ALL.into_iter().find(|reason| reason.as_str() == text);
        found.ok_or(StoreError::Unreadable { what: "a webhook's state", value: text })
    };
    Ok(Webhook {
        id: row.try_get("id")?,
        tenant: row.try_get("tenant")?,
        url: row.try_get("url")?,
        kinds: kinds.iter().map(|text| kind(text)).collect::<Result<_, _>>()?,
        made_at: row.try_get("made_at")?,
        failing_since: row.try_get("failing_since")?,
        disabled: disabled.map(reason).transpose()?,
    })
}

impl WebhookRows {
    /// The same, with secrets that this key seals.
    #[must_use]
    pub fn sealed_by(self, seal: Arc<dyn SecretSeal>) -> Self {
        Self { seal: Some(seal), ..self }
    }

    fn stored(&self, id: &str, secret: &Secret) -> Result<Vec<u8>, StoreError> {
        sealed::stored(self.seal.as_deref(), id, secret)
    }

    async fn insert(&self, new: &NewWebhook) -> Result<Option<Webhook>, StoreError> {
        let kinds: Vec<_> = new.kinds.iter().map(|kind| kind.as_str()).collect();
        let mut change = self.store.pool.begin().await.map_err(of)?;
        // The count and the row are one step: requests of a tenant come one after the other.
        sqlx::query("select pg_advisory_xact_lock(hashtext('webhook:' || $1))")
            .bind(&new.tenant)
            .execute(&mut *change)
            .await
            .map_err(of)?;
        let sql = format!(
            "insert into webhook (id, tenant, url, kinds, secret)
             select $1, name, $3, $4, $5 from tenant
             where name = $2 and closed_at is null
               and (select count(*) from webhook where tenant = $2) < $6
             returning {COLUMNS}"
        );
        let made = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&new.id)
            .bind(&new.tenant)
            .bind(&new.url)
            .bind(kinds)
            .bind(self.stored(&new.id, &new.secret)?)
            .bind(i64::try_from(MAX_WEBHOOKS).unwrap_or(i64::MAX))
            .fetch_optional(&mut *change)
            .await
            .map_err(of)?;
        change.commit().await.map_err(of)?;
        made.as_ref().map(webhook).transpose()
    }

    async fn of_tenant(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError> {
        let sql = format!("select {COLUMNS} from webhook where tenant = $1 order by made_at, id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .fetch_all(&self.store.pool)
            .await
            .map_err(of)?;
        rows.iter().map(webhook).collect()
    }

    async fn delete(&self, tenant: &str, id: &str) -> Result<bool, StoreError> {
        let done = sqlx::query("delete from webhook where tenant = $1 and id = $2")
            .bind(tenant)
            .bind(id)
            .execute(&self.store.pool)
            .await
            .map_err(of)?;
        Ok(done.rows_affected() > 0)
    }

    async fn replace_secret(
        &self,
        tenant: &str,
        id: &str,
        secret: &Secret,
        keep: Duration,
    ) -> Result<Option<Webhook>, StoreError> {
        let sql = format!(
            "update webhook set previous_secret = secret, secret = $3,
                    previous_until = now() + $4 * interval '1 second'
             where tenant = $1 and id = $2 returning {COLUMNS}"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(id)
            .bind(self.stored(id, secret)?)
            .bind(keep.as_secs_f64())
            .fetch_optional(&self.store.pool)
            .await
            .map_err(of)?;
        row.as_ref().map(webhook).transpose()
    }

    async fn set_enabled(&self, tenant: &str, id: &str) -> Result<Option<Webhook>, StoreError> {
        let sql = format!(
            "update webhook set disabled = null, failing_since = null
             where tenant = $1 and id = $2 returning {COLUMNS}"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(id)
            .fetch_optional(&self.store.pool)
            .await
            .map_err(of)?;
        row.as_ref().map(webhook).transpose()
    }
}

impl Shelf for WebhookRows {
    fn add<'a>(
        &'a self,
        new: &'a NewWebhook,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        Box::pin(async move { self.insert(new).await.map_err(failed) })
    }

    fn list<'a>(&'a self, tenant: &'a str) -> BoxFuture<'a, Result<Vec<Webhook>, ShelfError>> {
        Box::pin(async move { self.of_tenant(tenant).await.map_err(failed) })
    }

    fn remove<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<bool, ShelfError>> {
        Box::pin(async move { self.delete(tenant, id).await.map_err(failed) })
    }

    fn rotate<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        secret: &'a Secret,
        keep: Duration,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        Box::pin(async move { self.replace_secret(tenant, id, secret, keep).await.map_err(failed) })
    }

    fn enable<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Option<Webhook>, ShelfError>> {
        Box::pin(async move { self.set_enabled(tenant, id).await.map_err(failed) })
    }

    fn queue<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<QueueOutcome, ShelfError>> {
        Box::pin(async move { self.put_message(tenant, id, message).await.map_err(failed) })
    }

    fn deliveries<'a>(
        &'a self,
        tenant: &'a str,
        id: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Option<Vec<DeliveryRecord>>, ShelfError>> {
        Box::pin(async move { self.messages(tenant, id, most).await.map_err(failed) })
    }

    fn claim<'a>(
        &'a self,
        most: usize,
        busy: &'a [String],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Vec<Claimed>, ShelfError>> {
        Box::pin(async move { self.take(most, busy, lease).await.map_err(failed) })
    }

    fn settle<'a>(
        &'a self,
        claimed: &'a Claimed,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<(), ShelfError>> {
        Box::pin(async move { self.record(claimed, outcome).await.map_err(failed) })
    }

    fn waiting(&self) -> BoxFuture<'_, Result<(u64, Duration), ShelfError>> {
        Box::pin(async move { self.queue_length().await.map_err(failed) })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<(), ShelfError>> {
        Box::pin(async move { self.sweep_queues().await.map_err(failed) })
    }

    fn forget(&self, longer_ago: Duration) -> BoxFuture<'_, Result<(), ShelfError>> {
        Box::pin(async move {
            self.forget_ended(longer_ago).await.map_err(failed)?;
            self.seal_secrets().await.map_err(failed)
        })
    }
}
