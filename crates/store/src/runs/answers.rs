//! Answers that this process kept, and those that others shared.
//!
//! ```text
//!   worker ─► file of this replica ─► event, file removed
//!                    └── older than 2 s: the worker died, or the database is away
//!                         └─► `run_answer` ─► the worker that takes the run over, at any replica
//! ```
//!
//! An answer whose event is written within a moment costs no statement.

use std::io;
use std::time::Duration;

use belljar_domain::{RunId, Sequence};
use belljar_journal::{Address, AnswerFolder, Failure, ReadError};
use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use super::{Runs, failed};
use crate::read;

/// A worker writes the event of an answer within milliseconds. One that is older is shared.
const SHARE_AFTER: Duration = Duration::from_secs(2);
/// Time between two looks at the folder.
const SHARE_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time that one answer takes to share. It is tried again at the next look.
const SHARE_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers that are shared at the same time: few of the connections of the store.
const SHARED_AT_ONCE: usize = 4;
/// A worker that takes a run over waits so long for an answer that another replica may share.
pub(super) const GRACE: Duration = Duration::from_secs(4);
/// Time between two removals of shared answers that are not needed any more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// True if the request with this number has its answer, or was given up.
const IS_SETTLED: &str = "(r.state = 'finished' or exists (
    select from run_event e where e.run_id = r.id and e.seq > ASKED
      and e.kind in ('llm_responded', 'llm_failed')))";

async fn blocking<T: Send + 'static>(
    folder: &AnswerFolder,
    work: impl FnOnce(&AnswerFolder) -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let folder = folder.clone();
    let done = tokio::task::spawn_blocking(move || work(&folder)).await;
    done.map_err(Failure::new)?.map_err(Failure::new)
}

impl Runs {
    /// The same, with answers kept in this folder, which is this replica's own.
    #[must_use]
    pub fn keep_answers_in(self, folder: AnswerFolder) -> Self {
        Self { answers: Some(folder), ..self }
    }

    /// Shares answers that are not written within a moment, and those of a process before this one,
    /// until it is dropped.
    pub async fn share_answers(&self) {
        let Some(folder) = &self.answers else { return };
        let mut swept = Instant::now();
        loop {
            tokio::time::sleep(SHARE_INTERVAL).await;
            if let Err(error) = self.share_waiting(folder).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot list kept answers of models");
            }
            if swept.elapsed() >= SWEEP_INTERVAL {
                swept = Instant::now();
                if let Err(error) = self.sweep_answers().await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot remove shared answers of models");
                }
            }
        }
    }

    pub(super) async fn keep_own_answer(
        &self,
        run: &Address,
        asked: Sequence,
        answer: Vec<u8>,
    ) -> Result<(), Failure> {
        let Some(folder) = &self.answers else { return Ok(()) };
        let run = run.run.clone();
        blocking(folder, move |folder| folder.keep(&run, asked, &answer)).await
    }

    pub(super) async fn find_answer(
        &self,
        run: &Address,
        asked: Sequence,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        if let Some(folder) = &self.answers {
            let run = run.run.clone();
            let own = blocking(folder, move |folder| folder.find(&run, asked)).await?;
            if own.is_some() {
                return Ok(own);
            }
        }
        let shared = sqlx::query_scalar::<_, Vec<u8>>(
            "select a.answer from run_answer a join run r on r.id = a.run_id
             where r.tenant = $1 and r.id = $2 and a.asked = $3",
        )
        .bind(&run.tenant)
        .bind(run.run.as_str())
        .bind(read::signed(asked.0))
        .fetch_optional(&self.store.pool)
        .await;
        Ok(shared.map_err(failed)?)
    }

    pub(super) async fn forget_own_answer(
        &self,
        run: &Address,
        asked: Sequence,
    ) -> Result<(), Failure> {
        let Some(folder) = &self.answers else { return Ok(()) };
        let run = run.run.clone();
        blocking(folder, move |folder| folder.forget(&run, asked)).await
    }

    /// Shares each answer that waits: one that fails, or takes too long, holds up no other.
    async fn share_waiting(&self, folder: &AnswerFolder) -> Result<(), Failure> {
        let waiting = blocking(folder, |folder| folder.older_than(SHARE_AFTER)).await?;
        let all: Vec<_> =
            waiting.into_iter().map(|(run, asked)| self.try_share(folder, run, asked)).collect();
        stream::iter(all).buffer_unordered(SHARED_AT_ONCE).for_each(std::future::ready).await;
        Ok(())
    }

    async fn try_share(&self, folder: &AnswerFolder, run: RunId, asked: Sequence) {
        let shared = self.share_kept(folder, &run, asked);
        let error = match tokio::time::timeout(SHARE_TIMEOUT, shared).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(elapsed) => Failure::new(elapsed),
        };
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, run.id = %run, "cannot share a kept answer of a model");
    }

    async fn share_kept(
        &self,
        folder: &AnswerFolder,
        run: &RunId,
        asked: Sequence,
    ) -> Result<(), Failure> {
        let of = run.clone();
        // Its worker may have written the event meanwhile.
        let answer = blocking(folder, move |folder| folder.find(&of, asked)).await?;
        let Some(answer) = answer else { return Ok(()) };
        self.share(run, asked, answer).await?;
        let of = run.clone();
        blocking(folder, move |folder| folder.forget(&of, asked)).await
    }

    /// Shares an answer, unless its request is settled.
    async fn share(&self, run: &RunId, asked: Sequence, answer: Vec<u8>) -> Result<(), Failure> {
        let sql = format!(
            "insert into run_answer (run_id, asked, answer)
             select r.id, $2, $3 from run r where r.id = $1 and not {}
             on conflict do nothing",
            IS_SETTLED.replace("ASKED", "$2")
        );
        let shared = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(run.as_str())
            .bind(read::signed(asked.0))
            .bind(answer)
            .execute(&self.store.pool)
            .await
            .map_err(failed)?;
        if shared.rows_affected() > 0 {
            tracing::info!(run.id = %run, "kept answer of a model shared");
        }
        Ok(())
    }

    /// Removes shared answers of requests that are settled.
    async fn sweep_answers(&self) -> Result<(), Failure> {
        let sql = format!(
            "delete from run_answer a using run r where r.id = a.run_id and {}",
            IS_SETTLED.replace("ASKED", "a.asked")
        );
        let swept = sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&self.store.pool).await;
        swept.map(drop).map_err(failed)
    }
}
