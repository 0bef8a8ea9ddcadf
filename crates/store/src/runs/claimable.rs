//! Runs that need a worker.
//!
//! Each search reads runs that wait, and no others: it steps over the tenants in an index of
//! unclaimed runs and takes the oldest few of each. Tenants take turns, so a tenant with a thousand
//! waiting runs delays its own. Expired leases are found among the runs that have a worker.

use std::sync::PoisonError;

use belljar_domain::RunId;
use belljar_journal::{Address, ClaimQuery, FORMAT, ReadError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::look::id;
use super::{Runs, failed, unreadable};
use crate::error::StoreError;
use crate::read;

/// Tenants of one search. The next search begins after the last of them.
const MAX_TENANTS: i32 = 256;

/// A run, and its place among those of its tenant.
type Turn = (i64, Address);

impl Runs {
    pub(super) async fn wanted(&self, query: ClaimQuery<'_>) -> Result<Vec<Address>, ReadError> {
        let after = self.last_tenant.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut found, mut last) = self.unclaimed(&query, &after).await?;
        if found.is_empty() && last.is_none() && !after.is_empty() {
            // There was no tenant after that one.
            (found, last) = self.unclaimed(&query, "").await?;
        }
        *self.last_tenant.lock().unwrap_or_else(PoisonError::into_inner) = last.unwrap_or_default();
        if query.expired {
            let mut expired = self.expired(&query).await?;
            // Of the same turn, those that were worked on go first.
            expired.append(&mut found);
            found = expired;
            found.sort_by_key(|(turn, _)| *turn);
        }
        found.truncate(query.most);
        Ok(found.into_iter().map(|(_, address)| address).collect())
    }

    /// Runs without a worker, and the last tenant if there may be more tenants.
    async fn unclaimed(
        &self,
        query: &ClaimQuery<'_>,
        after: &str,
    ) -> Result<(Vec<Turn>, Option<String>), ReadError> {
        let rows = sqlx::query(
            "with recursive line (tenant, place) as (
               (select r.tenant, 1 from run r
                where r.ready and r.lease_owner is null and r.tenant > $4
                order by r.tenant limit 1)
               union all
               select (select r.tenant from run r
                       where r.ready and r.lease_owner is null and r.tenant > line.tenant
                       order by r.tenant limit 1), line.place + 1
               from line where line.tenant is not null and line.place < $5),
             fresh as (
               select r.tenant, r.id, r.made_at, r.turn
               from line cross join lateral (
                 select w.tenant, w.id, w.made_at,
                        row_number() over (order by w.made_at, w.id) as turn
                 from run w
                 where w.ready and w.lease_owner is null and w.tenant = line.tenant
                   and w.needs <= $1 and w.id <> all($3)
                 order by w.made_at, w.id limit $2) r)
             select f.tenant, f.id, f.turn, l.tenant as last
             from (select max(tenant) as tenant from line where place = $5) l
             left join fresh f on true
             order by f.turn, f.made_at, f.id limit $2",
        )
        .bind(format())
        .bind(read::signed(query.most as u64))
        .bind(ids(query.except))
        .bind(after)
        .bind(MAX_TENANTS)
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        let mut found = Vec::new();
        let mut last = None;
        for row in &rows {
            last = row.try_get::<Option<String>, _>("last").map_err(failed)?;
            // A row without a run says where the search ended.
            if row.try_get::<Option<i64>, _>("turn").map_err(failed)?.is_some() {
                found.push(turn(row).map_err(unreadable)?);
            }
        }
        Ok((found, last))
    }

    /// Runs whose worker did not renew its lease.
    async fn expired(&self, query: &ClaimQuery<'_>) -> Result<Vec<Turn>, ReadError> {
        let rows = sqlx::query(
            "select tenant, id,
                    row_number() over (partition by tenant order by lease_until, id) as turn
             from run
             where ready and lease_owner is not null and lease_until <= now()
               and needs <= $1 and id <> all($3)
             order by turn, lease_until, id limit $2",
        )
        .bind(format())
        .bind(read::signed(query.most as u64))
        .bind(ids(query.except))
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        let found: Result<_, StoreError> = rows.iter().map(turn).collect();
        Ok(found.map_err(unreadable)?)
    }
}

/// The newest format that this version knows.
fn format() -> i32 {
    i32::try_from(FORMAT).unwrap_or(i32::MAX)
}

fn ids(runs: &[RunId]) -> Vec<&str> {
    runs.iter().map(RunId::as_str).collect()
}

fn turn(row: &PgRow) -> Result<Turn, StoreError> {
    let address = Address { tenant: row.try_get("tenant")?, run: id(row, "id")? };
    Ok((row.try_get("turn")?, address))
}
