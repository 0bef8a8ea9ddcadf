//! What a run is, told by its events alone.
//!
//! Folding is pure, so a list, a console and whoever works on the run see the same,
//! and a worker that takes over sees what the one before it saw.

mod fork;
mod hold;
mod next;
mod program;
mod spent;
mod stage;

use std::collections::BTreeSet;
use std::time::Duration;

use belljar_domain::{ExecId, Generation, SandboxId, Sequence};

use crate::blob::BlobRef;
use crate::event::{
    Artifact, Block, Body, Breakpoints, Budget, CallDecision, CallRef, ControlRequested,
    DeviationCause, Environment, Event, Finished, ForkedFrom, Injected, Limit, NetworkAccess,
    PausePoint, Prompt, Request, Retry, RunCreated, SnapshotTaken, StageChanged,
};
use crate::journal::State;

pub use fork::{ForkPoint, fork_points};
pub use hold::{CallApproval, HumanQuestion, HumanReply};
pub use next::{CRASHES, Ending, Next};
pub use program::PROGRAM_CALL;
pub use spent::Spent;
pub use stage::{INSTALL_CALL, QUESTION_CALL, RUN_CALL, STAGE_CALL_PREFIX, stage_calls};

/// A run, as its events tell it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunView {
    pub head: Sequence,
    pub progress: Progress,
    pub created: Option<RunCreated>,
    /// What holds now, after forks and changes.
    pub model: String,
    pub prompt: Option<Prompt>,
    pub budget: Budget,
    /// The tier and the limits that its sandboxes are to have: as they were chosen at its
    /// creation, except for memory that a further attempt was given.
    pub environment: Environment,
    /// The network access that its sandboxes are to have.
    pub network: NetworkAccess,
    /// Which attempt at its question it is, if it is not the first.
    pub retry: Option<Retry>,
    /// Model answers so far, those before a fork included: the last turn's number.
    pub turns: u32,
    /// Used by the run itself, and by those that it was forked from.
    pub spent: Spent,
    pub inherited: Spent,
    pub stage: Option<StageChanged>,
    /// Requests from outside that nobody has acted on, in order.
    pub pending: Vec<Pending>,
    /// The request to the model that has no answer yet.
    pub asked: Option<Asked>,
    /// How often this turn has been asked for.
    pub attempts: u32,
    /// The calls of the last answer, in order.
    pub calls: Vec<Call>,
    /// Whether the last word is the model's, and it called no tool.
    pub is_answered: bool,
    pub injected: BTreeSet<Injected>,
    pub limits: BTreeSet<Limit>,
    pub sandbox: Option<SandboxId>,
    pub sandboxes: u32,
    /// The tier and the limits of the last sandbox.
    pub given: Option<Environment>,
    pub snapshot: Option<SnapshotTaken>,
    pub artifacts: Vec<Artifact>,
    /// The recording that was made of it.
    pub recording: Option<BlobRef>,
    /// The cassette beside the recording.
    pub cassette: Option<BlobRef>,
    /// The reason why the cassette is not whole.
    pub recording_incomplete: Option<String>,
    /// Parameters that were not in force as they were chosen, and why.
    pub deviations: BTreeSet<(String, DeviationCause)>,
    /// Of the last lease, and whose it was.
    pub generation: Generation,
    pub owner: Option<String>,
    /// How many died since the run was last further than before.
    pub crashes: u32,
    pub is_cancelled: bool,
    pub breakpoints: Breakpoints,
    /// The breakpoint that it paused at last: it goes on from there.
    pub passed: Option<PausePoint>,
    /// The last turn of a step.
    pub until: Option<u32>,
    /// The open question to a human, and the answer that the model has not heard.
    pub question: Option<HumanQuestion>,
    pub reply: Option<HumanReply>,
    /// The tool call that waits for an approval, and the decision that its worker has not acted on.
    pub approval: Option<CallApproval>,
    pub decision: Option<CallDecision>,
    /// Time that the run waited for approvals. Its budget of time does not count it.
    pub waited: Duration,
    pub finished: Option<Finished>,
    /// The first event that only a newer version knows: what is here is not all.
    pub unknown: Option<Sequence>,
}

/// Where in its life a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Progress {
    /// No event was seen.
    #[default]
    Nothing,
    In(State),
}

/// What somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub seq: Sequence,
    pub asked: ControlRequested,
}

