//! Bytes that are kept for tenants: samples of nodes, and the charge of each hour.
//!
//! ```text
//!   part `tables`      nodes ──► samples ──┐
//!                      tables of runs ─────┼──► one charge a tenant, kind and hour
//!   part `datasets`    bucket ─────────────┘
//! ```
//!
//! A replica of control leases each part of the hour; one without a bucket leaves datasets to the
//! others. A charge has the hour in its source, so an hour that is
//! charged twice all the same is charged once.

use std::time::Duration;

use belljar_domain::{NodeNumber, StoredBytes, StoredKind};
use serde_json::{Value, json};
use sqlx::types::Json;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Most bytes that a node is believed to keep of one kind for a tenant: a pebibyte.
pub const MAX_STORED_BYTES: u64 = 1 << 50;

/// A node is believed about tenants whose home it is, or that have something of theirs on it, and
/// up to a bound: what it makes up costs others no more than that.
const PUT: &str = "
    with sent as (
      select r.tenant, r.kind, least(sum(r.bytes), $3)::bigint as bytes
      from jsonb_to_recordset($2) as r (tenant text, kind text, bytes bigint)
      join tenant t on t.name = r.tenant
      where r.kind in ('volumes', 'checkpoints', 'templates') and r.bytes > 0
        and (t.home = $1
          or exists (select from sandbox s
                     where s.node = $1 and s.tenant = r.tenant and s.state <> 'ended')
          or exists (select from whereabouts w where w.node = $1 and w.tenant = r.tenant))
      group by r.tenant, r.kind
    ), gone as (
      delete from stored_sample s where s.node = $1 and not exists
        (select from sent where sent.tenant = s.tenant and sent.kind = s.kind)
    )
    insert into stored_sample (node, tenant, kind, bytes)
    select $1, tenant, kind, bytes from sent
    on conflict (node, tenant, kind) do update set bytes = excluded.bytes, sampled_at = now()";

/// Leases a part of the hour of now, unless it was charged or is leased. Returns the number of hours
/// since 1970.
const LEASE_HOUR: &str = "
    insert into stored_hour as h (hour, part, lease_until)
    values (date_trunc('hour', now()), $2, now() + $1 * interval '1 second')
    on conflict (hour, part) do update set lease_until = excluded.lease_until
    where h.charged_at is null and h.lease_until < now()
    returning (extract(epoch from hour) / 3600)::bigint";

const RELEASE_HOUR: &str = "
    update stored_hour set lease_until = '-infinity'
    where hour = to_timestamp($1 * 3600) and part = $2 and charged_at is null";

/// Sizes of transcripts are those of their rows, which no content is read for.
const TRANSCRIPTS: &str = "
    select run.tenant, least(sum(sizes.bytes), 9223372036854775807)::bigint from (
      select run_id, sum(coalesce(pg_column_size(body), 0))::bigint as bytes
      from run_event group by run_id
      union all
      select run_id, sum(pg_column_size(content))::bigint from run_blob group by run_id) sizes
    join run on run.id = sizes.run_id
    group by run.tenant";

/// Nodes fetch templates of each other, so the same layers are on several: the node that has most
/// of a tenant's counts. The other kinds are on one node each.
const CHARGE: &str = "
    with due as (
      update stored_hour set charged_at = now()
      where hour = to_timestamp($1 * 3600) and part = $3 and charged_at is null
      returning hour
    ), kept as (
      select tenant, kind,
             case when kind = 'templates' then max(bytes) else sum(bytes) end as bytes
      from (
        select tenant, kind, bytes from stored_sample
        where $3 = 'tables' and sampled_at > now() - interval '1 hour'
        union all
        select r.tenant, r.kind, r.bytes
        from jsonb_to_recordset($2) as r (tenant text, kind text, bytes bigint)) parts
      group by tenant, kind
    ), charged as (
      insert into ledger (tenant, debit, credit, nano_dollars, source, operation, began_at,
                          stored_byte_hours, detail)
      select kept.tenant, 'usage', 'storage',
             least(div(kept.bytes * price.nano_dollars, 1000000000), 9223372036854775807)::bigint,
             'stored:' || kept.kind || ':' || $1::text, 'storage:' || kept.kind, due.hour,
             least(kept.bytes, 9223372036854775807)::bigint,
             jsonb_build_object('gigabyte_hour', price.nano_dollars)
      from due cross join kept
      join tenant on tenant.name = kept.tenant
      join price on price.what = 'stored_gigabyte_hour'
      where kept.bytes > 0
      on conflict (tenant, source) do nothing
      returning nano_dollars
    )
    select count(*), least(coalesce(sum(nano_dollars), 0), 9223372036854775807)::bigint
    from charged";

