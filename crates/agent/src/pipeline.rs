//! A run of Planner, Coder, Executor and Debugger, as its events tell it.
//!
//! ```text
//!   plan ──► code ──► [install] ──► run ──► execution ──► answered
//!                        ▲                     │ failed
//!                        └──── diagnosis ◄─────┤ attempts 1 and 2
//!   plan ◄── hint ◄────────── question ◄───────┘ attempt 3
//! ```
//!
//! Each arrow is an event, and each box that does something outside of the log is a call with an
//! execution id. So a worker that takes over goes on at the stage at which the last one died.

mod decide;
mod rules;
mod talk;

use std::collections::BTreeSet;

use belljar_journal::event::{Body, Event, Injected, StageMessage, ToolFault, ToolFinished};
use belljar_journal::{INSTALL_CALL, QUESTION_CALL, RUN_CALL};
use belljar_pipeline::{
    AgentKind, Category, CodeArtifact, ExecutionResult, HumanQuestion, MAX_ATTEMPTS, Message, Plan,
    Preparation, Role, RoleModels, TriedAttempt, fingerprint, give_up,
};

pub(crate) use decide::between;
pub use rules::Rules;
pub(crate) use talk::conversation;

/// Answers of one agent that cannot be used, one after the other. Then a human is asked.
const MAX_REFUSED: u32 = 3;

/// A pipeline run, folded from its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pipeline {
    pub agent: AgentKind,
    models: RoleModels,
    /// The program that a caller made, for the Executor alone.
    given: Option<CodeArtifact>,
    /// From 1. A human's answer begins the next one.
    pub round: u32,
    pub plan: Option<Plan>,
    pub current: Option<Attempt>,
    /// The attempts of this round that are over.
    pub tried: Vec<Tried>,
    /// Of every program of the run so far.
    fingerprints: BTreeSet<String>,
    /// Answers of the agent whose turn it is that could not be used.
    refused: u32,
    /// The turn of the last one. An answer with several calls is one answer.
    refused_turn: u32,
    /// The state of the last installation.
    prepared: Option<Prepared>,
    /// The turn of the attempt that the sandbox was made for, and whether it is a fork.
    sandbox: Option<(u32, bool)>,
    /// Of that sandbox, if it is known.
    memory_bytes: Option<u64>,
    /// A human's answers, in order.
    hints: Vec<String>,
    has_given_up: bool,
    /// The turn of the last message of an agent.
    accepted_turn: u32,
}

/// The program that is installed, run, or was run last.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// From 1 in each round.
    pub number: u32,
    pub turn: u32,
    pub artifact: CodeArtifact,
    install: Option<CallEnd>,
    run: Option<CallEnd>,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    pub number: u32,
    pub artifact: CodeArtifact,
    pub result: ExecutionResult,
    /// The Debugger's words on it.
    cause: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct CallEnd {
    /// None: it succeeded.
    fault: Option<ToolFault>,
    exit_code: Option<i32>,
    shown: String,
}

/// The state after an installation.
#[derive(Debug, Clone, PartialEq)]
struct Prepared {
    key: InstallKey,
    checkpoint: Result<String, String>,
}

/// Attempts with the same key can use the same installation.
type InstallKey = (Option<String>, Option<u64>);

fn key(artifact: &CodeArtifact) -> InstallKey {
    (artifact.install_command.clone(), artifact.memory_bytes)
}

