//! Messages to webhooks: queued, claimed, settled, forgotten.

use std::sync::PoisonError;
use std::time::Duration;

use belljar_webhooks::{
    CLAIMED_OF_TENANT, Claimed, DISABLED_ERROR, DeliveryRecord, DeliveryState, MAX_QUEUE, Message,
    Outcome, QueueOutcome, SWEEP_STEP,
};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::sealed::{SecretSeal, opened};
use super::{WebhookRows, kind};
use crate::error::{StoreError, of};
use crate::read;

/// A message at this place, counted from 0, makes the queue of a webhook full.
fn last_place() -> i64 {
    i64::try_from(MAX_QUEUE - 1).unwrap_or(i64::MAX)
}

/// Rows that one statement changes.
fn step() -> i64 {
    i64::try_from(SWEEP_STEP).unwrap_or(i64::MAX)
}

const RECORD: &str = "message, kind, state, attempts, d.made_at,
                      case when state = 'waiting' then due_at end as next_at, status, error";

fn record(row: &PgRow) -> Result<DeliveryRecord, StoreError> {
    let state: String = row.try_get("state")?;
    let found = DeliveryState::ALL.into_iter().find(|it| it.as_str() == state);
    let status: Option<i32> = row.try_get("status")?;
    Ok(DeliveryRecord {
        message: row.try_get("message")?,
        kind: kind(row.try_get("kind")?)?,
        state: found
            .ok_or(StoreError::Unreadable { what: "the state of a message", value: state })?,
        attempts: read::count(row, "attempts")?,
        made_at: row.try_get("made_at")?,
        next_at: row.try_get("next_at")?,
        status: status.and_then(|status| u16::try_from(status).ok()),
        error: row.try_get("error")?,
    })
}

/// None: the secret is sealed with a key that is not here. Another replica may have it.
fn claimed(
    row: &PgRow,
    webhook: &str,
    seal: Option<&dyn SecretSeal>,
) -> Result<Option<Claimed>, StoreError> {
    let Some(secret) = opened(seal, webhook, row.try_get("secret")?) else { return Ok(None) };
    let previous: Option<Vec<u8>> = row.try_get("previous")?;
    let previous = previous.and_then(|previous| opened(seal, webhook, previous));
    Ok(Some(Claimed {
        number: read::number(row, "number")?,
        attempt: read::count(row, "attempts")?,
        tenant: row.try_get("tenant")?,
        url: row.try_get("url")?,
        secrets: [Some(secret), previous].into_iter().flatten().collect(),
        message: Message {
            id: row.try_get("message")?,
            kind: kind(row.try_get("kind")?)?,
            body: row.try_get("body")?,
        },
        failing_since: row.try_get("failing_since")?,
    }))
}

impl WebhookRows {
    pub(super) async fn put_message(
        &self,
        tenant: &str,
        id: &str,
        message: &Message,
    ) -> Result<QueueOutcome, StoreError> {
        let sql = format!(
            "insert into webhook_delivery as d (webhook, tenant, message, kind, body)
             select id, tenant, $3, $4, $5 from webhook w
             where tenant = $1 and id = $2 and disabled is null
               and not exists (select from webhook_delivery q
                               where q.webhook = w.id and q.state = 'waiting'
                               order by q.due_at offset $6 limit 1)
             returning {RECORD}"
        );
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(id)
            .bind(&message.id)
            .bind(message.kind.as_str())
            .bind(&message.body)
            .bind(last_place())
            .fetch_optional(&self.store.pool)
            .await
            .map_err(of)?;
        if let Some(row) = row {
            return record(&row).map(QueueOutcome::Queued);
        }
        let known = self.of_tenant(tenant).await?.into_iter().find(|webhook| webhook.id == id);
        Ok(match known {
            None => QueueOutcome::NoWebhook,
            Some(webhook) if webhook.disabled.is_some() => QueueOutcome::Disabled,
            Some(_) => QueueOutcome::Full,
        })
    }

