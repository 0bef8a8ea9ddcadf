//! How runs went, over many of them, counted from their logs alone (O4).

use std::collections::{BTreeMap, BTreeSet};

use belljar_domain::RunId;
use belljar_journal::RunView;
use belljar_journal::event::{Body, Event, LlmTrouble, Outcome, Tokens};
use belljar_pipeline::advice;
use serde::Serialize;
use time::OffsetDateTime;

use crate::signal::{GuardKind, Signal, Signals};

/// Counts runs, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    runs: Vec<Run>,
    /// Those that were tried again: what counts is how that went.
    superseded: BTreeSet<RunId>,
}

/// What is kept of one run; what belongs to the runs that it was forked from is theirs.
#[derive(Debug, Clone, Default)]
struct Run {
    id: Option<RunId>,
    outcome: Option<Outcome>,
    attempt: u32,
    turns: u64,
    began: Option<OffsetDateTime>,
    ended: Option<OffsetDateTime>,
    tokens: Tokens,
    nano_dollars: u64,
    calls: u64,
    cut: u64,
    refusals: u64,
    /// Bytes of prompts, and those that the prompt before had.
    prompts: Prompts,
    faults: BTreeMap<String, u64>,
    guards: BTreeMap<String, u64>,
    temporal_errors: u64,
    join_errors: u64,
    error: Option<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Prompts {
    before: u64,
    could_be_shared: u64,
    shared: u64,
}

/// How runs went. A share is of 1; none: there was nothing to have a share of.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// All that were counted, and those of them that are not over.
    pub runs: u64,
    pub unfinished: u64,
    /// Of those that are over and were not tried again.
    pub outcomes: BTreeMap<&'static str, u64>,
    pub success_share: Option<f64>,
    pub attempts_per_success: Option<f64>,
    pub turns: Option<Spread>,
    pub seconds: Option<Spread>,
    pub nano_dollars: u64,
    pub nano_dollars_per_answer: Option<u64>,
    pub tokens: Tokens,
    /// Of the tokens of prompts, those that the provider had kept.
    pub cached_token_share: Option<f64>,
    /// Of the bytes of prompts, those that began the prompt after.
    pub shared_prefix_share: Option<f64>,
    pub calls: u64,
    /// Of calls, those whose output was cut for the model.
    pub cut_share: Option<f64>,
    /// Calls that went wrong, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Remedies for the most frequent of these.
    pub advice: Vec<String>,
    /// Runs that failed, by reason.
    pub errors: BTreeMap<String, u64>,
    /// What guards reported, by kind.
    pub guards: BTreeMap<String, u64>,
    /// Runs in which a guard saw a date from the wrong clock, or a join that failed.
    pub temporal_error_share: Option<f64>,
    pub join_error_share: Option<f64>,
    /// Runs in which the model or its provider refused.
    pub refusal_share: Option<f64>,
    /// Runs that went on at the same time, at most.
    pub most_at_once: u64,
}

/// Where the middle is, and where the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub p50: f64,
    pub p95: f64,
    pub mean: f64,
}

impl Tally {
    /// Counts one more run, by all of its events.
    pub fn add(&mut self, id: RunId, events: &[Event]) {
        let forked = events.iter().rposition(|event| matches!(event.body, Body::ForkedFrom(_)));
        let own = forked.unwrap_or(0);
        if let Some(Event { body: Body::ForkedFrom(forked), .. }) = events.get(own)
            && forked.retry.is_some()
        {
            self.superseded.insert(forked.parent.clone());
        }
        let (mut view, mut signals) = (RunView::default(), Signals::default());
        let mut run = Run { id: Some(id), ..Run::default() };
        for (index, event) in events.iter().enumerate() {
            let heard = signals.hear(&view, event);
            view.apply(event);
            if index >= own {
                run.began.get_or_insert(event.at);
                run.look(&event.body);
                heard.iter().for_each(|signal| run.count(signal, event.at));
            }
        }
        self.runs.push(run);
    }

