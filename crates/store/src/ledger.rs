//! Money: append-only, and balanced by its form.
//!
//! A row takes from one account and gives to another. There is no row that does
//! one of the two only, none is changed, and what is charged for is charged once.

use belljar_model::SandboxId;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::types::Json;

use crate::change::Change;
use crate::error::{StoreError, of};
use crate::{Store, read};

/// What is to be charged.
#[derive(Debug, Clone)]
pub struct Charge<'a> {
    pub tenant: &'a str,
    /// Who pays, and who is paid: names of accounts within the tenant.
    pub debit: &'a str,
    pub credit: &'a str,
    pub nano_dollars: u64,
    /// What for. The same source is never charged twice.
    pub source: &'a str,
    pub sandbox: Option<&'a SandboxId>,
    pub detail: &'a Value,
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub number: u64,
    pub debit: String,
    pub credit: String,
    pub nano_dollars: u64,
    pub source: String,
    pub detail: Value,
}

impl Store {
    /// [`Change::Already`]: this source has been charged for. Nothing is written
    /// for what costs nothing.
    pub async fn charge(&self, charge: &Charge<'_>) -> Result<Change, StoreError> {
        if charge.nano_dollars == 0 {
            return Ok(Change::Already);
        }
        let done = sqlx::query(
            "insert into ledger (tenant, debit, credit, nano_dollars, source, sandbox, detail)
             values ($1, $2, $3, $4, $5, $6, $7) on conflict (tenant, source) do nothing",
        )
        .bind(charge.tenant)
        .bind(charge.debit)
        .bind(charge.credit)
        .bind(read::signed(charge.nano_dollars))
        .bind(charge.source)
        .bind(charge.sandbox.map(SandboxId::as_str))
        .bind(Json(charge.detail))
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(if done.rows_affected() == 0 { Change::Already } else { Change::Done })
    }

    /// What an account has, in billionths of a dollar.
    pub async fn balance(&self, tenant: &str, account: &str) -> Result<i128, StoreError> {
        // As text: a sum may be larger than any number that both sides know.
        let sum: String = sqlx::query_scalar(
            "select coalesce(sum(case when credit = $2 then nano_dollars::numeric
                                      else -nano_dollars::numeric end), 0)::text
             from ledger where tenant = $1 and $2 in (debit, credit)",
        )
        .bind(tenant)
        .bind(account)
        .fetch_one(&self.pool)
        .await?;
        sum.parse().map_err(|_| StoreError::Unreadable { what: "a sum", value: sum })
    }

    /// All that was written after `after`, in order.
    pub async fn entries(
        &self,
        tenant: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let rows = sqlx::query(
            "select number, debit, credit, nano_dollars, source, detail from ledger
             where tenant = $1 and number > $2 order by number limit $3",
        )
        .bind(tenant)
        .bind(read::signed(after))
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        let entry = |row: sqlx::postgres::PgRow| {
            let Json(detail) = row.try_get("detail")?;
            Ok(Entry {
                number: read::number(&row, "number")?,
                debit: row.try_get("debit")?,
                credit: row.try_get("credit")?,
                nano_dollars: read::number(&row, "nano_dollars")?,
                source: row.try_get("source")?,
                detail,
            })
        };
        rows.into_iter().map(entry).collect()
    }
}
