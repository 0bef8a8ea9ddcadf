//! Folds events into the state of a workflow.

use std::collections::BTreeMap;

use belljar_domain::OperationCaps;

use crate::definition::{Definition, OnFailure, Step};
use crate::record::{
    AttemptKey, AttemptOutcome, AttemptUsage, Event, Outputs, StepEnded, StepStarted, StepValue,
    WorkflowOutcome,
};
use crate::validate::parse;

/// Sandboxes of one item that may be lost with their nodes before it counts as failed.
const MAX_LOST: usize = 5;

/// Events that this version cannot read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot read an event of the workflow")]
    Event(#[source] serde_json::Error),
    #[error("the workflow's first event is not its creation")]
    NoCreation,
    #[error("cannot read the workflow's file: {0}")]
    Definition(#[from] crate::validate::DefinitionError),
}

/// An attempt, as far as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub started: StepStarted,
    pub id: Option<String>,
    pub ended: Option<StepEnded>,
}

/// A step, as far as it came.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepState {
    /// Known once the step can begin.
    pub items: Option<usize>,
    pub skipped: Option<String>,
    pub refused: Option<String>,
    /// By item.
    pub attempts: BTreeMap<usize, Vec<Attempt>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    Waiting,
    Running,
    Done,
    Failed,
    Skipped,
}

impl StepStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Skipped)
    }
}

/// The end of a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    pub outcome: WorkflowOutcome,
    pub error: Option<String>,
    pub outputs: BTreeMap<String, StepValue>,
}

/// A workflow, as its events tell it.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub definition: Definition,
    pub inputs: BTreeMap<String, StepValue>,
    pub caps: OperationCaps,
    pub steps: BTreeMap<String, StepState>,
    pub ending: Option<Ending>,
    /// Length of all events.
    pub bytes: usize,
}

/// The state of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemStatus {
    /// It can begin, as the attempt of this number, after so many that failed.
    Open {
        attempt: u32,
        grown: u32,
    },
    Running,
    Done,
    Failed,
}

