//! What things cost, and what a tenant has used.

use sqlx::Row as _;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// Of one unit of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    pub what: String,
    pub nano_dollars: u64,
}

/// What a tenant was charged on one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bill {
    pub account: String,
    pub charges: u64,
    pub nano_dollars: i128,
}

impl Store {
    pub async fn prices(&self) -> Result<Vec<Price>, StoreError> {
        let rows = sqlx::query("select what, nano_dollars from price order by what")
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                let nano_dollars = read::number(row, "nano_dollars")?;
                Ok(Price { what: row.try_get("what")?, nano_dollars })
            })
            .collect()
    }

    /// From now on; what was charged stays as it is. False: nothing has this name.
    pub async fn set_price(&self, what: &str, nano_dollars: u64) -> Result<bool, StoreError> {
        let done = sqlx::query("update price set nano_dollars = $2 where what = $1")
            .bind(what)
            .bind(read::signed(nano_dollars))
            .execute(&self.pool)
            .await
            .map_err(of)?;
        Ok(done.rows_affected() > 0)
    }

    /// What a tenant was charged since then, by account.
    pub async fn bill(&self, tenant: &str, since: OffsetDateTime) -> Result<Vec<Bill>, StoreError> {
        // As text: a sum may be larger than any number that both sides know.
        let rows = sqlx::query(
            "select credit, count(*) as charges, sum(nano_dollars)::text as sum
             from ledger where tenant = $1 and at >= $2 group by credit order by credit",
        )
        .bind(tenant)
        .bind(since)
        .fetch_all(&self.pool)
        .await?;
        rows.iter()
            .map(|row| {
                let sum: String = row.try_get("sum")?;
                Ok(Bill {
                    account: row.try_get("credit")?,
                    charges: read::number(row, "charges")?,
                    nano_dollars: sum
                        .parse()
                        .map_err(|_| StoreError::Unreadable { what: "a sum", value: sum })?,
                })
            })
            .collect()
    }
}
