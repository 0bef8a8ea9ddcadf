//! One event more, under a lease or from outside.

use belljar_domain::{Generation, Sequence};
use belljar_journal::event::PausePoint;
use belljar_journal::{Address, AppendError, Appended, Body, NewEvent, State, Stored, rules};
use sqlx::Row as _;

use super::approvals::ApprovalChange;
use super::money::MoneyChange;
use super::{Runs, failed, unreadable};
use crate::error::StoreError;
use crate::read;

/// How often two writers under one key may meet before it is somebody's fault.
const TRIES: u32 = 5;

/// Where a body goes: into the row, or beside it under its digest.
pub(super) struct Columns<'a> {
    pub(super) body: Option<&'a str>,
    pub(super) blob: Option<&'a [u8]>,
    pub(super) content: Option<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(stored: &'a Stored) -> Self {
        match stored {
            Stored::Inline(body) => Self { body: Some(body), blob: None, content: None },
            Stored::Spilled { blob, content } => Self {
                body: None,
                blob: Some(blob.sha256.as_bytes()),
                content: Some(content.as_bytes()),
            },
        }
    }
}

impl Runs {
    pub(super) async fn write(
        &self,
        run: &Address,
        lease: Option<Generation>,
        event: &NewEvent,
        stored: &Stored,
    ) -> Result<Appended, AppendError> {
        for _ in 0..TRIES {
            if let Some(seq) = self.move_on(run, lease, event, stored).await? {
                return Ok(Appended::Fresh(seq));
            }
            if let Some(seq) = self.why_not(run, lease, event).await? {
                return Ok(Appended::Repeated(seq));
            }
        }
        let value = run.run.to_string();
        Err(unreadable(StoreError::Unreadable { what: "a run that never rests", value }).into())
    }

    /// None: something is not as the writer thinks.
    async fn move_on(
        &self,
        run: &Address,
        lease: Option<Generation>,
        event: &NewEvent,
        stored: &Stored,
    ) -> Result<Option<Sequence>, AppendError> {
        let columns = Columns::of(stored);
        let state = State::after(event.body.kind()).map(State::as_str);
        let money = MoneyChange::of([&event.body]);
        let approval = ApprovalChange::of([&event.body].into_iter());
        let written = sqlx::query_scalar::<_, i64>(
            "with moved as (
               update run set head_seq = head_seq + 1,
                      state = coalesce($6, state), ready = coalesce($7, ready),
                      needs = greatest(needs, $9),
                      lease_owner = case when $6 = 'finished' then null else lease_owner end,
                      lease_until = case when $6 = 'finished' then null else lease_until end,
                      spent_nanos = spent_nanos + $14,
                      allowed_nanos = greatest(coalesce($15, allowed_nanos), $16)
               where tenant = $1 and id = $2 and state <> 'finished'
                 and ($3::bigint is null or lease_gen = $3)
                 and ($5::bigint is null or head_seq = $5)
                 and ($4::text is null or not exists (
                       select from run_event where run_id = $2 and idem_key = $4))
               returning head_seq),
             kept as (
               insert into run_blob (run_id, sha256, content)
               select $2, $11, $12 from moved where $11::bytea is not null
               on conflict do nothing),
             waiting as (
               insert into run_approval (run_id, tenant, until)
               select $2, $1, $17 from moved where $17::timestamptz is not null
               on conflict (run_id) do update set until = excluded.until),
             decided as (
               delete from run_approval using moved where $18 and run_id = $2)
             insert into run_event (run_id, seq, kind, v, gen, idem_key, body, blob_ref, fact)
             select $2, head_seq, $8, $9, $3, $4, $10::json, $11, $13 from moved
             returning seq",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(lease.map(|lease| read::signed(lease.0)))
        .bind(event.key.as_ref().map(|key| key.as_str()))
        .bind(event.seen.map(|seen| read::signed(seen.0)))
        .bind(state)
        .bind(rules::ready_after(&event.body))
        .bind(event.body.kind())
        .bind(i32::try_from(event.body.version()).unwrap_or(i32::MAX))
        .bind(columns.body)
        .bind(columns.blob)
        .bind(columns.content)
        .bind(fact(&event.body))
        .bind(money.spent)
        .bind(money.allowed)
        .bind(money.asked)
        .bind(approval.until)
        .bind(approval.is_over)
        .fetch_optional(&self.store.pool)
        .await;
        match written {
            Ok(seq) => Ok(seq.map(|seq| Sequence(seq.unsigned_abs()))),
            // Another one under the same key was quicker.
            Err(error) if is_repetition(&error) => Ok(None),
            Err(error) => Err(failed(error).into()),
        }
    }

    /// Why nothing was written. None: by now it could be; `Some`: it is there.
    async fn why_not(
        &self,
        run: &Address,
        lease: Option<Generation>,
        event: &NewEvent,
    ) -> Result<Option<Sequence>, AppendError> {
        let row = sqlx::query(
            "select lease_gen, state, head_seq,
                    (select seq from run_event where run_id = id and idem_key = $3) as known
             from run where tenant = $1 and id = $2",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(event.key.as_ref().map(|key| key.as_str()))
        .fetch_optional(&self.store.pool)
        .await
        .map_err(failed)?;
        let row = row.ok_or(AppendError::NoRun)?;
        let current = Generation(read::number(&row, "lease_gen").map_err(unreadable)?);
        let head = Sequence(read::number(&row, "head_seq").map_err(unreadable)?);
        let known: Option<i64> = row.try_get("known").map_err(failed)?;
        let state: String = row.try_get("state").map_err(failed)?;
        if lease.is_some_and(|lease| lease != current) {
            return Err(AppendError::Fenced { current });
        }
        if let Some(seq) = known {
            return Ok(Some(Sequence(seq.unsigned_abs())));
        }
        if state == State::Finished.as_str() {
            return Err(AppendError::Finished);
        }
        match event.seen {
            Some(seen) if seen != head => Err(AppendError::Unseen { head }),
            _ => Ok(None),
        }
    }
}

/// Returns the fact of an event that webhook messages tell, whatever the length of its body.
pub(super) fn fact(body: &Body) -> Option<&'static str> {
    match body {
        Body::Finished(finished) => Some(finished.outcome.as_str()),
        Body::Paused(paused) => {
            let human = |at: &PausePoint| {
                matches!(at, PausePoint::Question { .. } | PausePoint::Approval { .. })
            };
            paused.at.as_ref().is_some_and(human).then_some("question")
        }
        _ => None,
    }
}

pub(super) fn is_repetition(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.constraint()) == Some("run_event_by_key")
}
