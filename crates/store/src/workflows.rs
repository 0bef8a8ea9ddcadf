//! Workflows of a platform. Leases end on the database's clock.

use std::time::Duration;

use belljar_journal::{
    Failure, NewWorkflow, WorkflowAddress, WorkflowAppendError, WorkflowCreated, WorkflowLease,
    WorkflowRecord, WorkflowRow, WorkflowStore,
};
use futures_util::future::BoxFuture;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Workflows in PostgreSQL; cheap to clone.
#[derive(Debug, Clone)]
pub struct WorkflowRows {
    store: Store,
}

impl Store {
    pub fn workflows(&self) -> WorkflowRows {
        WorkflowRows { store: self.clone() }
    }
}

const COLUMNS: &str = "id, name, made_at, events, is_cancelled, outcome";

fn row(row: &PgRow) -> Result<WorkflowRow, StoreError> {
    Ok(WorkflowRow {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        made_at: row.try_get("made_at")?,
        events: read::number(row, "events")?,
        is_cancelled: row.try_get("is_cancelled")?,
        outcome: row.try_get("outcome")?,
    })
}

impl WorkflowRows {
    async fn insert(&self, new: &NewWorkflow) -> Result<WorkflowCreated, StoreError> {
        let NewWorkflow { address, name, first, most_unfinished } = new;
        let mut change = self.store.pool.begin().await.map_err(of)?;
        // The count and the row are one step: requests of a tenant come one after the other.
        sqlx::query("select pg_advisory_xact_lock(hashtext('workflow:' || $1))")
            .bind(&address.tenant)
            .execute(&mut *change)
            .await
            .map_err(of)?;
        let known = sqlx::query_scalar::<_, String>(
            "select body from workflow_event join workflow on workflow.id = workflow_event.workflow
             where workflow.id = $1 and tenant = $2 and seq = 1",
        )
        .bind(&address.id)
        .bind(&address.tenant)
        .fetch_optional(&mut *change)
        .await
        .map_err(of)?;
        if let Some(first) = known {
            return Ok(WorkflowCreated::Already(first));
        }
        let made = sqlx::query(
            "with made as (
               insert into workflow (id, tenant, name)
               select $1, tenant.name, $3 from tenant
               where tenant.name = $2 and closed_at is null
                 and (select count(*) from workflow
                      where tenant = $2 and outcome is null) < $5
               returning id)
             insert into workflow_event (workflow, seq, body) select id, 1, $4 from made",
        )
        .bind(&address.id)
        .bind(&address.tenant)
        .bind(name)
        .bind(first)
        .bind(read::signed(*most_unfinished))
        .execute(&mut *change)
        .await
        .map_err(of)?;
        change.commit().await.map_err(of)?;
        Ok(match made.rows_affected() {
            0 => WorkflowCreated::TooMany,
            _ => WorkflowCreated::Made,
        })
    }

    async fn record(
        &self,
        address: &WorkflowAddress,
    ) -> Result<Option<WorkflowRecord>, StoreError> {
        // Events first: the row then counts at least as many.
        let events = sqlx::query_scalar::<_, String>(
            "select body from workflow_event join workflow on workflow.id = workflow_event.workflow
             where workflow.id = $1 and tenant = $2 order by seq",
        )
        .bind(&address.id)
        .bind(&address.tenant)
        .fetch_all(&self.store.pool)
        .await
        .map_err(of)?;
        let sql = format!("select {COLUMNS} from workflow where tenant = $1 and id = $2");
        let found = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(&address.tenant)
            .bind(&address.id)
            .fetch_optional(&self.store.pool)
            .await
            .map_err(of)?;
        found.map(|found| Ok(WorkflowRecord { row: row(&found)?, events })).transpose()
    }

    async fn newest(&self, tenant: &str, most: usize) -> Result<Vec<WorkflowRow>, StoreError> {
        let sql = format!(
            "select {COLUMNS} from workflow where tenant = $1 order by made_at desc, id desc limit $2"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(tenant)
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .fetch_all(&self.store.pool)
            .await
            .map_err(of)?;
        rows.iter().map(row).collect()
    }

    /// Returns false if the lease is another worker's, or the workflow is over.
    async fn write(
        &self,
        lease: &WorkflowLease,
        events: &[String],
        outcome: Option<&str>,
    ) -> Result<bool, StoreError> {
        let written = sqlx::query(
            "with moved as (
               update workflow set events = events + cardinality($4::text[]), outcome = $5,
                      lease_owner = case when $5::text is null then lease_owner end,
                      lease_until = case when $5::text is null then lease_until end
               where tenant = $1 and id = $2 and lease_gen = $3 and outcome is null
               returning id, events - cardinality($4::text[]) as before)
             insert into workflow_event (workflow, seq, body)
             select id, before + number, body
             from moved, unnest($4::text[]) with ordinality as new (body, number)",
        )
        .bind(&lease.address.tenant)
        .bind(&lease.address.id)
        .bind(read::signed(lease.generation))
        .bind(events)
        .bind(outcome)
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(written.rows_affected() > 0)
    }

    async fn request_cancel(&self, address: &WorkflowAddress) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update workflow set is_cancelled = true
             where tenant = $1 and id = $2 and outcome is null",
        )
        .bind(&address.tenant)
        .bind(&address.id)
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected() > 0)
    }

    async fn take(
        &self,
        owner: &str,
        time: Duration,
        busy: &[String],
        only: Option<&str>,
    ) -> Result<Option<WorkflowLease>, StoreError> {
        let taken = sqlx::query_as::<_, (String, String, i64)>(
            "update workflow set lease_gen = lease_gen + 1, lease_owner = $1,
                    lease_until = now() + $2 * interval '1 second'
             where id = (select id from workflow
                         where outcome is null and (lease_until is null or lease_until <= now())
                           and tenant <> all($3::text[]) and ($4::text is null or id = $4)
                         order by made_at limit 1 for update skip locked)
             returning tenant, id, lease_gen",
        )
        .bind(owner)
        .bind(time.as_secs_f64())
        .bind(busy)
        .bind(only)
        .fetch_optional(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(taken.map(|(tenant, id, generation)| WorkflowLease {
            address: WorkflowAddress { tenant, id },
            generation: generation.unsigned_abs(),
        }))
    }

    /// None: the lease is another worker's.
    async fn extend(
        &self,
        lease: &WorkflowLease,
        time: Duration,
    ) -> Result<Option<bool>, StoreError> {
        sqlx::query_scalar::<_, bool>(
            "update workflow set lease_until = now() + $4 * interval '1 second'
             where tenant = $1 and id = $2 and lease_gen = $3 and outcome is null
             returning is_cancelled",
        )
        .bind(&lease.address.tenant)
        .bind(&lease.address.id)
        .bind(read::signed(lease.generation))
        .bind(time.as_secs_f64())
        .fetch_optional(&self.store.pool)
        .await
        .map_err(of)
    }

    async fn give_back(&self, lease: &WorkflowLease) -> Result<(), StoreError> {
        sqlx::query(
            "update workflow set lease_owner = null, lease_until = null
             where tenant = $1 and id = $2 and lease_gen = $3",
        )
        .bind(&lease.address.tenant)
        .bind(&lease.address.id)
        .bind(read::signed(lease.generation))
        .execute(&self.store.pool)
        .await
        .map_err(of)?;
        Ok(())
    }
}