/// A request that went to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub seq: Sequence,
    pub turn: u32,
    pub attempt: u32,
    pub reservation: Option<u64>,
}

/// A tool call that the model wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub call: CallRef,
    pub name: String,
    pub input: serde_json::Value,
    pub state: CallState,
}

impl Call {
    /// Returns whether the call may be executing.
    pub(crate) fn is_started(&self) -> bool {
        matches!(self.state, CallState::Started { .. })
    }
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallState {
    Wanted,
    /// Nothing was done yet.
    Intended,
    /// It may have been done: the sandbox knows.
    Started {
        exec: ExecId,
        sandbox: SandboxId,
        attempt: u32,
    },
    Finished,
}

impl RunView {
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut view = Self::default();
        events.into_iter().for_each(|event| view.apply(event));
        view
    }

    pub fn state(&self) -> Option<State> {
        match self.progress {
            Progress::Nothing => None,
            Progress::In(state) => Some(state),
        }
    }

    /// Takes one more event into account. They come in order.
    pub fn apply(&mut self, event: &Event) {
        self.head = event.seq;
        if event.body.is_progress() {
            self.crashes = 0;
        }
        self.spent.add(&event.body);
        match &event.body {
            Body::RunCreated(created) => {
                self.model.clone_from(&created.model);
                self.prompt = Some(created.prompt.clone());
                self.budget = created.budget;
                let wish = created.wish.as_ref();
                self.environment = wish.map(|wish| wish.environment).unwrap_or_default();
                self.network = wish.map(|wish| (*wish.network).clone()).unwrap_or_default();
                self.created = Some(created.clone());
                self.begin_program(created);
            }
            Body::ForkedFrom(forked) => {
                self.begin_anew(forked);
                self.model =
                    forked.model.clone().unwrap_or_else(|| std::mem::take(&mut self.model));
                self.prompt = forked.prompt.clone().or(self.prompt.take());
                self.budget = forked.budget.unwrap_or(self.budget);
                if let Some(bytes) = forked.retry.as_ref().and_then(|retry| retry.memory_bytes) {
                    self.environment.limits.memory_bytes = Some(bytes);
                }
                self.retry.clone_from(&forked.retry);
            }
            Body::LeaseTaken(taken) => {
                self.generation = taken.generation;
                self.owner = Some(taken.owner.clone());
                self.crashes += u32::from(taken.took_over.is_some());
                if self.progress == Progress::In(State::Waiting) {
                    self.progress = Progress::In(State::Running);
                }
            }
            Body::StageChanged(stage) => self.stage = Some(stage.clone()),
            Body::LlmRequested(asked) => {
                self.attempts = asked.attempt;
                self.asked = Some(Asked {
                    seq: event.seq,
                    turn: asked.turn,
                    attempt: asked.attempt,
                    reservation: asked.reservation,
                });
            }
            Body::LlmResponded(answer) => {
                self.asked = None;
                self.attempts = 0;
                self.turns = self.turns.max(answer.turn);
                if !self.is_program() {
                    let blocks = answer.blocks.iter();
                    self.calls = blocks.filter_map(|block| wanted(answer.turn, block)).collect();
                    self.is_answered = self.calls.is_empty();
                }
            }
            Body::LlmFailed(_) => self.asked = None,
            Body::SandboxAttached(attached) => {
                self.sandbox = Some(attached.sandbox.clone());
                self.sandboxes = attached.number;
                self.given = attached.environment;
            }
            Body::ToolIntended(it) => self.set(&it.call, CallState::Intended),
            Body::ToolStarted(it) => {
                let (exec, sandbox) = (it.exec.clone(), it.sandbox.clone());
                self.set(&it.call, CallState::Started { exec, sandbox, attempt: it.attempt });
            }
            Body::ToolFinished(it) => {
                self.set(&it.call, CallState::Finished);
                self.close_question(&it.call);
            }
            Body::SnapshotTaken(taken) => self.snapshot = Some(taken.clone()),
            Body::ArtifactAdded(added) => self.artifacts.push(added.artifact.clone()),
            Body::InjectedMessage(message) => {
                self.injected.insert(message.kind);
                self.is_answered = false;
                self.answered(message.answers);
                self.continue_program(message.kind, &message.text);
            }
            Body::LimitHit(hit) => {
                self.limits.insert(hit.limit);
            }
            Body::ControlRequested(asked) => self.want(event.seq, asked),
            Body::Paused(paused) => {
                self.answered(paused.answers);
                self.hold(paused.at.as_ref(), event.at);
            }
            Body::Resumed(resumed) => {
                self.answered(Some(resumed.answers));
                self.go_on(resumed, event.at);
            }
            Body::Cancelled(cancelled) => {
                self.is_cancelled = true;
                self.answered(Some(cancelled.answers));
            }
            Body::BudgetChanged(changed) => {
                self.budget = changed.budget;
                self.answered(Some(changed.answers));
            }
            Body::Finished(finished) => {
                self.pending.clear();
                self.finished = Some(finished.clone());
            }
            Body::Unknown(_) => self.unknown = self.unknown.or(Some(event.seq)),
            Body::RecordingMade(made) => {
                self.recording = Some(made.recording);
                self.cassette = made.cassette;
                self.recording_incomplete = made.incomplete.clone();
            }
            Body::ParameterDeviated(deviated) => {
                self.deviations.insert((deviated.parameter.clone(), deviated.cause));
            }
            Body::StageMessage(sent) => {
                self.is_answered = false;
                self.calls.extend(stage_calls(sent));
            }
            Body::PromptBuilt(_)
            | Body::NetworkUsed(_)
            | Body::GuardReported(_)
            | Body::SnapshotRefused(_)
            | Body::SessionSaved(_) => {}
        }
        if let Some(state) = State::after(event.body.kind()) {
            self.progress = Progress::In(state);
        }
    }