    pub(super) async fn messages(
        &self,
        tenant: &str,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<DeliveryRecord>>, StoreError> {
        if !self.of_tenant(tenant).await?.iter().any(|webhook| webhook.id == id) {
            return Ok(None);
        }
        let sql = format!(
            "select {RECORD} from webhook_delivery d where webhook = $1
             order by number desc limit $2"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(id)
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .fetch_all(&self.store.pool)
            .await
            .map_err(of)?;
        rows.iter().map(record).collect::<Result<_, _>>().map(Some)
    }

    /// Looks at one message of each enabled webhook, and then at those of some tenants, chosen at
    /// random: messages of disabled webhooks are not read, and each tenant has the same chance.
    pub(super) async fn take(
        &self,
        most: usize,
        busy: &[String],
        lease: Duration,
    ) -> Result<Vec<Claimed>, StoreError> {
        let rows = sqlx::query(
            "with head as materialized (
               select w.id, w.tenant from webhook w
               cross join lateral (
                 select from webhook_delivery m
                 where m.webhook = w.id and m.state = 'waiting' and m.due_at <= now()
                 order by m.due_at limit 1) first
               where w.disabled is null and w.tenant <> all($2)),
             due as materialized (
               select d.number from (
                 select tenant from head group by tenant order by random() limit $1) t
               cross join lateral (
                 select q.number from head h
                 cross join lateral (
                   select m.number, m.due_at from webhook_delivery m
                   where m.webhook = h.id and m.state = 'waiting' and m.due_at <= now()
                   order by m.due_at limit $4 for update of m skip locked) q
                 where h.tenant = t.tenant
                 order by q.due_at limit $4) d
               limit $1)
             update webhook_delivery m
             set attempts = attempts + 1, due_at = now() + $3 * interval '1 second'
             from due, webhook w
             where m.number = due.number and w.id = m.webhook
             returning w.id as webhook, m.number, m.attempts, m.tenant, m.message, m.kind, m.body, w.url, w.secret,
                       case when w.previous_until > now() then w.previous_secret end as previous,
                       w.failing_since",
        )
        .bind(i64::try_from(most).unwrap_or(i64::MAX))
        .bind(busy)
        .bind(lease.as_secs_f64())
        .bind(i64::try_from(CLAIMED_OF_TENANT).unwrap_or(i64::MAX))
        .fetch_all(&self.store.pool)
        .await
        .map_err(of)?;
        let (mut all, mut numbers, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let webhook: String = row.try_get("webhook")?;
            let claimed = claimed(row, &webhook, self.seal.as_deref())?;
            self.note_secret(&webhook, claimed.is_some());
            match claimed {
                Some(claimed) => all.push(claimed),
                None => {
                    numbers.push(row.try_get::<i64, _>("number")?);
                    attempts.push(row.try_get::<i32, _>("attempts")?);
                }
            }
        }
        // The others are claimed: they are sent whatever comes of these.
        if let Err(error) = self.give_back(&numbers, &attempts).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot give back attempts of messages to webhooks");
        }
        Ok(all)
    }

