//! Every fact that workers here write into journals: counted, logged, and summed for its
//! tenant.

mod spans;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_agent::{Observer, RunSpan, Signal};
use belljar_domain::approval::ApprovalAction;
use belljar_journal::{Address, Failure, FigureStore};
use belljar_telemetry::{Spent, metrics, record_known};
use time::OffsetDateTime;

use crate::figures;
use crate::traces::known;
use spans::OpenSpans;

/// How often sums are kept: a process that is killed loses no older ones.
const KEEP: Duration = Duration::from_secs(5);
/// How old they may be that this process shows. However often it is asked, it writes no more
/// often than this.
const FRESH: Duration = Duration::from_secs(1);
/// How often old sums are forgotten, and how old they are: no window is longer than a day.
const FORGET: Duration = Duration::from_secs(60 * 60);
const OLD: Duration = Duration::from_secs(25 * 60 * 60);

/// Passes signals on to metrics, to the log and to figures.
#[derive(Debug)]
pub(crate) struct SignalRecorder {
    figures: Arc<dyn FigureStore>,
    /// The name of this writer: no other process has it, nor this one after a restart.
    writer: String,
    open: Mutex<OpenSpans>,
    /// When sums were kept last. Held while they are, so that older ones never replace newer
    /// ones.
    kept: tokio::sync::Mutex<Option<Instant>>,
}

impl Observer for SignalRecorder {
    fn observe(&self, run: &Address, signal: &Signal) {
        self.open().add(&run.tenant, OffsetDateTime::now_utc(), figures::added(signal));
        log(run, signal);
        count(signal);
    }

    fn trace(&self, run: &Address, span: &RunSpan) {
        record_known(known(run, span));
    }
}

impl SignalRecorder {
    pub(crate) fn new(figures: Arc<dyn FigureStore>, owner: &str) -> Self {
        let writer = format!("{owner}-{}", OffsetDateTime::now_utc().unix_timestamp_nanos());
        let (open, kept) = Default::default();
        Self { figures, writer, open, kept }
    }

    fn open(&self) -> MutexGuard<'_, OpenSpans> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps all sums that have changed.
    pub(crate) async fn keep(&self) -> Result<(), Failure> {
        self.keep_older(Duration::ZERO).await
    }

    /// The same, unless that was done just now.
    pub(crate) async fn freshen(&self) -> Result<(), Failure> {
        self.keep_older(FRESH).await
    }

    async fn keep_older(&self, age: Duration) -> Result<(), Failure> {
        let mut kept = self.kept.lock().await;
        if kept.is_some_and(|at| at.elapsed() < age) {
            return Ok(());
        }
        let now = Instant::now();
        let (spans, changes) = self.open().changed();
        if !spans.is_empty() {
            self.figures.put(&self.writer, &spans).await?;
            self.open().kept(&spans, &changes, OffsetDateTime::now_utc());
        }
        *kept = Some(now);
        Ok(())
    }

    /// Keeps sums again and again, and forgets old ones.
    pub(crate) async fn keep_on(&self) {
        let mut forgotten: Option<Instant> = None;
        loop {
            tokio::time::sleep(KEEP).await;
            let mut done = self.keep().await;
            if done.is_ok() && forgotten.is_none_or(|at| at.elapsed() >= FORGET) {
                forgotten = Some(Instant::now());
                done = self.figures.forget(OffsetDateTime::now_utc() - OLD).await;
            }
            if let Err(error) = done {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot keep the figures of runs");
            }
        }
    }
}

fn count(signal: &Signal) {
    let metrics = metrics().runs();
    match *signal {
        Signal::Started { start, queued } => metrics.started(start.as_str(), queued),
        Signal::Answered { is_refusal, tokens, nano_dollars } => {
            metrics.turn();
            metrics.model_request(if is_refusal { "refused" } else { "answered" });
            metrics.spent(Spent {
                input: tokens.input,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write,
                output: tokens.output,
                nano_dollars,
            });
        }
        Signal::NotAnswered { trouble, nano_dollars } => {
            metrics.model_request(trouble.as_str());
            metrics.spent(Spent { nano_dollars, ..Spent::default() });
        }
        Signal::Called { fault } => metrics.called(fault.unwrap_or("none")),
        Signal::Guarded { kind, guard } => metrics.guarded(kind.as_str(), guard),
        Signal::Refused { reason, count } => metrics.refused(reason, count),
        Signal::Approved(result) => belljar_telemetry::metrics()
            .approval_ended(ApprovalAction::ToolCall.as_str(), result.as_str()),
        Signal::Deviated { parameter, cause } => metrics.deviated(parameter, cause.as_str()),
        Signal::SandboxUsed(time) => metrics.sandbox_used(time),
        Signal::Ended { outcome, error, attempt, time } => {
            if let Some(error) = error {
                metrics.failed(error.as_str());
            }
            metrics.ended(outcome.as_str(), attempt, time);
        }
        Signal::Attempted(_) => {}
    }
}

/// One line for each attempt at a step, and one for each run that ends.
fn log(run: &Address, signal: &Signal) {
    let tenant = run.tenant.as_str();
    match *signal {
        Signal::Attempted(attempt) => {
            let (step, turn) = (attempt.step, attempt.turn);
            let (exit, reason, fault) = (attempt.exit, attempt.reason, attempt.fault);
            tracing::info!(
                run.id = %run.run, tenant, turn, step, %attempt, exit, reason, fault,
                "run attempt ended"
            );
        }
        Signal::Ended { outcome, error, attempt, time } => {
            let (outcome, error) = (outcome.as_str(), error.map(|error| error.as_str()));
            let duration_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(
                run.id = %run.run, tenant, attempt, outcome, error, duration_ms, "run ended"
            );
        }
        Signal::Refused { reason, count } => {
            tracing::info!(run.id = %run.run, tenant, reason, count, "run requests refused");
        }
        _ => {}
    }
}