impl Pipeline {
    /// Takes one more event into account.
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.body {
            Body::RunCreated(created) => {
                let brief = created.wish.as_ref().map(|wish| (*wish.brief).clone());
                let brief = brief.unwrap_or_default();
                let given = brief.artifact.map(|artifact| *artifact);
                let (agent, models) = (brief.agent, brief.models);
                *self = Self { agent, models, given, round: 1, ..Self::default() };
            }
            Body::ForkedFrom(_) => {
                // Sandboxes and checkpoints are the parent's.
                (self.prepared, self.sandbox) = (None, None);
                (self.refused, self.refused_turn, self.has_given_up) = (0, 0, false);
                if self.is_interrupted() {
                    self.current = None;
                    self.tried.clear();
                    self.fingerprints.clear();
                }
            }
            Body::StageMessage(sent) => self.hear(sent),
            Body::ToolFinished(finished) => self.ended(finished),
            Body::InjectedMessage(message) if message.kind == Injected::Repair => {
                // It is said before the next request.
                self.refuse(message.turn.saturating_sub(1));
            }
            Body::SandboxAttached(attached) => {
                let turn = self.current.as_ref().map_or(0, |attempt| attempt.turn);
                self.sandbox = Some((turn, attached.restored.is_some()));
                self.memory_bytes = attached.environment.and_then(|it| it.limits.memory_bytes);
            }
            Body::SnapshotTaken(taken) => self.prepare(Ok(taken.snapshot.clone())),
            Body::SnapshotRefused(refused) => self.prepare(Err(refused.reason.clone())),
            _ => {}
        }
    }

    fn hear(&mut self, sent: &StageMessage) {
        (self.refused, self.accepted_turn) = (0, sent.turn);
        if let Message::Diagnosis(diagnosis) = &sent.message
            && let Some(tried) = self.tried.last_mut()
        {
            tried.cause = Some(diagnosis.cause.clone());
        }
        if let Some(artifact) = sent.message.artifact() {
            self.fingerprints.insert(fingerprint(artifact));
            let (number, turn, artifact) = (sent.attempt, sent.turn, artifact.clone());
            self.current = Some(Attempt { number, turn, artifact, install: None, run: None });
        }
        match &sent.message {
            Message::Plan(plan) => self.plan = Some(plan.clone()),
            Message::Execution(result) => {
                let Some(current) = &self.current else { return };
                let (number, artifact) = (current.number, current.artifact.clone());
                self.tried.push(Tried { number, artifact, result: result.clone(), cause: None });
            }
            Message::Code(_) | Message::Diagnosis(_) | Message::Question(_) => {}
        }
    }

    fn ended(&mut self, finished: &ToolFinished) {
        let (fault, shown) = (finished.fault.clone(), finished.shown.clone());
        let end = CallEnd { fault, exit_code: finished.exit_code, shown };
        let turn = finished.call.turn;
        match finished.call.id.as_str() {
            QUESTION_CALL => self.answered(end.shown),
            id @ (INSTALL_CALL | RUN_CALL) => {
                let current = self.current.as_mut().filter(|current| current.turn == turn);
                let Some(current) = current else { return };
                let call = if id == RUN_CALL { &mut current.run } else { &mut current.install };
                *call = Some(end);
            }
            _ if end.fault.is_some() && turn != self.accepted_turn => self.refuse(turn),
            _ => {}
        }
    }

    /// Counts the answer of this turn, which cannot be used.
    fn refuse(&mut self, turn: u32) {
        if self.refused_turn != turn {
            self.refused_turn = turn;
            self.refused += 1;
        }
    }

    /// Returns true if the last program needs what was lost with the sandbox: a fork of the run has
    /// it written anew.
    fn is_interrupted(&self) -> bool {
        let is_lost =
            self.tried.last().is_some_and(|it| it.result.category == Some(Category::Lost));
        let current = self.current.as_ref();
        is_lost || current.is_some_and(|it| it.install.is_some() && it.run.is_none())
    }

    /// Begins again with a human's answer.
    fn answered(&mut self, answer: String) {
        if give_up(&answer) {
            self.has_given_up = true;
            return;
        }
        self.round += 1;
        self.refused = 0;
        (self.plan, self.current) = (None, None);
        self.tried.clear();
        self.hints.push(answer);
    }

    fn prepare(&mut self, checkpoint: Result<String, String>) {
        if let Some(current) = &self.current {
            self.prepared = Some(Prepared { key: key(&current.artifact), checkpoint });
        }
    }

    /// Returns true if a message of this turn was taken.
    pub(crate) fn has_accepted(&self, turn: u32) -> bool {
        self.accepted_turn == turn
    }

    /// The agent whose message is missing.
    pub(crate) fn role(&self) -> Role {
        match (&self.plan, &self.current) {
            (None, _) => Role::Planner,
            (Some(_), None) => Role::Coder,
            (Some(_), Some(_)) => Role::Debugger,
        }
    }

    /// The model of that agent: a larger one after each answer that could not be used, and for the
    /// second diagnosis. None: the run's.
    pub(crate) fn model(&self) -> Option<&str> {
        let (models, later) = match self.role() {
            Role::Planner => (&self.models.planner, 0),
            Role::Coder => (&self.models.coder, 0),
            Role::Debugger => (&self.models.debugger, self.tried.len().saturating_sub(1)),
        };
        let at = later.saturating_add(self.refused as usize).min(models.len().checked_sub(1)?);
        models.get(at).map(String::as_str)
    }

    /// Returns true if a program does the same as an earlier one of the run.
    pub(crate) fn is_repeated(&self, artifact: &CodeArtifact) -> bool {
        self.fingerprints.contains(&fingerprint(artifact))
    }

    /// The number of an attempt with a message that comes next.
    pub(crate) fn next_attempt(&self, message: &Message) -> u32 {
        let over = u32::try_from(self.tried.len()).unwrap_or(u32::MAX);
        match message {
            Message::Plan(_) | Message::Code(_) => 1,
            Message::Diagnosis(_) => over.saturating_add(1),
            Message::Execution(_) => self.current.as_ref().map_or(1, |attempt| attempt.number),
            Message::Question(_) => over.max(1),
        }
    }

    /// Returns true if the current attempt's installation failed.
    pub(crate) fn is_uninstalled(&self) -> bool {
        let install = self.current.as_ref().and_then(|attempt| attempt.install.as_ref());
        install.is_some_and(|end| end.fault.is_some())
    }

    /// The state after the current attempt's installation; none: it was not done.
    fn preparation(&self) -> Option<&Prepared> {
        let current = self.current.as_ref()?;
        current.artifact.install_command.as_ref()?;
        self.prepared.as_ref().filter(|prepared| prepared.key == key(&current.artifact))
    }

    /// The checkpoint of the current attempt's installation.
    pub(crate) fn checkpoint(&self) -> Option<&str> {
        self.preparation()?.checkpoint.as_deref().ok()
    }

    /// Returns true if the installation is done, and no checkpoint was tried yet.
    pub(crate) fn lacks_checkpoint(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|it| it.artifact.install_command.is_some())
            && self.preparation().is_none()
    }

    /// Any checkpoint that there still is.
    pub(crate) fn kept_checkpoint(&self) -> Option<&str> {
        self.prepared.as_ref()?.checkpoint.as_deref().ok()
    }

    /// Returns true if the run's sandbox was made for the current attempt, in this way.
    pub(crate) fn has_sandbox(&self, is_fork: bool) -> bool {
        let turn = self.current.as_ref().map(|attempt| attempt.turn);
        self.sandbox.is_some() && self.sandbox == turn.map(|turn| (turn, is_fork))
    }

    /// The Executor's message, once the program has ended.
    fn report(&self) -> Option<ExecutionResult> {
        let current = self.current.as_ref()?;
        if self.tried.last().is_some_and(|tried| tried.number == current.number) {
            return None;
        }
        let run = current.run.as_ref()?;
        let install = current.install.as_ref().filter(|end| end.fault.is_some());
        let end = install.unwrap_or(run);
        let category = end.fault.as_ref().map(|fault| match install {
            Some(_) => Category::of_install(&fault.category),
            None => Category::named(&fault.category)
                .unwrap_or_else(|| Category::of_run(&fault.category, &end.shown)),
        });
        let (sandbox, no_checkpoint) = match (&current.install, self.preparation()) {
            (None, _) => (Preparation::Template, None),
            (Some(_), Some(Prepared { checkpoint: Ok(_), .. })) => (Preparation::Checkpoint, None),
            (Some(_), Some(Prepared { checkpoint: Err(why), .. })) => {
                (Preparation::Installed, Some(why.clone()))
            }
            (Some(_), None) => (Preparation::Installed, None),
        };
        Some(ExecutionResult {
            success: category.is_none(),
            exit_code: end.exit_code,
            error: end.fault.as_ref().map(|fault| fault.message.clone()),
            category,
            output: end.shown.clone(),
            sandbox,
            no_checkpoint,
            fingerprint: fingerprint(&current.artifact),
        })
    }

    /// The attempt that was run last, if nothing has followed it.
    fn last(&self) -> Option<&Tried> {
        let current = self.current.as_ref()?;
        self.tried.last().filter(|tried| tried.number == current.number)
    }

    fn is_over(&self) -> bool {
        self.tried.len() >= MAX_ATTEMPTS as usize
    }

    /// The question to a human. `why`: the reason that there is nothing to run.
    fn question(&self, why: Option<&str>) -> HumanQuestion {
        let tried = self.tried.iter().map(|tried| TriedAttempt {
            attempt: tried.number,
            category: tried.result.category,
            error: tried.result.error.clone(),
            cause: tried.cause.clone(),
        });
        HumanQuestion::new(tried.collect(), why)
    }
}

#[cfg(test)]
mod tests;
