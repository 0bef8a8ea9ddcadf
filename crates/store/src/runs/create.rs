//! Runs that begin.

use belljar_domain::Sequence;
use belljar_journal::{CreateError, Created, Failure, First, NewRun, rules};

use super::append::Columns;
use super::money::of_new;
use super::{Runs, failed};
use crate::read;

impl Runs {
    pub(super) async fn make(&self, new: &NewRun) -> Result<Created, CreateError> {
        let body = new.first.body();
        let stored = rules::store(&body)?.ok_or(CreateError::TooLarge)?;
        let columns = Columns::of(&stored);
        let parent = match &new.first {
            First::Created(_) => None,
            First::Forked(forked) => Some(forked),
        };
        let (has_model, allowed) = of_new(&new.first);
        let mut change = self.store.pool.begin().await.map_err(failed)?;
        if let Some(most) = new.most_unfinished {
            let unfinished = unfinished(&mut change, &new.address.tenant).await?;
            if unfinished >= most {
                change.rollback().await.map_err(failed)?;
                return match self.why_not_made(new).await {
                    Err(CreateError::NoParent | CreateError::NoTenant) => {
                        Err(CreateError::TooManyUnfinished { most, unfinished })
                    }
                    known => known,
                };
            }
        }
        let made = sqlx::query_scalar::<_, i64>(
            "with place as (
               select name, 0::bigint as base, 0 as needs from tenant
               where $4::text is null and name = $1 and closed_at is null
               union all
               select p.tenant, $5, p.needs from run p join tenant t on t.name = p.tenant
               where p.tenant = $1 and p.id = $4 and $5 between 1 and p.head_seq
                 and t.closed_at is null),
             made as (
               insert into run (id, tenant, state, head_seq, needs, parent_run, parent_seq, title,
                                has_model, allowed_nanos)
               select $2, name, 'waiting', base + 1, greatest($7, needs), $4, $5, $3, $11, $12
               from place
               on conflict (id) do nothing
               returning head_seq, made_at),
             kept as (
               insert into run_blob (run_id, sha256, content)
               select $2, $9, $10 from made where $9::bytea is not null)
             insert into run_event (run_id, seq, kind, v, body, blob_ref, at)
             select $2, head_seq, $6, $7, $8::json, $9, made_at from made
             returning seq",
        )
        .bind(&new.address.tenant)
        .bind(new.address.run.as_str())
        .bind(rules::title(&new.first))
        .bind(parent.map(|forked| forked.parent.as_str()))
        .bind(parent.map(|forked| read::signed(forked.after.0)))
        .bind(body.kind())
        .bind(i32::try_from(body.version()).unwrap_or(i32::MAX))
        .bind(columns.body)
        .bind(columns.blob)
        .bind(columns.content)
        .bind(has_model)
        .bind(allowed)
        .fetch_optional(&mut *change)
        .await
        .map_err(failed)?;
        change.commit().await.map_err(failed)?;
        match made {
            Some(_) => Ok(Created::Made),
            None => self.why_not_made(new).await,
        }
    }

    /// It was there before, or there is nothing to make it from.
    async fn why_not_made(&self, new: &NewRun) -> Result<Created, CreateError> {
        let found = sqlx::query_as::<_, (String, Option<i64>)>(
            "select tenant, parent_seq from run where id = $1",
        )
        .bind(new.address.run.as_str())
        .fetch_optional(&self.store.pool)
        .await
        .map_err(failed)?;
        match (found, &new.first) {
            (Some((tenant, base)), _) if tenant == new.address.tenant => {
                let first = Sequence(base.map_or(0, i64::unsigned_abs)).next();
                let events = self.events(&new.address, first, 1).await;
                let events = events.map_err(belljar_journal::Failure::new)?;
                let first = events.into_iter().next().ok_or(CreateError::Taken)?;
                Ok(Created::Already(Box::new(first)))
            }
            (Some(_), _) => Err(CreateError::Taken),
            (None, First::Forked(_)) => Err(CreateError::NoParent),
            (None, First::Created(_)) => Err(CreateError::NoTenant),
        }
    }
}

/// Counts the unfinished runs of a tenant. No other run of it is made until the transaction ends.
async fn unfinished(change: &mut sqlx::PgConnection, tenant: &str) -> Result<u64, Failure> {
    sqlx::query("select pg_advisory_xact_lock(hashtext($1))")
        .bind(tenant)
        .execute(&mut *change)
        .await
        .map_err(failed)?;
    let count = sqlx::query_scalar::<_, i64>(
        "select count(*) from run where tenant = $1 and state <> 'finished'",
    )
    .bind(tenant)
    .fetch_one(change)
    .await
    .map_err(failed)?;
    Ok(count.unsigned_abs())
}
