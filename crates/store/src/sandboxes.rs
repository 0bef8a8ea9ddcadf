//! Sandboxes: one durable state machine.

mod end;
mod row;

use std::time::Duration;

use belljar_domain::{SandboxId, Tier};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::change::Change;
use crate::error::{StoreError, of};
use crate::nodes::{self, Registered};
use crate::{Store, read};

pub use row::{SandboxRow, SandboxState};

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct NewSandbox<'a> {
    pub id: &'a SandboxId,
    pub tenant: &'a str,
    pub template: &'a str,
    pub tier: Option<Tier>,
    pub facts: &'a Value,
    /// The key under which the request may be repeated, and what it says.
    pub request: Option<(&'a str, [u8; 32])>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Requested {
    Made(SandboxRow),
    /// The same request was made before; this is what came of it.
    Repeated(SandboxRow),
    /// The key was used for another request.
    Mismatch,
    OverQuota,
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub rows: Vec<SandboxRow>,
    /// Where the next part begins; none: this was the last.
    pub next: Option<Page>,
}

/// A place in a list, newest first. What is made later is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub made_at: OffsetDateTime,
    pub id: SandboxId,
}

impl Store {
    /// Puts a request on the books: it counts against the tenant's quota from now
    /// until its end.
    pub async fn request(&self, new: &NewSandbox<'_>) -> Result<Requested, StoreError> {
        if let Some(known) = self.repeated(new).await? {
            return Ok(known);
        }
        let sql = format!(
            "with place as (
               update quota set used = used + 1
               where tenant = (select name from tenant where name = $2 and closed_at is null)
                 and used < sandboxes
               returning tenant)
             insert into sandbox
               (id, tenant, state, template, tier, facts, request_key, request_digest)
             select $1, tenant, 'waiting', $3, $4, $5, $6, $7 from place
             returning {}",
            row::COLUMNS
        );
        let made = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(new.id.as_str())
            .bind(new.tenant)
            .bind(new.template)
            .bind(new.tier.map(Tier::as_str))
            .bind(Json(new.facts))
            .bind(new.request.map(|(key, _)| key))
            .bind(new.request.as_ref().map(|(_, digest)| digest.as_slice()))
            .fetch_optional(&self.pool)
            .await;
        match made {
            Ok(Some(made)) => Ok(Requested::Made(row::read(&made)?)),
            // Nothing was made: no place, or nobody to make it for.
            Ok(None) => self.tenant(new.tenant).await.map(|_| Requested::OverQuota),
            Err(error) if is_repetition(&error) => {
                let known = self.repeated(new).await?;
                known.ok_or(StoreError::Contended(error))
            }
            Err(error) => Err(of(error)),
        }
    }

    pub(crate) async fn repeated(
        &self,
        new: &NewSandbox<'_>,
    ) -> Result<Option<Requested>, StoreError> {
        let Some((key, digest)) = &new.request else { return Ok(None) };
        let sql = format!(
            "select {}, request_digest = $3 as is_same from sandbox
             where tenant = $1 and request_key = $2",
            row::COLUMNS
        );
        let known = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(new.tenant)
            .bind(key)
            .bind(digest.as_slice())
            .fetch_optional(&self.pool)
            .await?;
        let Some(known) = known else { return Ok(None) };
        let is_same: bool = known.try_get("is_same")?;
        Ok(Some(if is_same {
            Requested::Repeated(row::read(&known)?)
        } else {
            Requested::Mismatch
        }))
    }

    /// Gives a sandbox that has not started to a node that is up, under an id that
    /// carries the node. Answers the epoch of this placement; none: somebody else
    /// has placed or ended it, or the node takes nothing.
    pub async fn place(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: u64,
        new_id: &SandboxId,
        node: u16,
    ) -> Result<Option<u64>, StoreError> {
        let placed: Option<i64> = sqlx::query_scalar(
            "update sandbox set id = $3, state = 'starting', epoch = sandbox.epoch + 1,
                    node = n.number, node_epoch = n.epoch
             from node n
             where sandbox.id = $1 and sandbox.tenant = $5 and sandbox.epoch = $2
               and sandbox.state in ('waiting', 'starting')
               and n.number = $4 and n.state = 'up' and n.lease_until > now()
             returning sandbox.epoch",
        )
        .bind(id.as_str())
        .bind(read::signed(epoch))
        .bind(new_id.as_str())
        .bind(nodes::signed(node))
        .bind(tenant)
        .fetch_optional(&self.pool)
        .await
        .map_err(of)?;
        Ok(placed.map(i64::unsigned_abs))
    }

    /// It answered, and lives for so long from now unless somebody extends it.
    pub async fn started(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: u64,
        life: Duration,
    ) -> Result<Change, StoreError> {
        let from = &[SandboxState::Starting];
        self.change((tenant, id), epoch, from, SandboxState::Running, Some(life)).await
    }

    pub async fn paused(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: u64,
    ) -> Result<Change, StoreError> {
        let from = &[SandboxState::Running];
        self.change((tenant, id), epoch, from, SandboxState::Paused, None).await
    }

    pub async fn resumed(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: u64,
        life: Duration,
    ) -> Result<Change, StoreError> {
        let from = &[SandboxState::Paused];
        self.change((tenant, id), epoch, from, SandboxState::Running, Some(life)).await
    }

    async fn change(
        &self,
        (tenant, id): (&str, &SandboxId),
        epoch: u64,
        from: &[SandboxState],
        to: SandboxState,
        life: Option<Duration>,
    ) -> Result<Change, StoreError> {
        let from: Vec<_> = from.iter().map(|state| state.as_str()).collect();
        // Both look at the row as it was, so exactly one of them can be true.
        let (done, already): (bool, bool) = sqlx::query_as(
            "with before as (
               select id, state from sandbox
               where id = $1 and tenant = $6 and epoch = $2 for update),
             done as (
               update sandbox set state = $4,
                      started_at = coalesce(started_at, now()),
                      ran_ms = ran(sandbox), ran_at = now(),
                      deadline_at = coalesce(now() + $5 * interval '1 second', deadline_at)
               from before where sandbox.id = before.id and before.state = any($3)
               returning sandbox.id)
             select exists (select from done),
                    exists (select from before where state = $4)",
        )
        .bind(id.as_str())
        .bind(read::signed(epoch))
        .bind(from)
        .bind(to.as_str())
        .bind(life.map(|life| life.as_secs_f64()))
        .bind(tenant)
        .fetch_one(&self.pool)
        .await
        .map_err(of)?;
        Ok(Change::seen(done, already))
    }

    /// Lets one that runs live for so long from now.
    pub async fn extend(
        &self,
        tenant: &str,
        id: &SandboxId,
        epoch: u64,
        life: Duration,
    ) -> Result<Change, StoreError> {
        let done = sqlx::query(
            "update sandbox set deadline_at = now() + $3 * interval '1 second'
             where id = $1 and tenant = $4 and epoch = $2 and state = 'running'",
        )
        .bind(id.as_str())
        .bind(read::signed(epoch))
        .bind(life.as_secs_f64())
        .bind(tenant)
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(if done.rows_affected() == 0 { Change::Stale } else { Change::Done })
    }

    /// A tenant's own sandbox. What belongs to another does not exist.
    pub async fn sandbox(
        &self,
        tenant: &str,
        id: &SandboxId,
    ) -> Result<Option<SandboxRow>, StoreError> {
        let sql = format!("select {} from sandbox where tenant = $1 and id = $2", row::COLUMNS);
        let found = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await?;
        found.as_ref().map(row::read).transpose()
    }

    /// A tenant's sandboxes that have not ended, newest first.
    pub async fn sandboxes(
        &self,
        tenant: &str,
        after: Option<&Page>,
        most: u32,
    ) -> Result<Listed, StoreError> {
        let sql = format!(
            "select {} from sandbox
             where tenant = $1 and state <> 'ended'
               and ($2::timestamptz is null or (made_at, id) < ($2, $3))
             order by made_at desc, id desc limit $4",
            row::COLUMNS
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(after.map(|page| page.made_at))
            .bind(after.map(|page| page.id.as_str()))
            .bind(i64::from(most) + 1)
            .fetch_all(&self.pool)
            .await?;
        let mut rows = rows.iter().map(row::read).collect::<Result<Vec<_>, _>>()?;
        let is_more = rows.len() > most as usize;
        rows.truncate(most as usize);
        let last = rows.last().filter(|_| is_more);
        let next = last.map(|row| Page { made_at: row.made_at, id: row.id.clone() });
        Ok(Listed { rows, next })
    }

    /// Sandboxes of every tenant that have not ended, newest first: for operators alone. `node`
    /// and `tenant` are names; none: all of them.
    pub async fn all_sandboxes(
        &self,
        node: Option<&str>,
        tenant: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SandboxRow>, StoreError> {
        let sql = format!(
            "select {} from sandbox
             where state <> 'ended' and ($1::text is null or tenant = $1)
               and ($2::text is null or node = (select number from node where name = $2))
             order by made_at desc, id desc limit $3",
            row::COLUMNS
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(node)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(row::read).collect()
    }

    /// How a tenant's last sandboxes ended, newest first.
    pub async fn ended(&self, tenant: &str, most: u32) -> Result<Vec<SandboxRow>, StoreError> {
        let sql = format!(
            "select {} from sandbox where tenant = $1 and state = 'ended'
             order by ended_at desc limit $2",
            row::COLUMNS
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(i64::from(most))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(row::read).collect()
    }

    /// What a node that registered had before, under whichever epoch.
    pub async fn left_on(&self, node: Registered) -> Result<Vec<SandboxRow>, StoreError> {
        let sql = format!(
            "select {} from sandbox where node = $1 and node_epoch < $2 and state <> 'ended'
             order by id",
            row::COLUMNS
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(nodes::signed(node.number))
            .bind(read::signed(node.epoch))
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(row::read).collect()
    }

    /// A node found this one of its earlier life, and goes on with it. Answers the
    /// epoch from now on; none: it has ended meanwhile.
    pub async fn adopt(&self, id: &SandboxId, node: Registered) -> Result<Option<u64>, StoreError> {
        let epoch: Option<i64> = sqlx::query_scalar(
            "update sandbox set epoch = epoch + 1, node_epoch = $3
             where id = $1 and node = $2 and node_epoch < $3 and state <> 'ended'
             returning epoch",
        )
        .bind(id.as_str())
        .bind(nodes::signed(node.number))
        .bind(read::signed(node.epoch))
        .fetch_optional(&self.pool)
        .await
        .map_err(of)?;
        Ok(epoch.map(i64::unsigned_abs))
    }

    /// Those that have been waiting or starting for longer than this: whoever was
    /// at it may be gone.
    pub async fn stuck(&self, longer_than: Duration) -> Result<Vec<SandboxRow>, StoreError> {
        let sql = format!(
            "select {} from sandbox
             where state in ('waiting', 'starting')
               and made_at < now() - $1 * interval '1 second'
             order by made_at limit 1000",
            row::COLUMNS
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(longer_than.as_secs_f64())
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(row::read).collect()
    }
}

pub(crate) fn is_repetition(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.constraint()) == Some("sandbox_by_request")
}
