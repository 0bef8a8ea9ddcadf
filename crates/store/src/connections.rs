//! What sandboxes reached, as their gateway wrote it down.

use belljar_model::SandboxId;
use serde_json::Value;
use sqlx::Row as _;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// One row of a gateway's.
#[derive(Debug, Clone, PartialEq)]
pub struct Reached {
    pub sequence: u64,
    pub at: OffsetDateTime,
    pub call: Option<u64>,
    pub decision: String,
    pub row: Value,
}

impl Store {
    /// Adds rows of a tenant's sandbox. Those that are there already stay as they are,
    /// so a batch may be sent again. Answers how many were new.
    pub async fn add_connections(
        &self,
        tenant: &str,
        sandbox: &SandboxId,
        rows: &[Reached],
    ) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "insert into connection (sandbox, sequence, at, call, decision, row)
             select s.id, new.*
             from sandbox s, unnest($2::bigint[], $3::timestamptz[], $4::bigint[], $5::text[],
                                    $6::jsonb[]) new
             where s.id = $1 and s.tenant = $7
             on conflict do nothing",
        )
        .bind(sandbox.as_str())
        .bind(rows.iter().map(|row| read::signed(row.sequence)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.at).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.call.map(read::signed)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.decision.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| Json(&row.row)).collect::<Vec<_>>())
        .bind(tenant)
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected())
    }

    /// The rows from `from` on, in order. Only of the tenant's own sandbox.
    pub async fn connections(
        &self,
        tenant: &str,
        sandbox: &SandboxId,
        from: u64,
        most: u32,
    ) -> Result<Vec<Reached>, StoreError> {
        let rows = sqlx::query(
            "select c.sequence, c.at, c.call, c.decision, c.row
             from connection c join sandbox s on s.id = c.sandbox
             where s.tenant = $1 and c.sandbox = $2 and c.sequence >= $3
             order by c.sequence limit $4",
        )
        .bind(tenant)
        .bind(sandbox.as_str())
        .bind(read::signed(from))
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        let reached = |row: sqlx::postgres::PgRow| {
            let call: Option<i64> = row.try_get("call")?;
            let Json(text) = row.try_get("row")?;
            Ok(Reached {
                sequence: read::number(&row, "sequence")?,
                at: row.try_get("at")?,
                call: call.map(i64::unsigned_abs),
                decision: row.try_get("decision")?,
                row: text,
            })
        };
        rows.into_iter().map(reached).collect()
    }
}
