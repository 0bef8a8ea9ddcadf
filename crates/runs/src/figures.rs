//! A tenant's figures: what its runs did within the last minute, hour and day.
//!
//! ```text
//!   signals ─► open spans ─► figure store ◄─ other replicas
//!                                │
//!   GET /v1/stats ◄──────────────┘
//! ```
//!
//! Names of sums are made and read here alone.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_agent::Signal;
use belljar_journal::event::Tokens;
use belljar_journal::{Failure, ReadError, State, Sums, span_of};
use time::OffsetDateTime;

use crate::Runs;

/// Lengths of the windows, shortest first.
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Figures of a tenant's runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStats {
    pub at: OffsetDateTime,
    /// Runs that are not over.
    pub waiting: u64,
    pub running: u64,
    pub paused: u64,
    pub minute: FigureWindow,
    pub hour: FigureWindow,
    pub day: FigureWindow,
}

/// Figures since a time.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureWindow {
    pub from: OffsetDateTime,
    pub length: Duration,
    /// Runs that a worker claimed for the first time.
    pub started: u64,
    /// Runs that ended, by outcome; those that failed, by error category.
    pub ended: BTreeMap<String, u64>,
    pub failures: BTreeMap<String, u64>,
    pub turns: u64,
    /// Tool calls, and those that failed by fault.
    pub calls: u64,
    pub faults: BTreeMap<String, u64>,
    /// Reports of guards, by kind.
    pub guards: BTreeMap<String, u64>,
    pub tokens: Tokens,
    pub nano_dollars: u64,
    /// Time for which runs had a sandbox; counted when they let go of it.
    pub sandbox_ms: u64,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    #[error("cannot read the figures of runs")]
    Figures(#[from] Failure),
    #[error("cannot count runs")]
    Count(#[from] ReadError),
}

impl Runs {
    pub async fn stats(&self, tenant: &str) -> Result<RunStats, StatsError> {
        // The counts of this process; other replicas keep theirs within seconds.
        self.0.signals.freshen().await?;
        let at = OffsetDateTime::now_utc();
        let journal = self.journal();
        Ok(RunStats {
            at,
            waiting: journal.count(tenant, State::Waiting).await?,
            running: journal.count(tenant, State::Running).await?,
            paused: journal.count(tenant, State::Paused).await?,
            minute: self.window(tenant, at, MINUTE).await?,
            hour: self.window(tenant, at, HOUR).await?,
            day: self.window(tenant, at, DAY).await?,
        })
    }

    async fn window(
        &self,
        tenant: &str,
        at: OffsetDateTime,
        length: Duration,
    ) -> Result<FigureWindow, Failure> {
        let from = span_of(at - length);
        let sums = self.0.parts.figures.sums(tenant, from).await?;
        let length = Duration::try_from(at - from).unwrap_or(length);
        Ok(FigureWindow::of(from, length, &sums))
    }
}

impl FigureWindow {
    fn of(from: OffsetDateTime, length: Duration, sums: &Sums) -> Self {
        let sum = |name: &str| sums.get(name).copied().unwrap_or(0);
        let by = |group: &str| {
            let own = sums.iter().filter_map(|(name, sum)| {
                let word = name.strip_prefix(group)?.strip_prefix('.')?;
                Some((word.to_owned(), *sum))
            });
            own.collect::<BTreeMap<_, _>>()
        };
        Self {
            from,
            length,
            started: by("started").values().copied().fold(0, u64::saturating_add),
            ended: by("ended"),
            failures: by("failures"),
            turns: sum("turns"),
            calls: sum("calls"),
            faults: by("faults"),
            guards: by("guards"),
            tokens: Tokens {
                input: sum("tokens.input"),
                cache_read: sum("tokens.cache_read"),
                cache_write: sum("tokens.cache_write"),
                output: sum("tokens.output"),
            },
            nano_dollars: sum("nano_dollars"),
            sandbox_ms: sum("sandbox_ms"),
        }
    }

    /// Of the tokens of prompts, those that the provider had kept.
    pub fn cache_share(&self) -> Option<f64> {
        let Tokens { input, cache_read, cache_write, .. } = self.tokens;
        let prompt = input.saturating_add(cache_read).saturating_add(cache_write);
        (prompt > 0).then(|| number(cache_read) / number(prompt))
    }

    pub fn started_per_second(&self) -> f64 {
        number(self.started) / self.length.as_secs_f64().max(1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share, or a rate")]
fn number(count: u64) -> f64 {
    count as f64
}

/// Adds a signal to the sums of its tenant.
pub(crate) fn added(signal: &Signal) -> Vec<(String, u64)> {
    let one = |group: &str, word: &str| (format!("{group}.{word}"), 1);
    let many = |name: &str, sum: u64| (name.to_owned(), sum);
    let mut sums = match *signal {
        Signal::Started { start, .. } => vec![one("started", start.as_str())],
        Signal::Answered { tokens, nano_dollars, .. } => vec![
            many("turns", 1),
            many("tokens.input", tokens.input),
            many("tokens.cache_read", tokens.cache_read),
            many("tokens.cache_write", tokens.cache_write),
            many("tokens.output", tokens.output),
            many("nano_dollars", nano_dollars),
        ],
        Signal::NotAnswered { nano_dollars, .. } => vec![many("nano_dollars", nano_dollars)],
        Signal::Called { fault: None } => vec![many("calls", 1)],
        Signal::Called { fault: Some(fault) } => vec![many("calls", 1), one("faults", fault)],
        Signal::Guarded { kind, .. } => vec![one("guards", kind.as_str())],
        Signal::SandboxUsed(time) => {
            vec![many("sandbox_ms", u64::try_from(time.as_millis()).unwrap_or(u64::MAX))]
        }
        Signal::Ended { outcome, error: None, .. } => vec![one("ended", outcome.as_str())],
        Signal::Ended { outcome, error: Some(error), .. } => {
            vec![one("ended", outcome.as_str()), one("failures", error.as_str())]
        }
        Signal::Refused { .. }
        | Signal::Deviated { .. }
        | Signal::Attempted(_)
        | Signal::Approved(_) => Vec::new(),
    };
    sums.retain(|(_, sum)| *sum > 0);
    sums
}

#[cfg(test)]
mod tests {
    use belljar_agent::{GuardKind, RunStart};
    use belljar_journal::event::{ErrorCategory, LlmTrouble, Outcome};

    use super::*;

    fn window(signals: &[Signal]) -> FigureWindow {
        let mut sums = Sums::new();
        for (name, sum) in signals.iter().flat_map(added) {
            *sums.entry(name).or_default() += sum;
        }
        FigureWindow::of(OffsetDateTime::UNIX_EPOCH, Duration::from_secs(60), &sums)
    }

    fn counted(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
        of.iter().map(|(word, sum)| ((*word).to_owned(), *sum)).collect()
    }

    #[test]
    fn every_sum_that_signals_make_is_read_again() {
        let tokens = Tokens { input: 1, cache_read: 6, cache_write: 1, output: 4 };
        let seconds = Duration::from_secs;
        let started = |start| Signal::Started { start, queued: seconds(1) };
        let ended = |outcome, error| Signal::Ended { outcome, error, attempt: 1, time: seconds(9) };
        let seen = window(&[
            started(RunStart::Question),
            started(RunStart::Fork),
            started(RunStart::Retry),
            Signal::Answered { is_refusal: false, tokens, nano_dollars: 5 },
            Signal::Answered { is_refusal: true, tokens, nano_dollars: 0 },
            Signal::NotAnswered { trouble: LlmTrouble::Broken, nano_dollars: 7 },
            Signal::Called { fault: None },
            Signal::Called { fault: Some("syntax") },
            Signal::Guarded { kind: GuardKind::Join, guard: "fan-out" },
            Signal::SandboxUsed(Duration::from_millis(1500)),
            ended(Outcome::Answered, None),
            ended(Outcome::Failed, Some(ErrorCategory::NoResult)),
        ]);
        let want = FigureWindow {
            from: OffsetDateTime::UNIX_EPOCH,
            length: seconds(60),
            started: 3,
            ended: counted(&[("answered", 1), ("failed", 1)]),
            failures: counted(&[("no_result", 1)]),
            turns: 2,
            calls: 2,
            faults: counted(&[("syntax", 1)]),
            guards: counted(&[("join", 1)]),
            tokens: Tokens { input: 2, cache_read: 12, cache_write: 2, output: 8 },
            nano_dollars: 12,
            sandbox_ms: 1500,
        };
        assert_eq!(seen, want);
        assert_eq!((seen.cache_share(), seen.started_per_second()), (Some(0.75), 0.05));
        assert_eq!(window(&[]).cache_share(), None);
    }
}
