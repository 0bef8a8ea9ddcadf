//! Metrics of runs. Their values come from the events of journals alone: see `signal` in
//! `crates/agent`.

use std::fmt;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::family::{Described, Metric, SecondsSpent};
use super::{Spent, slow};

/// Counts of the runs that this process worked on.
pub struct RunMetrics {
    started: Metric<1, Counter>,
    queue_seconds: Metric<0, Histogram>,
    ended: Metric<1, Counter>,
    seconds: Metric<1, Histogram>,
    attempts: Metric<1, Counter>,
    failures: Metric<1, Counter>,
    turns: Metric<0, Counter>,
    model_requests: Metric<1, Counter>,
    calls: Metric<1, Counter>,
    guards: Metric<2, Counter>,
    refusals: Metric<1, Counter>,
    deviations: Metric<2, Counter>,
    tokens: Metric<1, Counter>,
    dollars: Metric<0, SecondsSpent>,
    sandbox_seconds: Metric<0, SecondsSpent>,
}

impl RunMetrics {
    pub(super) fn new() -> Self {
        Self {
            started: Metric::new(
                "runs_started",
                "Runs that a worker claimed for the first time: of a question, a fork or a retry",
                &["start"],
            ),
            queue_seconds: Metric::with(
                "run_queue_seconds",
                "Time from the creation of a run until its first worker claimed it",
                &[],
                slow,
            ),
            ended: Metric::new("runs_ended", "Ended runs by outcome", &["outcome"]),
            seconds: Metric::with(
                "run_seconds",
                "Time from the creation of a run until its end, by outcome",
                &["outcome"],
                slow,
            ),
            attempts: Metric::new(
                "run_attempts",
                "Attempts at the questions of ended runs, by the outcome of the last one",
                &["outcome"],
            ),
            failures: Metric::new("run_failures", "Failed runs by error category", &["category"]),
            turns: Metric::new("run_turns", "Answers of models to runs", &[]),
            model_requests: Metric::new(
                "run_model_requests",
                "Requests of runs to models by result",
                &["result"],
            ),
            calls: Metric::new("run_calls", "Ended tool calls of runs by fault", &["fault"]),
            guards: Metric::new("run_guards", "Reports of guards in runs", &["kind", "guard"]),
            refusals: Metric::new(
                "run_refusals",
                "Requests of the code of runs that the gateway refused, by reason",
                &["reason"],
            ),
            deviations: Metric::new(
                "run_parameter_deviations",
                "Runs in which a chosen model parameter was not in force, by parameter and cause",
                &["parameter", "cause"],
            ),
            tokens: Metric::new("run_tokens", "Model tokens of runs", &["type"]),
            dollars: Metric::new("run_dollars", "Cost of the models of runs", &[]),
            sandbox_seconds: Metric::new(
                "run_sandbox_seconds",
                "Time for which runs had a sandbox",
                &[],
            ),
        }
    }

    /// Enters everything in the registry. Without `..`: a metric that is left out
    /// here does not compile.
    pub(super) fn enter(&self, registry: &mut Registry) -> Vec<Described> {
        let Self {
            started,
            queue_seconds,
            ended,
            seconds,
            attempts,
            failures,
            turns,
            model_requests,
            calls,
            guards,
            refusals,
            deviations,
            tokens,
            dollars,
            sandbox_seconds,
        } = self;
        vec![
            started.enter(registry),
            queue_seconds.enter(registry),
            ended.enter(registry),
            seconds.enter(registry),
            attempts.enter(registry),
            failures.enter(registry),
            turns.enter(registry),
            model_requests.enter(registry),
            calls.enter(registry),
            guards.enter(registry),
            refusals.enter(registry),
            deviations.enter(registry),
            tokens.enter(registry),
            dollars.enter(registry),
            sandbox_seconds.enter(registry),
        ]
    }

    /// A worker claimed a run for the first time.
    pub fn started(&self, start: &'static str, queued: Duration) {
        self.started.at([start.into()]).inc();
        self.queue_seconds.at([]).observe(queued.as_secs_f64());
    }

    /// A request to a model ended: `answered`, `refused`, or the trouble.
    pub fn model_request(&self, result: &'static str) {
        self.model_requests.at([result.into()]).inc();
    }

    pub fn turn(&self) {
        self.turns.at([]).inc();
    }

    pub fn spent(&self, spent: Spent) {
        for (kind, count) in spent.tokens() {
            self.tokens.at([kind.into()]).inc_by(count);
        }
        // Exact up to nine million dollars.
        #[expect(clippy::cast_precision_loss, reason = "see above")]
        self.dollars.at([]).inc_by(spent.nano_dollars as f64 / 1e9);
    }

    /// A tool call ended, with this fault or `none`.
    pub fn called(&self, fault: &'static str) {
        self.calls.at([fault.into()]).inc();
    }

    /// A guard reported a mistake: `temporal` or `join`, and which guard.
    pub fn guarded(&self, kind: &'static str, guard: &'static str) {
        self.guards.at([kind.into(), guard.into()]).inc();
    }

    /// The gateway refused requests of a call, for one reason.
    pub fn refused(&self, reason: &'static str, count: u64) {
        self.refusals.at([reason.into()]).inc_by(count);
    }

    /// A chosen parameter was not in force, because of `budget` or `provider`.
    pub fn deviated(&self, parameter: &'static str, cause: &'static str) {
        self.deviations.at([parameter.into(), cause.into()]).inc();
    }

    pub fn sandbox_used(&self, time: Duration) {
        self.sandbox_seconds.at([]).inc_by(time.as_secs_f64());
    }

    /// A run ended, as this attempt at its question.
    pub fn ended(&self, outcome: &'static str, attempt: u32, time: Duration) {
        self.seconds.at([outcome.into()]).observe(time.as_secs_f64());
        self.attempts.at([outcome.into()]).inc_by(attempt.into());
        // Last: a scrape that shows the end shows all of the run.
        self.ended.at([outcome.into()]).inc();
    }

    pub fn failed(&self, category: &'static str) {
        self.failures.at([category.into()]).inc();
    }
}

impl fmt::Debug for RunMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMetrics").finish_non_exhaustive()
    }
}
