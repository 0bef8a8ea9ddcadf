//! Who works on a run. Leases end on the database's clock.

use std::time::Duration;

use belljar_domain::{Generation, Sequence};
use belljar_journal::{Address, ClaimError, FORMAT, Lease, LeaseError, State};
use sqlx::Row as _;

use super::{Runs, failed, unreadable};
use crate::read;

/// How often somebody may come and go while we look.
const TRIES: u32 = 3;

impl Runs {
    pub(super) async fn take(
        &self,
        run: &Address,
        owner: &str,
        time: Duration,
    ) -> Result<Lease, ClaimError> {
        for _ in 0..TRIES {
            if let Some((generation, taken)) = self.try_take(run, owner, time).await? {
                let (address, owner) = (run.clone(), owner.to_owned());
                return Ok(Lease { address, generation, owner, taken });
            }
            self.why_not_taken(run).await?;
        }
        Err(ClaimError::Held { owner: "somebody".to_owned() })
    }

    /// The new generation, and the event that tells of it, in one statement.
    async fn try_take(
        &self,
        run: &Address,
        owner: &str,
        time: Duration,
    ) -> Result<Option<(Generation, Sequence)>, ClaimError> {
        let taken = sqlx::query_as::<_, (i64, i64)>(
            "with before as (
               select id, lease_owner from run
               where tenant = $1 and id = $2 and state <> 'finished' and needs <= $5
                 and (lease_owner is null or lease_until <= now())
               for update),
             taken as (
               update run set lease_gen = lease_gen + 1, lease_owner = $3,
                      lease_until = now() + $4 * interval '1 second',
                      head_seq = head_seq + 1,
                      state = case state when 'waiting' then 'running' else state end
               from before where run.id = before.id
               returning run.id, lease_gen, head_seq, before.lease_owner as lost)
             insert into run_event (run_id, seq, kind, v, gen, body)
             select id, head_seq, 'lease_taken', 1, lease_gen,
                    json_strip_nulls(json_build_object('kind', 'lease_taken', 'v', 1,
                      'generation', lease_gen, 'owner', $3::text, 'took_over', lost))
             from taken returning gen, seq",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(owner)
        .bind(time.as_secs_f64())
        .bind(i32::try_from(FORMAT).unwrap_or(i32::MAX))
        .fetch_optional(&self.store.pool)
        .await
        .map_err(failed)?;
        let lease = |(generation, seq): (i64, i64)| {
            (Generation(generation.unsigned_abs()), Sequence(seq.unsigned_abs()))
        };
        Ok(taken.map(lease))
    }

    async fn why_not_taken(&self, run: &Address) -> Result<(), ClaimError> {
        let row = sqlx::query(
            "select state, needs, lease_owner, coalesce(lease_until > now(), false) as is_held
             from run where tenant = $1 and id = $2",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .fetch_optional(&self.store.pool)
        .await
        .map_err(failed)?;
        let row = row.ok_or(ClaimError::NoRun)?;
        let state: String = row.try_get("state").map_err(failed)?;
        if state == State::Finished.as_str() {
            return Err(ClaimError::Finished);
        }
        if read::count(&row, "needs").map_err(unreadable)? > FORMAT {
            return Err(ClaimError::Newer);
        }
        let owner: Option<String> = row.try_get("lease_owner").map_err(failed)?;
        let is_held: bool = row.try_get("is_held").map_err(failed)?;
        match owner {
            Some(owner) if is_held => Err(ClaimError::Held { owner }),
            _ => Ok(()),
        }
    }

    pub(super) async fn give_back(&self, lease: &Lease) -> Result<(), LeaseError> {
        let done = sqlx::query(
            "update run set lease_owner = null, lease_until = null
             where tenant = $1 and id = $2 and lease_gen = $3",
        )
        .bind(&lease.address.tenant)
        .bind(lease.address.run.as_str())
        .bind(read::signed(lease.generation.0))
        .execute(&self.store.pool)
        .await
        .map_err(failed)?;
        self.or_fenced(lease, done.rows_affected()).await
    }

    pub(super) async fn or_fenced(&self, lease: &Lease, changed: u64) -> Result<(), LeaseError> {
        if changed > 0 {
            return Ok(());
        }
        let current =
            sqlx::query_scalar::<_, i64>("select lease_gen from run where tenant = $1 and id = $2")
                .bind(&lease.address.tenant)
                .bind(lease.address.run.as_str())
                .fetch_optional(&self.store.pool)
                .await
                .map_err(failed)?;
        let current = current.ok_or(LeaseError::NoRun)?;
        Err(LeaseError::Fenced { current: Generation(current.unsigned_abs()) })
    }
}
