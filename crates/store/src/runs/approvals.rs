//! Runs whose tool calls wait for an approval. A table has them while they wait, so that no search
//! reads other runs.

use belljar_journal::event::PausePoint;
use belljar_journal::{Address, ApprovalQuery, Body, ReadError, State};
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use super::look::id;
use super::{Runs, failed, unreadable};
use crate::read;

/// The change of that table by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ApprovalChange {
    /// The end of the time of a call that begins to wait.
    pub(super) until: Option<OffsetDateTime>,
    /// The run waits no more.
    pub(super) is_over: bool,
}

impl ApprovalChange {
    /// Of several events, the last that changes the state of the run counts.
    pub(super) fn of<'a>(bodies: impl DoubleEndedIterator<Item = &'a Body>) -> Self {
        let changes = |body: &&Body| State::after(body.kind()).is_some();
        match bodies.rev().find(changes) {
            Some(Body::Paused(paused)) => match &paused.at {
                Some(PausePoint::Approval { until, .. }) => {
                    Self { until: Some(*until), is_over: false }
                }
                _ => Self { until: None, is_over: true },
            },
            found => Self { until: None, is_over: found.is_some() },
        }
    }
}

impl Runs {
    pub(super) async fn with_approvals(
        &self,
        query: ApprovalQuery<'_>,
    ) -> Result<Vec<Address>, ReadError> {
        let rows = sqlx::query(
            "select tenant, run_id as id from run_approval
             where ($1::text is null or tenant = $1)
               and ($2::timestamptz is null or until <= $2)
             order by until, run_id limit $3",
        )
        .bind(query.tenant)
        .bind(query.due)
        .bind(read::signed(query.most as u64))
        .fetch_all(&self.store.pool)
        .await
        .map_err(failed)?;
        let address = |row: &PgRow| -> Result<Address, ReadError> {
            let tenant = row.try_get("tenant").map_err(failed)?;
            Ok(Address { tenant, run: id(row, "id").map_err(unreadable)? })
        };
        rows.iter().map(address).collect()
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::Sequence;
    use belljar_domain::approval::ToolCall;
    use belljar_journal::event::{CallRef, Cancelled, Finished, Outcome, Paused};

    use super::*;

    #[test]
    fn the_last_change_of_state_counts() {
        let call = CallRef { turn: 1, id: "c".into() };
        let tool = ToolCall::new("shell", None, "{}", String::new());
        let until = OffsetDateTime::UNIX_EPOCH;
        let at = Some(PausePoint::Approval { call, tool, until });
        let waits = Body::from(Paused { answers: None, at });
        let paused = Body::from(Paused { answers: None, at: None });
        let other = Body::from(Cancelled { answers: Sequence(1) });
        let (error, message, result) = Default::default();
        let ended = Body::from(Finished { outcome: Outcome::Cancelled, error, message, result });
        let of = |bodies: &[Body]| {
            let change = ApprovalChange::of(bodies.iter());
            (change.until.is_some(), change.is_over)
        };
        assert_eq!(of(std::slice::from_ref(&waits)), (true, false));
        assert_eq!(of(&[paused.clone(), waits.clone(), other.clone()]), (true, false));
        assert_eq!(of(&[waits.clone(), paused]), (false, true));
        assert_eq!(of(&[waits, ended]), (false, true));
        assert_eq!(of(&[other]), (false, false));
    }
}