impl State {
    pub fn of(events: &[String]) -> Result<Self, StateError> {
        let bytes = events.iter().map(String::len).sum();
        let mut events = events.iter().map(|text| serde_json::from_str(text));
        let first = events.next().ok_or(StateError::NoCreation)?.map_err(StateError::Event)?;
        let Event::Created { definition, inputs, caps, .. } = first else {
            return Err(StateError::NoCreation);
        };
        let definition = parse(&definition)?;
        let steps = definition.steps.keys().map(|name| (name.clone(), StepState::default()));
        let steps = steps.collect();
        let mut state = Self { definition, inputs, caps, steps, ending: None, bytes };
        for event in events {
            state.apply(event.map_err(StateError::Event)?);
        }
        Ok(state)
    }

    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Created { .. } => {}
            Event::Expanded { step, items } => self.step(step).items = Some(items),
            Event::StepSkipped { step, reason } => self.step(step).skipped = Some(reason),
            Event::StepRefused { step, error } => self.step(step).refused = Some(error),
            Event::StepStarted(started) => {
                let (step, item) = (started.key.step.clone(), started.key.item);
                let attempts = self.step(step).attempts.entry(item).or_default();
                attempts.push(Attempt { started, id: None, ended: None });
            }
            Event::StepPlaced { key, id } => {
                if let Some(attempt) = self.attempt_mut(&key) {
                    attempt.id = Some(id);
                }
            }
            Event::StepEnded(ended) => {
                let key = ended.key.clone();
                if let Some(attempt) = self.attempt_mut(&key) {
                    attempt.ended = Some(ended);
                }
            }
            Event::Ended { outcome, error, outputs } => {
                self.ending = Some(Ending { outcome, error, outputs });
            }
        }
    }

    fn step(&mut self, step: String) -> &mut StepState {
        self.steps.entry(step).or_default()
    }

    fn attempt_mut(&mut self, key: &AttemptKey) -> Option<&mut Attempt> {
        let attempts = self.steps.get_mut(&key.step)?.attempts.get_mut(&key.item)?;
        attempts.get_mut(usize::try_from(key.attempt).ok()?)
    }

    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.steps.values().flat_map(|step| step.attempts.values().flatten())
    }

    /// Attempts that have begun and not ended.
    pub fn open_attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts().filter(|attempt| attempt.ended.is_none())
    }

    pub fn used(&self) -> AttemptUsage {
        let ended = self.attempts().filter_map(|attempt| attempt.ended.as_ref());
        ended.fold(AttemptUsage::default(), |sum, ended| AttemptUsage {
            tokens: sum.tokens.saturating_add(ended.used.tokens),
            nano_dollars: sum.nano_dollars.saturating_add(ended.used.nano_dollars),
        })
    }

    pub(crate) fn item_status(&self, step: &str, item: usize) -> ItemStatus {
        let first = ItemStatus::Open { attempt: 0, grown: 0 };
        let Some(attempts) = self.steps.get(step).and_then(|it| it.attempts.get(&item)) else {
            return first;
        };
        let Some(last) = attempts.last() else { return first };
        let Some(ended) = &last.ended else { return ItemStatus::Running };
        let count = |outcome| {
            let ended = attempts.iter().filter_map(|attempt| attempt.ended.as_ref());
            ended.filter(|ended| ended.outcome == outcome).count()
        };
        let failed = u32::try_from(count(AttemptOutcome::Failed)).unwrap_or(u32::MAX);
        let most = self.definition.steps.get(step).map_or(1, |step| step.retry.attempts);
        let next = ItemStatus::Open { attempt: last.started.key.attempt + 1, grown: failed };
        match ended.outcome {
            AttemptOutcome::Done => ItemStatus::Done,
            AttemptOutcome::Failed if failed < most => next,
            AttemptOutcome::Lost if count(AttemptOutcome::Lost) < MAX_LOST => next,
            _ => ItemStatus::Failed,
        }
    }

    pub fn status(&self, step: &str) -> StepStatus {
        let Some(state) = self.steps.get(step) else { return StepStatus::Waiting };
        if state.skipped.is_some() {
            return StepStatus::Skipped;
        }
        if state.refused.is_some() {
            return StepStatus::Failed;
        }
        let Some(items) = state.items else { return StepStatus::Waiting };
        let all: Vec<_> = (0..items).map(|item| self.item_status(step, item)).collect();
        if all.iter().any(|status| matches!(status, ItemStatus::Running | ItemStatus::Open { .. }))
        {
            // After an item that failed for good, no further one begins.
            let is_running = all.contains(&ItemStatus::Running);
            return match all.contains(&ItemStatus::Failed) && !is_running {
                true => StepStatus::Failed,
                false => StepStatus::Running,
            };
        }
        match all.contains(&ItemStatus::Failed) {
            true => StepStatus::Failed,
            false => StepStatus::Done,
        }
    }

    /// The first step whose failure is one of the workflow, with the reason.
    pub fn failure(&self) -> Option<(&str, &str)> {
        let mut steps = self.definition.steps.iter();
        let is_fatal = |step: &Step| step.on_failure == OnFailure::Fail;
        // One that was only cancelled, because of another one, has no reason of its own.
        let is_reason = |name: &str| self.has_failed(name) && !self.error(name).is_empty();
        let (name, _) = steps.find(|(name, step)| is_fatal(step) && is_reason(name))?;
        Some((name, self.error(name)))
    }

    /// Returns true if an item has failed for good, even while others run.
    pub(crate) fn has_failed(&self, step: &str) -> bool {
        let Some(state) = self.steps.get(step) else { return false };
        let failed = |item| self.item_status(step, item) == ItemStatus::Failed;
        state.refused.is_some() || (0..state.items.unwrap_or(0)).any(failed)
    }

    /// The reason for the failure of a step.
    pub fn error(&self, step: &str) -> &str {
        let Some(state) = self.steps.get(step) else { return "" };
        if let Some(error) = &state.refused {
            return error;
        }
        let mut ended = state.attempts.values().filter_map(|all| all.last()?.ended.as_ref());
        ended.find_map(|ended| ended.error.as_deref()).unwrap_or_default()
    }

    /// Outputs of a step that is done, by item.
    pub(crate) fn outputs(&self, step: &str) -> Vec<&Outputs> {
        let Some(state) = self.steps.get(step) else { return Vec::new() };
        let ended = state.attempts.values().filter_map(|all| all.last()?.ended.as_ref());
        ended.map(|ended| &ended.outputs).collect()
    }
}
