//! The facts of a run that are counted, as its events tell them.
//!
//! [`Signals`] reads the events of a run in order and turns them into [`Signal`]s. Metrics,
//! statistics over many runs, figures of tenants and the log are all made of these, so none
//! of them can say anything that the transcript does not say.
//!
//! Every word in a signal is from a short list of ours, because it may become a label of a
//! metric: a model makes up names of tools, and code in a sandbox those of guards.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use belljar_domain::ModelParameters;
use belljar_domain::approval::ApprovalResult;
use belljar_journal::event::{
    Body, CallDecision, DeviationCause, ErrorCategory, Event, LlmTrouble, Outcome, Tokens,
    ToolFinished,
};
use belljar_journal::{Address, CRASHES, RunView, State};
use time::OffsetDateTime;

use crate::answer::REFUSAL;
use crate::budget::turns_left;
use crate::network::REASONS;
use crate::program::OUTPUT_GAP;
use crate::tools::{FINISH, PYTHON, READ, SHELL, WRITE};
use crate::trace::RunSpan;

/// The step of a run that asks the model. All other steps are tools.
const MODEL: &str = "model";
pub(crate) const TOOLS: &[&str] = &[
    PYTHON,
    SHELL,
    READ,
    WRITE,
    FINISH,
    "submit_plan",
    "submit_code",
    "submit_diagnosis",
    "install",
    "run",
    "claude-code",
    "codex",
];

/// What guards call a date that was counted from the machine's clock. All else that
/// they report is about joins.
const CLOCK: &str = "clock";
const GUARDS: &[&str] = &[CLOCK, "empty-join", "fan-out", "key-mismatch"];

/// Parameters of models.
const PARAMETERS: &[&str] =
    &[ModelParameters::TEMPERATURE, ModelParameters::EFFORT, ModelParameters::OUTPUT_TOKENS];

/// Categories of faults of calls: every one that this version writes.
pub(crate) const FAULTS: &[&str] = &[
    "arguments",
    "budget",
    "denied",
    "disk",
    "ended",
    "exception",
    "exit",
    "file",
    "install",
    "join",
    "lost",
    "memory",
    "missing_key",
    "missing_module",
    "name",
    "no_interpreter",
    "output",
    "program",
    "same_code",
    "sandbox",
    "syntax",
    "timeout",
    "turns",
    "type",
];

/// A word that is on none of these lists.
const OTHER: &str = "other";

/// One fact that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// A worker claimed the run for the first time, so long after it was made.
    Started {
        start: RunStart,
        queued: Duration,
    },
    /// The model gave an answer: a turn.
    Answered {
        is_refusal: bool,
        tokens: Tokens,
        nano_dollars: u64,
    },
    /// A request to the model came to nothing.
    NotAnswered {
        trouble: LlmTrouble,
        nano_dollars: u64,
    },
    /// A tool call ended; without a fault, it did what it was meant to.
    Called {
        fault: Option<&'static str>,
    },
    Guarded {
        kind: GuardKind,
        guard: &'static str,
    },
    /// The gateway refused requests of a call, so many for this reason.
    Refused {
        reason: &'static str,
        count: u64,
    },
    /// A tool call waits for a human no more.
    Approved(ApprovalResult),
    /// A parameter that the run chose was not in force.
    Deviated {
        parameter: &'static str,
        cause: DeviationCause,
    },
    /// The run has let go of a sandbox that it had for so long.
    SandboxUsed(Duration),
    /// The run is over, so long after it was made. `attempt`: of the question.
    Ended {
        outcome: Outcome,
        error: Option<ErrorCategory>,
        attempt: u32,
        time: Duration,
    },
    /// An attempt at a step ended.
    Attempted(StepAttempt),
}

/// Why there is a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunStart {
    #[default]
    Question,
    Fork,
    /// Another attempt at a question, with more.
    Retry,
}

impl RunStart {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Fork => "fork",
            Self::Retry => "retry",
        }
    }
}

/// The kind of mistake that a guard looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardKind {
    Temporal,
    Join,
}

impl GuardKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Temporal => "temporal",
            Self::Join => "join",
        }
    }
}

/// One try at a step: a request to the model, or a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepAttempt {
    /// `model`, or the tool.
    pub step: &'static str,
    pub turn: u32,
    /// From 1. Requests of one turn are attempts at the same step, and so are calls of one
    /// tool in a row that failed, with the one after them.
    pub number: u32,
    /// The most attempts that the step can have; none: the run has no bound on turns.
    pub most: Option<u32>,
    /// Exit status of the process, if there was one.
    pub exit: Option<i32>,
    /// `answered` or the trouble of a request; the end reason of a call.
    pub reason: &'static str,
    pub fault: Option<&'static str>,
}

/// As the log says it: `2/3`.
impl fmt::Display for StepAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "{}/{most}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// Sees the signals of the events that a worker wrote, once each, after they were written.
pub trait Observer: fmt::Debug + Send + Sync {
    fn observe(&self, run: &Address, signal: &Signal);

    /// Sees the spans that end with these events, likewise.
    fn trace(&self, _run: &Address, _span: &RunSpan) {}
}