    /// Gives back attempts of messages that were claimed and cannot be signed here. Their time
    /// stays: another replica looks at them then, and this one does not look at them at once.
    async fn give_back(&self, numbers: &[i64], attempts: &[i32]) -> Result<(), StoreError> {
        if numbers.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "update webhook_delivery m set attempts = m.attempts - 1
             from unnest($1::bigint[], $2::integer[]) as claim (number, attempts)
             where m.number = claim.number and m.attempts = claim.attempts
               and m.state = 'waiting'",
        )
        .bind(numbers)
        .bind(attempts)
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(())
    }

    /// Logs once for each webhook that its secret cannot be opened, until it can.
    fn note_secret(&self, webhook: &str, is_open: bool) {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if is_open {
            closed.remove(webhook);
        } else if closed.insert(webhook.to_owned()) {
            tracing::error!(webhook, "the control key does not open the secret of a webhook");
        }
    }

    pub(super) async fn record(
        &self,
        claimed: &Claimed,
        outcome: &Outcome,
    ) -> Result<(), StoreError> {
        let (status, error, retry_in, disable) = match outcome {
            Outcome::Delivered { status } => (Some(*status), None, None, None),
            Outcome::Failed { status, error, retry_in, disable } => {
                (*status, Some(error.as_str()), *retry_in, *disable)
            }
        };
        let is_delivered = matches!(outcome, Outcome::Delivered { .. });
        let state = match (is_delivered, retry_in) {
            (true, _) => DeliveryState::Delivered,
            (false, Some(_)) => DeliveryState::Waiting,
            (false, None) => DeliveryState::Failed,
        };
        sqlx::query(
            "with done as (
               update webhook_delivery
               set state = $3, status = $4, error = $5,
                   due_at = now() + coalesce($6, 0) * interval '1 second',
                   ended_at = case when $3 = 'waiting' then null else now() end
               where number = $1 and attempts = $2 and state = 'waiting'
               returning webhook)
             update webhook set
               failing_since = case when $7 then null else coalesce(failing_since, now()) end,
               disabled = coalesce(disabled, $8)
             from done where id = done.webhook
               and (not $7 or failing_since is not null)
               and ($7 or failing_since is null or $8::text is not null)",
        )
        .bind(read::signed(claimed.number))
        .bind(i32::try_from(claimed.attempt).unwrap_or(i32::MAX))
        .bind(state.as_str())
        .bind(status.map(i32::from))
        .bind(error)
        .bind(retry_in.map(|wait| wait.as_secs_f64()))
        .bind(is_delivered)
        .bind(disable.map(belljar_webhooks::DisabledReason::as_str))
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(())
    }

    pub(super) async fn queue_length(&self) -> Result<(u64, Duration), StoreError> {
        let row = sqlx::query(
            "select count(*) as count,
                    coalesce(extract(epoch from now() - min(m.made_at)), 0)::float8 as age
             from webhook_delivery m join webhook w on w.id = m.webhook and w.disabled is null
             where m.state = 'waiting'",
        )
        .fetch_one(&self.store.pool)
        .await
        .map_err(of)?;
        let age: f64 = row.try_get("age")?;
        Ok((read::number(&row, "count")?, Duration::from_secs_f64(age.max(0.0))))
    }

    /// Disables webhooks whose queue is full, and ends some of what waits for disabled ones.
    pub(super) async fn sweep_queues(&self) -> Result<(), StoreError> {
        sqlx::query(
            "update webhook w set disabled = 'queue_full'
             where disabled is null and exists (
               select from webhook_delivery d
               where d.webhook = w.id and d.state = 'waiting'
               order by d.due_at offset $1 limit 1)",
        )
        .bind(last_place())
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        sqlx::query(
            "with waiting as materialized (
               select d.number from webhook w
               cross join lateral (
                 select m.number from webhook_delivery m
                 where m.webhook = w.id and m.state = 'waiting'
                 order by m.due_at limit $1 for update of m skip locked) d
               where w.disabled is not null limit $1)
             update webhook_delivery m set state = 'failed', error = $2, ended_at = now()
             from waiting where m.number = waiting.number",
        )
        .bind(step())
        .bind(DISABLED_ERROR)
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(())
    }

    pub(super) async fn forget_ended(&self, longer_ago: Duration) -> Result<(), StoreError> {
        loop {
            let done = sqlx::query(
                "delete from webhook_delivery where number in (
                   select number from webhook_delivery
                   where ended_at < now() - $1 * interval '1 second'
                   limit $2 for update skip locked)",
            )
            .bind(longer_ago.as_secs_f64())
            .bind(step())
            .execute(&self.store.pool)
            .await
            .map_err(of)?;
            if done.rows_affected() < SWEEP_STEP as u64 {
                return self.forget_orphans().await;
            }
        }
    }

    /// Removes messages of webhooks that were deleted. It reads one index entry of each webhook.
    async fn forget_orphans(&self) -> Result<(), StoreError> {
        loop {
            let done = sqlx::query(
                "with recursive known as (
                   select min(webhook) as id from webhook_delivery
                   union all
                   select (select min(d.webhook) from webhook_delivery d where d.webhook > known.id)
                   from known where known.id is not null)
                 delete from webhook_delivery where number in (
                   select d.number from known
                   cross join lateral (
                     select m.number from webhook_delivery m where m.webhook = known.id
                     limit $1) d
                   where not exists (select from webhook w where w.id = known.id)
                   limit $1)",
            )
            .bind(step())
            .execute(&self.store.pool)
            .await
            .map_err(of)?;
            if done.rows_affected() < SWEEP_STEP as u64 {
                return Ok(());
            }
        }
    }
}
