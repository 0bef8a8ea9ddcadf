//! Tenants and how much they may have.

use std::time::Duration;

use belljar_domain::{OperationCap, SandboxId, Tier};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Who owns things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub name: String,
    /// The weakest wall that its sandboxes may have.
    pub floor: Option<Tier>,
    /// The gateway operations that its keys may name.
    pub operations: OperationCap,
    pub quota: Quota,
    /// Sandboxes that it has now.
    pub used: u32,
}

/// A tenant, and whether anything of it still works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantEntry {
    pub tenant: Tenant,
    pub closed_at: Option<OffsetDateTime>,
}

/// What a tenant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// At once.
    pub sandboxes: u32,
    pub longest_life: Duration,
}

impl Store {
    /// Makes a tenant, or changes what it may have. What it has already stays.
    pub async fn put_tenant(
        &self,
        name: &str,
        floor: Option<Tier>,
        quota: Quota,
    ) -> Result<(), StoreError> {
        let mut change = self.pool.begin().await?;
        sqlx::query(
            "insert into tenant (name, floor) values ($1, $2)
             on conflict (name) do update set floor = $2, closed_at = null",
        )
        .bind(name)
        .bind(floor.map(Tier::as_str))
        .execute(&mut *change)
        .await?;
        sqlx::query(
            "insert into quota (tenant, sandboxes, longest_life_seconds) values ($1, $2, $3)
             on conflict (tenant) do update set sandboxes = $2, longest_life_seconds = $3",
        )
        .bind(name)
        .bind(i32::try_from(quota.sandboxes).unwrap_or(i32::MAX))
        .bind(i32::try_from(quota.longest_life.as_secs()).unwrap_or(i32::MAX))
        .execute(&mut *change)
        .await?;
        change.commit().await.map_err(of)
    }

    /// Sets the cap on operations of a tenant. It holds for new requests within two seconds.
    pub async fn cap_tenant(&self, name: &str, cap: &OperationCap) -> Result<(), StoreError> {
        let done = sqlx::query("update tenant set operations = $2 where name = $1")
            .bind(name)
            .bind(cap.names())
            .execute(&self.pool)
            .await?;
        match done.rows_affected() {
            0 => Err(StoreError::UnknownTenant(name.to_owned())),
            _ => Ok(()),
        }
    }

    /// Nothing of the tenant works from now on: its keys open nothing, and its sandboxes end.
    /// Answers those that ended. Their nodes destroy them when they speak next.
    pub async fn close_tenant(&self, name: &str) -> Result<Vec<SandboxId>, StoreError> {
        sqlx::query("update tenant set closed_at = coalesce(closed_at, now()) where name = $1")
            .bind(name)
            .execute(&self.pool)
            .await?;
        self.end_closed().await
    }

    /// Ends sandboxes of closed tenants. A create that was under way when its tenant was closed
    /// may still write its row, so control calls this again and again.
    pub async fn end_closed(&self) -> Result<Vec<SandboxId>, StoreError> {
        let rows = sqlx::query(
            "with closed as (
               select s.id from tenant t join sandbox s on s.tenant = t.name
               where t.closed_at is not null and s.state <> 'ended'
               order by s.id for update of s skip locked),
             ended as (
               update sandbox set state = 'ended', ended_at = now(), reason = 'killed',
                      ran_ms = ran(sandbox)
               from closed where sandbox.id = closed.id
               returning sandbox.id, sandbox.tenant),
             freed as (
               update quota set used = used - gone.count
               from (select tenant, count(*)::integer as count from ended group by tenant) gone
               where quota.tenant = gone.tenant),
             told as (
               insert into outbox (subject, body)
               select 'sandbox.ended', jsonb_build_object('sandbox', id, 'reason', 'killed')
               from ended)
             select id from ended",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(of)?;
        rows.iter().map(|row| read::id(row, "id")).collect()
    }

    pub async fn tenant(&self, name: &str) -> Result<Tenant, StoreError> {
        let row = sqlx::query(
            "select t.name, t.floor, t.operations, q.sandboxes, q.longest_life_seconds, q.used
             from tenant t join quota q on q.tenant = t.name
             where t.name = $1 and t.closed_at is null",
        )
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        row.map_or_else(|| Err(StoreError::UnknownTenant(name.to_owned())), |row| tenant(&row))
    }

    /// A tenant, also if it is closed.
    pub async fn tenant_entry(&self, name: &str) -> Result<Option<TenantEntry>, StoreError> {
        let row = sqlx::query(
            "select t.name, t.floor, t.operations, t.closed_at, q.sandboxes, q.longest_life_seconds, q.used
             from tenant t join quota q on q.tenant = t.name where t.name = $1",
        )
        .bind(name)
        .fetch_optional(&self.pool)
        .await?;
        row.as_ref().map(entry).transpose()
    }

    /// Every tenant there ever was, by name.
    pub async fn tenants(&self) -> Result<Vec<TenantEntry>, StoreError> {
        let rows = sqlx::query(
            "select t.name, t.floor, t.operations, t.closed_at, q.sandboxes, q.longest_life_seconds, q.used
             from tenant t join quota q on q.tenant = t.name order by t.name",
        )
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(entry).collect()
    }
}

fn entry(row: &PgRow) -> Result<TenantEntry, StoreError> {
    Ok(TenantEntry { tenant: tenant(row)?, closed_at: row.try_get("closed_at")? })
}

fn tenant(row: &PgRow) -> Result<Tenant, StoreError> {
    let life: i32 = row.try_get("longest_life_seconds")?;
    let quota = Quota {
        sandboxes: read::count(row, "sandboxes")?,
        longest_life: Duration::from_secs(u64::from(life.unsigned_abs())),
    };
    Ok(Tenant {
        name: row.try_get("name")?,
        floor: read::tier(row, "floor")?,
        operations: read::operations(row, "operations")?,
        quota,
        used: read::count(row, "used")?,
    })
}