    /// What was said stays said; what was going on was the parent's.
    fn begin_anew(&mut self, forked: &ForkedFrom) {
        self.inherited.merge(&std::mem::take(&mut self.spent));
        self.pending.clear();
        self.asked = None;
        self.attempts = 0;
        self.sandbox = None;
        self.recording = None;
        self.cassette = None;
        self.recording_incomplete = None;
        self.deviations.clear();
        self.sandboxes = 0;
        self.given = None;
        self.limits.clear();
        // Warnings are about a budget, and with another one they come anew.
        let is_warning =
            |kind: &Injected| matches!(kind, Injected::TurnsLeft3 | Injected::TurnsLeft1);
        let ends = [Injected::Final, Injected::Restored, Injected::Repair];
        let is_over =
            |kind: &Injected| ends.contains(kind) || (is_warning(kind) && forked.budget.is_some());
        self.injected.retain(|kind| !is_over(kind));
        self.generation = Generation::default();
        self.owner = None;
        self.is_cancelled = false;
        self.clear_holds();
        self.waited = Duration::ZERO;
        self.finished = None;
        for call in &mut self.calls {
            if call.state != CallState::Finished {
                call.state = CallState::Wanted;
            }
        }
    }

    fn set(&mut self, which: &CallRef, state: CallState) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.call == *which) {
            call.state = state;
        }
    }

    fn answered(&mut self, request: Option<Sequence>) {
        self.pending.retain(|pending| Some(pending.seq) != request);
    }

    /// Of wishes to pause and to go on, the last one counts; and not even that, if
    /// it is so already.
    fn want(&mut self, seq: Sequence, asked: &ControlRequested) {
        let is_paused = self.progress == Progress::In(State::Paused);
        let is_needed = match asked.request {
            Request::Pause | Request::Resume | Request::Step => {
                let before = self.pending.len();
                self.pending.retain(|pending| !pending.asked.request.is_about_pause());
                // A paused run that was asked to go on is offered to workers. Only another pause
                // event takes it from them.
                let is_offered = is_paused && self.pending.len() < before;
                match asked.request {
                    Request::Pause => !is_paused || is_offered,
                    Request::Resume => is_paused || self.until.is_some(),
                    _ => true,
                }
            }
            Request::Cancel => !self.is_cancelled,
            Request::Breakpoints { breakpoints } => {
                self.breakpoints = breakpoints;
                false
            }
            Request::Tell { .. }
            | Request::Budget { .. }
            | Request::Answer { .. }
            | Request::Decide { .. } => true,
        };
        if is_needed {
            self.pending.push(Pending { seq, asked: asked.clone() });
        }
    }
}

fn wanted(turn: u32, block: &Block) -> Option<Call> {
    let Block::ToolUse { id, name, input } = block else { return None };
    let call = CallRef { turn, id: id.clone() };
    Some(Call { call, name: name.clone(), input: input.clone(), state: CallState::Wanted })
}

#[cfg(test)]
mod tests;
