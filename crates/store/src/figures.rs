//! Sums of what runs did, of all replicas of a platform.

use belljar_journal::{Failure, FigureStore, SpanSums, Sums};
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::error::of;
use crate::{Store, read};

/// Rows of one statement.
const BATCH: usize = 5000;

/// Figures in PostgreSQL; cheap to clone.
#[derive(Debug, Clone)]
pub struct RunFigures {
    store: Store,
}

impl Store {
    pub fn figures(&self) -> RunFigures {
        RunFigures { store: self.clone() }
    }
}

fn failed(error: sqlx::Error) -> Failure {
    Failure::new(of(error))
}

impl RunFigures {
    async fn write(&self, writer: &str, spans: &[SpanSums]) -> Result<(), Failure> {
        let rows: Vec<(&SpanSums, &String, u64)> = spans
            .iter()
            .flat_map(|span| span.sums.iter().map(move |(name, value)| (span, name, *value)))
            .collect();
        for batch in rows.chunks(BATCH) {
            // Of a tenant that is no more, nothing is kept.
            sqlx::query(
                "insert into run_figure (tenant, at, name, writer, value)
                 select t.name, f.at, f.name, $1, f.value
                 from unnest($2::text[], $3::timestamptz[], $4::text[], $5::bigint[])
                      as f (tenant, at, name, value)
                 join tenant t on t.name = f.tenant
                 on conflict (tenant, at, name, writer) do update set value = excluded.value",
            )
            .bind(writer)
            .bind(batch.iter().map(|(span, ..)| span.tenant.clone()).collect::<Vec<_>>())
            .bind(batch.iter().map(|(span, ..)| span.from).collect::<Vec<_>>())
            .bind(batch.iter().map(|(_, name, _)| (*name).clone()).collect::<Vec<_>>())
            .bind(batch.iter().map(|(.., value)| read::signed(*value)).collect::<Vec<_>>())
            .execute(&self.store.pool)
            .await
            .map_err(failed)?;
        }
        Ok(())
    }

    async fn add_up(&self, tenant: &str, from: OffsetDateTime) -> Result<Sums, Failure> {
        let rows = sqlx::query_as::<_, (String, i64)>(
            "select name, least(sum(value), 9223372036854775807)::bigint
             from run_figure where tenant = $1 and at >= $2 group by name",
        )
        .bind(tenant)
        .bind(from)
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        Ok(rows.into_iter().map(|(name, value)| (name, value.unsigned_abs())).collect())
    }

    async fn remove(&self, before: OffsetDateTime) -> Result<(), Failure> {
        let done = sqlx::query("delete from run_figure where at < $1")
            .bind(before)
            .execute(&self.store.pool)
            .await;
        done.map(drop).map_err(failed)
    }
}

impl FigureStore for RunFigures {
    fn put<'a>(
        &'a self,
        writer: &'a str,
        spans: &'a [SpanSums],
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self.write(writer, spans))
    }

    fn sums<'a>(
        &'a self,
        tenant: &'a str,
        from: OffsetDateTime,
    ) -> BoxFuture<'a, Result<Sums, Failure>> {
        Box::pin(self.add_up(tenant, from))
    }

    fn forget(&self, before: OffsetDateTime) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.remove(before))
    }
}
