//! The trace of a run: ids that follow from the run alone, and spans made of its events.
//!
//! ```text
//!   invoke_agent ─► turn ─┬─► chat MODEL
//!                         └─► execute_tool NAME ─► request ─► call or cell ─► connection
//!                                                  └── of the sandbox's own process ──┘
//! ```
//!
//! A run may move between workers and replicas. Each of them computes the same ids, so a span
//! that is written after a takeover joins those from before. Spans are made of events, like
//! [`Signal`](crate::Signal)s, and told once, by the worker that wrote the event.

use std::collections::BTreeMap;
use std::fmt;

use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{Body, CallRef, Event, LlmFailed, LlmResponded, RunCreated, Tokens};
use belljar_journal::{Address, RunView};
use belljar_objects::Digest;
use time::OffsetDateTime;

use crate::answer::REFUSAL;
use crate::signal::{FAULTS, TOOLS, word};

/// A span of a run: the id of its trace and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanIds {
    pub trace: u128,
    pub span: u64,
    /// False: the client that made the run does not want its trace kept.
    pub is_sampled: bool,
}

/// Prints as a `traceparent`.
impl fmt::Display for SpanIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// The ids of a run's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunTrace {
    root: SpanIds,
}

impl RunTrace {
    /// `traceparent`: that of the request that made the run, as its first event has it.
    pub fn of(run: &RunId, traceparent: Option<&str>) -> Self {
        let trace = u128::from_be_bytes(first_bytes(&format!("belljar trace\n{run}"))).max(1);
        // The last two digits are flags, and the lowest bit says whether it is kept.
        let flags = traceparent.and_then(|text| text.get(text.len().checked_sub(2)?..));
        let flags = flags.and_then(|flags| u8::from_str_radix(flags, 16).ok());
        let is_sampled = flags.is_none_or(|flags| flags & 1 == 1);
        let span = span_id(trace, "run");
        Self { root: SpanIds { trace, span, is_sampled } }
    }

    pub fn run(&self) -> SpanIds {
        self.root
    }

    pub fn turn(&self, turn: u32) -> SpanIds {
        self.named(&format!("turn\n{turn}"))
    }

    /// A request to the model, by the event that it began with.
    pub fn request(&self, asked: Sequence) -> SpanIds {
        self.named(&format!("request\n{asked}"))
    }

    pub fn call(&self, call: &CallRef) -> SpanIds {
        self.named(&format!("call\n{}\n{}", call.turn, call.id))
    }

    fn named(&self, name: &str) -> SpanIds {
        SpanIds { span: span_id(self.root.trace, name), ..self.root }
    }
}

fn span_id(trace: u128, name: &str) -> u64 {
    u64::from_be_bytes(first_bytes(&format!("belljar span\n{trace:032x}\n{name}"))).max(1)
}

fn first_bytes<const N: usize>(text: &str) -> [u8; N] {
    let digest = Digest::of(text.as_bytes());
    let mut bytes = [0; N];
    bytes.copy_from_slice(&digest.as_bytes()[..N]);
    bytes
}

/// A span of a run that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpan {
    pub ids: SpanIds,
    pub parent: Option<SpanIds>,
    pub begin: OffsetDateTime,
    pub end: OffsetDateTime,
    pub what: SpanKind,
    /// The reason of a failure, in a word of ours.
    pub error: Option<&'static str>,
}

/// The thing that a span is about.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanKind {
    Run {
        model: String,
        outcome: &'static str,
        /// The `traceparent` of the request that made it, and the run that it was forked from.
        made_by: Option<String>,
        parent_run: Option<RunId>,
    },
    Turn {
        turn: u32,
    },
    /// `provider`: as OpenTelemetry names it.
    Request {
        turn: u32,
        model: String,
        provider: &'static str,
        /// Absent where there is no answer.
        finish: Option<String>,
        tokens: Tokens,
        /// The provider's id of its answer.
        id: Option<String>,
    },
    Call {
        turn: u32,
        /// A tool of ours, or `other`.
        tool: &'static str,
        /// As the model named it.
        id: String,
        exit: Option<i32>,
    },
}

/// Turns the events of one run into spans.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spans {
    made_at: Option<OffsetDateTime>,
    made_by: Option<String>,
    parent_run: Option<RunId>,
    /// Requests without an answer: their beginning and their model.
    requests: BTreeMap<Sequence, (OffsetDateTime, String)>,
    /// Calls without an end.
    calls: BTreeMap<(u32, String), OffsetDateTime>,
    turn: Option<OpenTurn>,
}

#[derive(Debug, Clone, Copy)]
struct OpenTurn {
    number: u32,
    begin: OffsetDateTime,
    /// The end of the last span in it, if it has any.
    end: OffsetDateTime,
    has_spans: bool,
}

