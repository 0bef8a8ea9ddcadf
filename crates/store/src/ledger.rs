//! Money: append-only, and balanced by its form.
//!
//! A row takes from one account and gives to another. There is no row that does
//! one of the two only, none is changed, and what is charged for is charged once.
//!
//! A trigger charges sandboxes when they end; rows of connections are charged where they are
//! stored ([`Rows`](crate::Rows)); stored bytes are charged once an hour.

use belljar_domain::SandboxId;
use belljar_journal::event::Tokens;
use belljar_journal::{
    Amounts, Failure, LedgerStore, UsageGroup, UsageKey, UsageName, UsagePage, UsageQuery,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
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

/// The ledger in PostgreSQL, to be summed; cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger {
    store: Store,
}

const USAGE: &str = r#"
    select * from (
      select case when $5 then tenant end as tenant, case when $6 then run end as run,
             case when $7 then model end as model, case when $8 then operation end as operation,
             case when $9 then
               to_char(coalesce(began_at, at) at time zone 'utc', 'YYYY-MM-DD') end as day,
             case when $10 then credit end as account,
             count(*) as charges,
             least(sum(input_tokens), 9223372036854775807)::bigint as input,
             least(sum(cache_read_tokens), 9223372036854775807)::bigint as cache_read,
             least(sum(cache_write_tokens), 9223372036854775807)::bigint as cache_write,
             least(sum(output_tokens), 9223372036854775807)::bigint as output,
             least(sum(egress_bytes), 9223372036854775807)::bigint as egress_bytes,
             least(sum(sandbox_ms), 9223372036854775807)::bigint as sandbox_ms,
             least(sum(stored_byte_hours), 9223372036854775807)::bigint as stored_byte_hours,
             least(sum(nano_dollars), 9223372036854775807)::bigint as nano_dollars,
             least(coalesce(sum(nano_dollars) filter (where is_estimated), 0),
                   9223372036854775807)::bigint as estimated
      from ledger
      where ($1::text is null or tenant = $1)
        and coalesce(began_at, at) >= $2 and coalesce(began_at, at) < $3
        and ($4::text is null or run = $4)
      group by 1, 2, 3, 4, 5, 6) g
    order by tenant collate "C" nulls first, run collate "C" nulls first,
             model collate "C" nulls first, operation collate "C" nulls first,
             day collate "C" nulls first, account collate "C" nulls first
    limit $11 offset $12"#;

impl Store {
    pub fn ledger(&self) -> Ledger {
        Ledger { store: self.clone() }
    }
}

impl Ledger {
    async fn sum(&self, query: &UsageQuery) -> Result<UsagePage, StoreError> {
        // Both statements see the same charges.
        let mut transaction = self.store.pool.begin().await?;
        sqlx::query("set transaction isolation level repeatable read, read only")
            .execute(&mut *transaction)
            .await?;
        let whole = UsageQuery { by: Vec::new(), limit: 1, after: 0, ..query.clone() };
        let total = groups(&mut transaction, &whole).await?.pop().unwrap_or_default();
        let mut groups = groups(&mut transaction, query).await?;
        transaction.commit().await?;
        let is_cut = groups.len() > query.limit;
        groups.truncate(query.limit);
        Ok(UsagePage { total, groups, is_cut })
    }
}

/// The groups of a page, and one more if there is one.
async fn groups(
    connection: &mut sqlx::PgConnection,
    query: &UsageQuery,
) -> Result<Vec<UsageGroup>, StoreError> {
    let mut sql = sqlx::query(USAGE)
        .bind(&query.tenant)
        .bind(query.from)
        .bind(query.to)
        .bind(query.run.as_ref().map(ToString::to_string));
    for key in [
        UsageKey::Tenant,
        UsageKey::Run,
        UsageKey::Model,
        UsageKey::Operation,
        UsageKey::Day,
        UsageKey::Account,
    ] {
        sql = sql.bind(query.by.contains(&key));
    }
    let rows = sql
        .bind(read::signed(query.limit.saturating_add(1) as u64))
        .bind(read::signed(query.after as u64))
        .fetch_all(connection)
        .await?;
    rows.iter().map(group).collect()
}

fn group(row: &PgRow) -> Result<UsageGroup, StoreError> {
    Ok(UsageGroup {
        name: UsageName {
            tenant: row.try_get("tenant")?,
            run: row.try_get("run")?,
            model: row.try_get("model")?,
            operation: row.try_get("operation")?,
            day: row.try_get("day")?,
            account: row.try_get("account")?,
        },
        charges: read::number(row, "charges")?,
        amounts: Amounts {
            tokens: Tokens {
                input: read::number(row, "input")?,
                cache_read: read::number(row, "cache_read")?,
                cache_write: read::number(row, "cache_write")?,
                output: read::number(row, "output")?,
            },
            egress_bytes: read::number(row, "egress_bytes")?,
            sandbox_ms: read::number(row, "sandbox_ms")?,
            stored_byte_hours: read::number(row, "stored_byte_hours")?,
            nano_dollars: read::number(row, "nano_dollars")?,
            estimated_nano_dollars: read::number(row, "estimated")?,
        },
    })
}

impl LedgerStore for Ledger {
    fn usage<'a>(&'a self, query: &'a UsageQuery) -> BoxFuture<'a, Result<UsagePage, Failure>> {
        Box::pin(async move { self.sum(query).await.map_err(Failure::new) })
    }
}