/// Turns the events of one run into signals.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    start: RunStart,
    made_at: Option<OffsetDateTime>,
    /// Since when the run has its sandbox.
    attached_at: Option<OffsetDateTime>,
    /// Calls of each tool in a row that failed.
    failures: BTreeMap<&'static str, u32>,
}

impl Signals {
    /// The signals of the next event. `before` is the run as all earlier events tell it.
    pub fn hear(&mut self, before: &RunView, event: &Event) -> Vec<Signal> {
        let mut signals = Vec::new();
        match &event.body {
            Body::RunCreated(_) => *self = Self::begin(RunStart::Question, event.at),
            Body::ForkedFrom(forked) => {
                let start = if forked.retry.is_some() { RunStart::Retry } else { RunStart::Fork };
                *self = Self::begin(start, event.at);
            }
            Body::LeaseTaken(_) if before.state() == Some(State::Waiting) => {
                let queued = between(self.made_at, event.at);
                signals.push(Signal::Started { start: self.start, queued });
            }
            Body::SandboxAttached(_) => {
                signals.extend(self.sandbox_used(event.at));
                self.attached_at = Some(event.at);
            }
            Body::LlmResponded(answer) => {
                let is_refusal = answer.stop == REFUSAL;
                let (tokens, nano_dollars) = (answer.tokens, answer.nano_dollars);
                signals.push(Signal::Answered { is_refusal, tokens, nano_dollars });
                let reason = if is_refusal { REFUSAL } else { "answered" };
                signals.push(Signal::Attempted(request(before, answer.turn, reason)));
            }
            Body::LlmFailed(failed) => {
                let (trouble, nano_dollars) = (failed.trouble, failed.nano_dollars);
                signals.push(Signal::NotAnswered { trouble, nano_dollars });
                signals.push(Signal::Attempted(request(before, failed.turn, trouble.as_str())));
            }
            Body::ToolFinished(finished) => {
                let attempt = self.call(before, finished);
                signals.push(Signal::Called { fault: attempt.fault });
                signals.push(Signal::Attempted(attempt));
            }
            // A gap in a program's output is no hint to a model.
            Body::GuardReported(report) if report.guard != OUTPUT_GAP => {
                let guard = word(GUARDS, &report.guard);
                let kind = if guard == CLOCK { GuardKind::Temporal } else { GuardKind::Join };
                signals.push(Signal::Guarded { kind, guard });
            }
            Body::NetworkUsed(used) => signals.extend(used.refusals.iter().map(|refusal| {
                Signal::Refused { reason: word(REASONS, &refusal.reason), count: refusal.count }
            })),
            Body::Resumed(resumed) => {
                let decision = resumed.decision.as_ref();
                let is_its = |decision: &&CallDecision| {
                    before.approval.as_ref().is_some_and(|it| it.call == decision.call)
                };
                let result = decision.filter(is_its).map(|it| it.verdict.result());
                signals.extend(result.map(Signal::Approved));
            }
            Body::ParameterDeviated(deviated) => {
                let parameter = word(PARAMETERS, &deviated.parameter);
                signals.push(Signal::Deviated { parameter, cause: deviated.cause });
            }
            Body::Finished(finished) => {
                signals.extend(self.sandbox_used(event.at));
                signals.push(Signal::Ended {
                    outcome: finished.outcome,
                    error: finished.error,
                    attempt: before.retry.as_ref().map_or(1, |retry| retry.attempt),
                    time: between(self.made_at, event.at),
                });
            }
            _ => {}
        }
        signals
    }

    fn begin(start: RunStart, at: OffsetDateTime) -> Self {
        Self { start, made_at: Some(at), ..Self::default() }
    }

    fn sandbox_used(&mut self, until: OffsetDateTime) -> Option<Signal> {
        let from = self.attached_at.take();
        from.map(|from| Signal::SandboxUsed(between(Some(from), until)))
    }

    fn call(&mut self, before: &RunView, finished: &ToolFinished) -> StepAttempt {
        let call = before.calls.iter().find(|call| call.call == finished.call);
        let step = call.map_or(OTHER, |call| word(TOOLS, &call.name));
        let fault = finished.fault.as_ref().map(|fault| word(FAULTS, &fault.category));
        let failures = self.failures.entry(step).or_default();
        let number = failures.saturating_add(1);
        *failures = if fault.is_some() { number } else { 0 };
        StepAttempt {
            step,
            turn: finished.call.turn,
            number,
            // Another one takes at least one more turn.
            most: turns_left(before).map(|left| left.saturating_add(number)),
            exit: finished.exit_code,
            reason: finished.reason.as_str(),
            fault,
        }
    }
}

/// A request is made again only if its worker died, and not for ever.
fn request(before: &RunView, turn: u32, reason: &'static str) -> StepAttempt {
    let number = before.attempts.max(1);
    let most = Some(CRASHES.max(number));
    StepAttempt { step: MODEL, turn, number, most, exit: None, reason, fault: None }
}

fn between(from: Option<OffsetDateTime>, until: OffsetDateTime) -> Duration {
    from.map(|from| Duration::try_from(until - from).unwrap_or_default()).unwrap_or_default()
}

pub(crate) fn word(known: &'static [&'static str], text: &str) -> &'static str {
    known.iter().copied().find(|word| *word == text).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests;