/// Kinds of bytes that are charged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredPart {
    /// Volumes, checkpoints and templates, by the samples of nodes, and transcripts.
    Tables,
    /// Datasets, which only a replica with a bucket can list.
    Datasets,
}

impl StoredPart {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::Datasets => "datasets",
        }
    }
}

/// A part of an hour that this process has leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredHour {
    /// Since 1970.
    hour: i64,
    part: StoredPart,
}

/// The charges of one hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChargedStorage {
    pub charges: u64,
    pub nano_dollars: u64,
}

impl Store {
    /// Replaces what a node keeps. What it says about tenants that have nothing there is ignored,
    /// and more than [`MAX_STORED_BYTES`] counts as that. Returns the number of samples that are
    /// believed.
    pub async fn put_stored(
        &self,
        node: NodeNumber,
        stored: &[StoredBytes],
    ) -> Result<u64, StoreError> {
        // A number that no node can have is still no word of control.
        let node = i16::try_from(node.get()).unwrap_or(-1);
        let query = sqlx::query(PUT).bind(node).bind(Json(documents(stored)));
        let query = query.bind(read::signed(MAX_STORED_BYTES));
        Ok(query.execute(&self.pool).await.map_err(of)?.rows_affected())
    }

    /// Leases a part of the hour of now. `None`: it was charged, or another replica does it.
    pub async fn lease_stored_hour(
        &self,
        part: StoredPart,
        lease: Duration,
    ) -> Result<Option<StoredHour>, StoreError> {
        let seconds = read::signed(lease.as_secs());
        let query = sqlx::query_scalar(LEASE_HOUR).bind(seconds).bind(part.as_str());
        let leased: Option<i64> = query.fetch_optional(&self.pool).await.map_err(of)?;
        Ok(leased.map(|hour| StoredHour { hour, part }))
    }

    /// Gives back the lease of an hour that was not charged, for the next replica that asks.
    pub async fn release_stored_hour(&self, hour: StoredHour) -> Result<(), StoreError> {
        let query = sqlx::query(RELEASE_HOUR).bind(hour.hour).bind(hour.part.as_str());
        query.execute(&self.pool).await.map_err(of)?;
        Ok(())
    }

    /// Charges `more`, and with the part of the tables the samples of nodes and transcripts of runs.
    pub async fn charge_stored(
        &self,
        hour: StoredHour,
        more: &[StoredBytes],
    ) -> Result<ChargedStorage, StoreError> {
        let mut stored = more.to_vec();
        if hour.part == StoredPart::Tables {
            stored.extend(self.transcripts().await?);
        }
        let query = sqlx::query_as::<_, (i64, i64)>(CHARGE).bind(hour.hour);
        let query = query.bind(Json(documents(&stored))).bind(hour.part.as_str());
        let (charges, nano_dollars) = query.fetch_one(&self.pool).await.map_err(of)?;
        let (charges, nano_dollars) = (charges.unsigned_abs(), nano_dollars.unsigned_abs());
        Ok(ChargedStorage { charges, nano_dollars })
    }

    /// Returns the bytes of all transcripts. It looks at every row of them, so the hour is not
    /// locked meanwhile.
    async fn transcripts(&self) -> Result<Vec<StoredBytes>, StoreError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("set local statement_timeout = '10min'").execute(&mut *transaction).await?;
        let query = sqlx::query_as::<_, (String, i64)>(TRANSCRIPTS);
        let sums = query.fetch_all(&mut *transaction).await.map_err(of)?;
        transaction.commit().await?;
        let of_tenant = |(tenant, bytes): (String, i64)| {
            let bytes = bytes.unsigned_abs();
            StoredBytes { tenant, kind: StoredKind::Runs, bytes }
        };
        Ok(sums.into_iter().map(of_tenant).collect())
    }
}

fn documents(stored: &[StoredBytes]) -> Vec<Value> {
    let document = |it: &StoredBytes| json!({ "tenant": it.tenant, "kind": it.kind.as_str(), "bytes": read::signed(it.bytes) });
    stored.iter().map(document).collect()
}