impl WorkflowStore for WorkflowRows {
    fn create<'a>(
        &'a self,
        new: &'a NewWorkflow,
    ) -> BoxFuture<'a, Result<WorkflowCreated, Failure>> {
        Box::pin(async move { self.insert(new).await.map_err(Failure::new) })
    }

    fn read<'a>(
        &'a self,
        address: &'a WorkflowAddress,
    ) -> BoxFuture<'a, Result<Option<WorkflowRecord>, Failure>> {
        Box::pin(async move { self.record(address).await.map_err(Failure::new) })
    }

    fn list<'a>(
        &'a self,
        tenant: &'a str,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<WorkflowRow>, Failure>> {
        Box::pin(async move { self.newest(tenant, most).await.map_err(Failure::new) })
    }

    fn append<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        events: &'a [String],
        outcome: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WorkflowAppendError>> {
        Box::pin(async move {
            match self.write(lease, events, outcome).await.map_err(Failure::new)? {
                true => Ok(()),
                false => Err(WorkflowAppendError::Fenced),
            }
        })
    }

    fn cancel<'a>(&'a self, address: &'a WorkflowAddress) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move { self.request_cancel(address).await.map_err(Failure::new) })
    }

    fn claim<'a>(
        &'a self,
        owner: &'a str,
        time: Duration,
        busy: &'a [String],
        only: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<WorkflowLease>, Failure>> {
        Box::pin(async move { self.take(owner, time, busy, only).await.map_err(Failure::new) })
    }

    fn renew<'a>(
        &'a self,
        lease: &'a WorkflowLease,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, WorkflowAppendError>> {
        Box::pin(async move {
            let renewed = self.extend(lease, time).await.map_err(Failure::new)?;
            renewed.ok_or(WorkflowAppendError::Fenced)
        })
    }

    fn release<'a>(&'a self, lease: &'a WorkflowLease) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.give_back(lease).await.map_err(Failure::new) })
    }
}
