//! What was run in sandboxes.

use belljar_model::{EndReason, SandboxId};
use sqlx::Row as _;
use time::OffsetDateTime;

use crate::error::{StoreError, of};
use crate::{Store, read};

/// One call, as its node knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub number: u64,
    /// Of code in a context; else a process.
    pub is_cell: bool,
    pub began_at: OffsetDateTime,
    /// None while it runs.
    pub end: Option<CallEnd>,
    pub cpu_micros: u64,
    pub peak_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    pub at: OffsetDateTime,
    pub reason: EndReason,
    pub exit_code: Option<i32>,
}

impl Store {
    /// Writes calls of a tenant's sandbox, or what has become of them. One that has ended
    /// does not change any more, so reports may come twice and out of order. Answers how many
    /// rows were written: none for a sandbox that is not the tenant's.
    pub async fn put_calls(
        &self,
        tenant: &str,
        sandbox: &SandboxId,
        calls: &[Call],
    ) -> Result<u64, StoreError> {
        let end = |call: &Call| call.end;
        let done = sqlx::query(
            "insert into call (sandbox, number, kind, began_at, ended_at, reason, exit_code,
                               cpu_micros, peak_bytes)
             select s.id, new.* from sandbox s, unnest($2::bigint[], $3::text[], $4::timestamptz[],
                                      $5::timestamptz[], $6::text[], $7::integer[],
                                      $8::bigint[], $9::bigint[]) new
             where s.id = $1 and s.tenant = $10
             on conflict (sandbox, number) do update
               set ended_at = excluded.ended_at, reason = excluded.reason,
                   exit_code = excluded.exit_code,
                   cpu_micros = greatest(call.cpu_micros, excluded.cpu_micros),
                   peak_bytes = greatest(call.peak_bytes, excluded.peak_bytes)
               where call.ended_at is null",
        )
        .bind(sandbox.as_str())
        .bind(column(calls, |call| read::signed(call.number)))
        .bind(column(calls, |call| if call.is_cell { "cell" } else { "process" }))
        .bind(column(calls, |call| call.began_at))
        .bind(column(calls, |call| end(call).map(|end| end.at)))
        .bind(column(calls, |call| end(call).map(|end| end.reason.as_str())))
        .bind(column(calls, |call| end(call).and_then(|end| end.exit_code)))
        .bind(column(calls, |call| read::signed(call.cpu_micros)))
        .bind(column(calls, |call| read::signed(call.peak_bytes)))
        .bind(tenant)
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected())
    }

    /// The calls of a tenant's own sandbox, in order.
    pub async fn calls(
        &self,
        tenant: &str,
        sandbox: &SandboxId,
        from: u64,
        most: u32,
    ) -> Result<Vec<Call>, StoreError> {
        let rows = sqlx::query(
            "select c.number, c.kind, c.began_at, c.ended_at, c.reason, c.exit_code,
                    c.cpu_micros, c.peak_bytes
             from call c join sandbox s on s.id = c.sandbox
             where s.tenant = $1 and c.sandbox = $2 and c.number >= $3
             order by c.number limit $4",
        )
        .bind(tenant)
        .bind(sandbox.as_str())
        .bind(read::signed(from))
        .bind(i64::from(most))
        .fetch_all(&self.pool)
        .await?;
        let call = |row: sqlx::postgres::PgRow| {
            let (at, reason) = (row.try_get("ended_at")?, read::reason(&row, "reason")?);
            let exit_code = row.try_get("exit_code")?;
            let end = Option::zip(at, reason);
            Ok(Call {
                number: read::number(&row, "number")?,
                is_cell: row.try_get::<&str, _>("kind")? == "cell",
                began_at: row.try_get("began_at")?,
                end: end.map(|(at, reason)| CallEnd { at, reason, exit_code }),
                cpu_micros: read::number(&row, "cpu_micros")?,
                peak_bytes: read::number(&row, "peak_bytes")?,
            })
        };
        rows.into_iter().map(call).collect()
    }
}

fn column<T>(calls: &[Call], of: impl Fn(&Call) -> T) -> Vec<T> {
    calls.iter().map(of).collect()
}