    pub fn figures(&self) -> Figures {
        let runs = &self.runs;
        let is_last = |run: &&Run| run.id.as_ref().is_none_or(|id| !self.superseded.contains(id));
        let over: Vec<&Run> =
            runs.iter().filter(|run| run.outcome.is_some()).filter(is_last).collect();
        let answered: Vec<&&Run> =
            over.iter().filter(|run| run.outcome == Some(Outcome::Answered)).collect();
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
        let having = |of: fn(&Run) -> bool| runs.iter().filter(|run| of(run)).count() as u64;
        let all = runs.len() as u64;
        let tokens = runs.iter().fold(Tokens::default(), |sum, run| added(sum, run.tokens));
        let prompt = tokens.total() - tokens.output;
        let mut outcomes = BTreeMap::new();
        for run in &over {
            let outcome = run.outcome.map_or("unfinished", Outcome::as_str);
            *outcomes.entry(outcome).or_default() += 1;
        }
        let nano_dollars = sum(|run| run.nano_dollars);
        let successes = answered.len() as u64;
        let faults = counted(runs.iter().map(|run| &run.faults));
        Figures {
            runs: all,
            unfinished: having(|run| run.outcome.is_none()),
            outcomes,
            success_share: share(successes, over.len() as u64),
            attempts_per_success: share(
                answered.iter().map(|run| u64::from(run.attempt)).sum(),
                successes,
            ),
            turns: spread(over.iter().map(|run| number(run.turns)).collect()),
            seconds: spread(over.iter().filter_map(|run| run.seconds()).collect()),
            nano_dollars,
            nano_dollars_per_answer: nano_dollars.checked_div(successes),
            tokens,
            cached_token_share: share(tokens.cache_read, prompt),
            shared_prefix_share: share(
                sum(|run| run.prompts.shared),
                sum(|run| run.prompts.could_be_shared),
            ),
            calls: sum(|run| run.calls),
            cut_share: share(sum(|run| run.cut), sum(|run| run.calls)),
            advice: advice(&faults),
            faults,
            errors: counted(over.iter().filter_map(|run| run.error.clone()).map(once)),
            guards: counted(runs.iter().map(|run| &run.guards)),
            temporal_error_share: share(having(Run::has_temporal_error), all),
            join_error_share: share(having(Run::has_join_error), all),
            refusal_share: share(having(|run| run.refusals > 0), all),
            most_at_once: self.most_at_once(),
        }
    }

    /// Ends count before beginnings of the same moment.
    fn most_at_once(&self) -> u64 {
        let begins = self.runs.iter().filter_map(|run| run.began).map(|at| (at, true));
        let ends = self.runs.iter().filter_map(|run| run.ended).map(|at| (at, false));
        let mut changes: Vec<(OffsetDateTime, bool)> = begins.chain(ends).collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0_u64, 0);
        for (_, is_begin) in changes {
            now = if is_begin { now + 1 } else { now.saturating_sub(1) };
            most = most.max(now);
        }
        most
    }
}

impl Run {
    fn count(&mut self, signal: &Signal, at: OffsetDateTime) {
        match *signal {
            Signal::Answered { is_refusal, tokens, nano_dollars } => {
                self.turns += 1;
                self.refusals += u64::from(is_refusal);
                self.tokens = added(self.tokens, tokens);
                self.nano_dollars = self.nano_dollars.saturating_add(nano_dollars);
            }
            Signal::NotAnswered { trouble, nano_dollars } => {
                self.refusals += u64::from(trouble == LlmTrouble::Refused);
                self.nano_dollars = self.nano_dollars.saturating_add(nano_dollars);
            }
            Signal::Called { fault } => {
                self.calls += 1;
                if let Some(fault) = fault {
                    *self.faults.entry(fault.to_owned()).or_default() += 1;
                }
            }
            Signal::Guarded { kind, guard } => {
                *self.guards.entry(guard.to_owned()).or_default() += 1;
                match kind {
                    GuardKind::Temporal => self.temporal_errors += 1,
                    GuardKind::Join => self.join_errors += 1,
                }
            }
            Signal::Ended { outcome, error, attempt, .. } => {
                self.outcome = Some(outcome);
                self.attempt = attempt;
                self.error = error.map(|error| error.as_str().to_owned());
                self.ended = Some(at);
            }
            Signal::Started { .. }
            | Signal::Refused { .. }
            | Signal::Approved(_)
            | Signal::Deviated { .. }
            | Signal::SandboxUsed(_)
            | Signal::Attempted(_) => {}
        }
    }

    /// Of what nothing but these figures is made.
    fn look(&mut self, body: &Body) {
        match body {
            Body::PromptBuilt(built) => {
                let Prompts { before, could_be_shared, shared } = &mut self.prompts;
                *could_be_shared += *before;
                *shared += built.shared_prefix_bytes.min(*before);
                *before = built.bytes;
            }
            Body::ToolFinished(call) => self.cut += u64::from(call.cut.is_some()),
            _ => {}
        }
    }

    fn seconds(&self) -> Option<f64> {
        Some((self.ended? - self.began?).as_seconds_f64())
    }

    fn has_temporal_error(&self) -> bool {
        self.temporal_errors > 0
    }

    fn has_join_error(&self) -> bool {
        self.join_errors > 0
    }
}

fn added(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.saturating_add(other.input),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
        output: one.output.saturating_add(other.output),
    }
}

fn once(key: String) -> BTreeMap<String, u64> {
    BTreeMap::from([(key, 1)])
}

fn counted<M: std::borrow::Borrow<BTreeMap<String, u64>>>(
    all: impl Iterator<Item = M>,
) -> BTreeMap<String, u64> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for counts in all {
        for (key, count) in counts.borrow() {
            *sums.entry(key.clone()).or_default() += count;
        }
    }
    sums
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| number(part) / number(whole))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn number(count: u64) -> f64 {
    count as f64
}

/// By the nearest rank.
fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_unstable_by(f64::total_cmp);
    let at = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
    let mean = values.iter().sum::<f64>() / number(values.len() as u64);
    (!values.is_empty()).then(|| Spread { p50: at(50), p95: at(95), mean })
}

#[cfg(test)]
mod tests;