impl Spans {
    /// The spans that end with the next event. `before` is the run as all earlier events tell
    /// it; `provider` is [`belljar_provider::Provider::name`].
    pub(crate) fn hear(
        &mut self,
        run: &Address,
        provider: &'static str,
        before: &RunView,
        event: &Event,
    ) -> Vec<RunSpan> {
        let at = event.at;
        let mut spans = Vec::new();
        match &event.body {
            Body::RunCreated(created) => {
                *self = Self { made_at: Some(at), made_by: made_by(created), ..Self::default() };
            }
            Body::ForkedFrom(forked) => {
                let made_by = self.made_by.take();
                let parent_run = Some(forked.parent.clone());
                // Calls of the last answer may follow.
                let turn = self.turn.map(|turn| OpenTurn { begin: at, has_spans: false, ..turn });
                *self = Self { made_at: Some(at), made_by, parent_run, turn, ..Self::default() };
            }
            Body::LlmRequested(requested) => {
                if self.turn.is_none_or(|turn| turn.number != requested.turn) {
                    spans.extend(self.end_turn(&self.trace(run)));
                    let (number, has_spans) = (requested.turn, false);
                    self.turn = Some(OpenTurn { number, begin: at, end: at, has_spans });
                }
                self.requests.insert(event.seq, (at, requested.model.clone()));
            }
            Body::LlmResponded(answer) => {
                spans.extend(self.answered(&self.trace(run), provider, answer, at));
            }
            Body::LlmFailed(failed) => {
                spans.extend(self.not_answered(&self.trace(run), provider, failed, at));
            }
            Body::ToolIntended(intended) => {
                self.calls.insert((intended.call.turn, intended.call.id.clone()), at);
            }
            Body::ToolFinished(finished) => {
                let call = &finished.call;
                let begin = self.calls.remove(&(call.turn, call.id.clone())).unwrap_or(at);
                let known = before.calls.iter().find(|known| known.call == *call);
                let tool = known.map_or("other", |known| word(TOOLS, &known.name));
                let trace = self.trace(run);
                self.touch(at);
                spans.push(RunSpan {
                    ids: trace.call(call),
                    parent: Some(trace.turn(call.turn)),
                    begin,
                    end: at,
                    error: finished.fault.as_ref().map(|fault| word(FAULTS, &fault.category)),
                    what: SpanKind::Call {
                        turn: call.turn,
                        tool,
                        id: call.id.clone(),
                        exit: finished.exit_code,
                    },
                });
            }
            Body::Finished(finished) => {
                let trace = self.trace(run);
                spans.extend(self.end_turn(&trace));
                spans.push(RunSpan {
                    ids: trace.run(),
                    parent: None,
                    begin: self.made_at.unwrap_or(at),
                    end: at,
                    error: finished.error.map(|error| error.as_str()),
                    what: SpanKind::Run {
                        model: before.model.clone(),
                        outcome: finished.outcome.as_str(),
                        made_by: self.made_by.clone(),
                        parent_run: self.parent_run.clone(),
                    },
                });
            }
            _ => {}
        }
        spans
    }

    /// The ids of the run as the events so far tell them.
    pub(crate) fn trace(&self, run: &Address) -> RunTrace {
        RunTrace::of(&run.run, self.made_by.as_deref())
    }

    fn answered(
        &mut self,
        trace: &RunTrace,
        provider: &'static str,
        answer: &LlmResponded,
        at: OffsetDateTime,
    ) -> Option<RunSpan> {
        let (begin, model) = self.requests.remove(&answer.asked)?;
        self.touch(at);
        Some(RunSpan {
            ids: trace.request(answer.asked),
            parent: Some(trace.turn(answer.turn)),
            begin,
            end: at,
            error: (answer.stop == REFUSAL).then_some(REFUSAL),
            what: SpanKind::Request {
                turn: answer.turn,
                model,
                provider: system(provider),
                finish: Some(answer.stop.clone()),
                tokens: answer.tokens,
                id: answer.upstream_request.clone(),
            },
        })
    }

    fn not_answered(
        &mut self,
        trace: &RunTrace,
        provider: &'static str,
        failed: &LlmFailed,
        at: OffsetDateTime,
    ) -> Option<RunSpan> {
        let (begin, model) = self.requests.remove(&failed.asked)?;
        self.touch(at);
        Some(RunSpan {
            ids: trace.request(failed.asked),
            parent: Some(trace.turn(failed.turn)),
            begin,
            end: at,
            error: Some(failed.trouble.as_str()),
            what: SpanKind::Request {
                turn: failed.turn,
                model,
                provider: system(provider),
                finish: None,
                tokens: Tokens::default(),
                id: None,
            },
        })
    }

    fn touch(&mut self, at: OffsetDateTime) {
        if let Some(turn) = &mut self.turn {
            turn.end = at;
            turn.has_spans = true;
        }
    }

    fn end_turn(&mut self, trace: &RunTrace) -> Option<RunSpan> {
        let turn = self.turn.take().filter(|turn| turn.has_spans)?;
        Some(RunSpan {
            ids: trace.turn(turn.number),
            parent: Some(trace.run()),
            begin: turn.begin,
            end: turn.end,
            error: None,
            what: SpanKind::Turn { turn: turn.number },
        })
    }
}

fn made_by(created: &RunCreated) -> Option<String> {
    created.wish.as_ref()?.traceparent.clone()
}

/// A provider's name in OpenTelemetry's conventions.
fn system(provider: &'static str) -> &'static str {
    match provider {
        "anthropic-messages" => "anthropic",
        "openai-responses" | "openai-chat" => "openai",
        _ => "belljar",
    }
}

#[cfg(test)]
mod tests;
