//! Authorities: what issues certificates and signs requests, in generations.

use std::time::Duration;

use sqlx::Row as _;
use time::OffsetDateTime;

use crate::Store;
use crate::error::{StoreError, of};

/// How long an authority is trusted after another has taken its place: longer than any
/// certificate that it issued is valid.
const TRUSTED_AFTER_REPLACEMENT: &str = "8 days";

/// One generation, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRow {
    pub generation: u32,
    /// The CA's certificate, DER.
    pub certificate: Vec<u8>,
    /// Its keys, encrypted with control's secret.
    pub sealed: Vec<u8>,
    pub made_at: OffsetDateTime,
    /// When it begins, or began, to issue and sign.
    pub active_from: OffsetDateTime,
    /// Whether it issues and signs now.
    pub is_current: bool,
}

impl Store {
    /// The authorities that are trusted now, oldest first, and the database's clock in
    /// milliseconds since 1970.
    pub async fn authorities(&self) -> Result<(Vec<AuthorityRow>, u64), StoreError> {
        let sql = format!(
            "with lasting as (
               select *, lead(active_from) over (order by generation) as replaced_at
               from authority where dropped_at is null)
             select generation, certificate, sealed, made_at, active_from,
                    generation = (select max(generation) from lasting where active_from <= now())
                      is true as is_current
             from lasting
             where replaced_at is null
                or replaced_at > now() - interval '{TRUSTED_AFTER_REPLACEMENT}'
             order by generation"
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&self.pool).await?;
        let rows = rows.iter().map(|row| {
            let generation: i32 = row.try_get("generation")?;
            Ok(AuthorityRow {
                generation: generation.unsigned_abs(),
                certificate: row.try_get("certificate")?,
                sealed: row.try_get("sealed")?,
                made_at: row.try_get("made_at")?,
                active_from: row.try_get("active_from")?,
                is_current: row.try_get("is_current")?,
            })
        });
        let rows = rows.collect::<Result<_, StoreError>>()?;
        Ok((rows, self.clock().await?))
    }

    /// The database's clock, in milliseconds since 1970.
    pub async fn clock(&self) -> Result<u64, StoreError> {
        let now: i64 =
            sqlx::query_scalar("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
                .fetch_one(&self.pool)
                .await?;
        Ok(now.unsigned_abs())
    }

    /// Keeps the first authority, unless there is one: replicas that start at the same
    /// moment agree on one.
    pub async fn add_first_authority(
        &self,
        certificate: &[u8],
        sealed: &[u8],
    ) -> Result<(), StoreError> {
        let mut change = self.pool.begin().await?;
        sqlx::query("lock table authority in share row exclusive mode")
            .execute(&mut *change)
            .await
            .map_err(of)?;
        sqlx::query(
            "insert into authority (certificate, sealed)
             select $1, $2 where not exists (select from authority where dropped_at is null)",
        )
        .bind(certificate)
        .bind(sealed)
        .execute(&mut *change)
        .await
        .map_err(of)?;
        change.commit().await.map_err(of)
    }

    /// Keeps another authority, which is trusted now, and issues and signs after `delay`.
    pub async fn add_authority(
        &self,
        certificate: &[u8],
        sealed: &[u8],
        delay: Duration,
    ) -> Result<u32, StoreError> {
        let generation: i32 = sqlx::query_scalar(
            "insert into authority (certificate, sealed, active_from)
             values ($1, $2, now() + $3 * interval '1 second') returning generation",
        )
        .bind(certificate)
        .bind(sealed)
        .bind(delay.as_secs_f64())
        .fetch_one(&self.pool)
        .await
        .map_err(of)?;
        Ok(generation.unsigned_abs())
    }

    /// Trusts an authority no longer. False: it is not there, or it is the one that
    /// issues and signs now.
    pub async fn drop_authority(&self, generation: u32) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update authority set dropped_at = now()
             where generation = $1 and dropped_at is null
               and generation <> (select max(generation) from authority
                                  where dropped_at is null and active_from <= now())",
        )
        .bind(i32::try_from(generation).unwrap_or(i32::MAX))
        .execute(&self.pool)
        .await
        .map_err(of)?;
        Ok(done.rows_affected() > 0)
    }
}
