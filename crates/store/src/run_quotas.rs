//! Quotas of tenants' runs.

use crate::error::StoreError;
use crate::{Store, read};

/// Quotas that a tenant has of its own. None: the default holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantRunQuota {
    /// Unfinished runs at once.
    pub runs: Option<u32>,
    /// Cost of models since midnight UTC, in billionths of a dollar.
    pub nano_dollars_per_day: Option<u64>,
}

impl Store {
    /// Changes the quotas that are named. The others stay.
    pub async fn put_run_quota(
        &self,
        tenant: &str,
        quota: TenantRunQuota,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "insert into run_quota (tenant, runs, nano_dollars_per_day) values ($1, $2, $3)
             on conflict (tenant) do update set
               runs = coalesce($2, run_quota.runs),
               nano_dollars_per_day = coalesce($3, run_quota.nano_dollars_per_day)",
        )
        .bind(tenant)
        .bind(quota.runs.map(|runs| i32::try_from(runs).unwrap_or(i32::MAX)))
        .bind(quota.nano_dollars_per_day.map(read::signed))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    pub async fn run_quota(&self, tenant: &str) -> Result<TenantRunQuota, StoreError> {
        let row = sqlx::query_as::<_, (Option<i32>, Option<i64>)>(
            "select runs, nano_dollars_per_day from run_quota where tenant = $1",
        )
        .bind(tenant)
        .fetch_optional(&self.pool)
        .await?;
        let (runs, nano_dollars) = row.unwrap_or_default();
        Ok(TenantRunQuota {
            runs: runs.map(i32::unsigned_abs),
            nano_dollars_per_day: nano_dollars.map(i64::unsigned_abs),
        })
    }
}
