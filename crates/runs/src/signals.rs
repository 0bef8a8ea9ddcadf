//! Every fact that workers here write into journals, counted and logged.

use belljar_agent::{Observer, Signal};
use belljar_journal::Address;
use belljar_telemetry::{Spent, metrics};

/// Passes signals on to metrics and to the log.
#[derive(Debug, Default)]
pub(crate) struct SignalRecorder;

impl Observer for SignalRecorder {
    fn observe(&self, run: &Address, signal: &Signal) {
        log(run, signal);
        count(signal);
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
        _ => {}
    }
}
