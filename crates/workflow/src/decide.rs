//! The next events of a workflow: a pure function of those before.

use std::collections::BTreeMap;

use crate::definition::{Step, StepKind};
use crate::expression::Expression;
use crate::record::{AttemptKey, Event, StepStarted, StepValue, WorkflowOutcome};
use crate::resolve::{
    Datum, MAX_VALUE_BYTES, check_answers, check_depth, holds, items, resolve, size,
};
use crate::state::{ItemStatus, State, StepStatus};

/// Items of one step.
const MAX_ITEMS: usize = 1000;
/// Items of all steps together.
const MAX_ALL_ITEMS: usize = 5000;
/// The longest record. Each read of a workflow reads all of it.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// Reasons to stop that are not in the events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopSignals {
    pub is_cancelled: bool,
    /// The time of the workflow is over.
    pub is_late: bool,
}

/// Decides which events come next. None: the open attempts have to end first.
pub fn decide(state: &State, signs: StopSignals) -> Vec<Event> {
    if state.ending.is_some() {
        return Vec::new();
    }
    let open = state.open_attempts().count();
    if let Some((outcome, error)) = stop(state, signs) {
        return match open {
            0 => vec![Event::Ended { outcome, error: Some(error), outputs: BTreeMap::new() }],
            _ => Vec::new(),
        };
    }
    let mut items: usize = state.steps.values().filter_map(|step| step.items).sum();
    let names = state.steps.keys();
    let settled: Vec<_> = names.filter_map(|name| settle(state, name, &mut items)).collect();
    if !settled.is_empty() {
        return settled;
    }
    if state.steps.keys().all(|name| state.status(name).is_over()) {
        return vec![end(state)];
    }
    let started = start(state, open);
    if started.is_empty() && open == 0 {
        let error = Some("the budget of the workflow is used up".to_owned());
        let outcome = WorkflowOutcome::Exhausted;
        return vec![Event::Ended { outcome, error, outputs: BTreeMap::new() }];
    }
    started
}

/// Returns true if open attempts have to be cancelled.
pub(crate) fn is_stopping(state: &State, signs: StopSignals) -> bool {
    stop(state, signs).is_some()
}

fn stop(state: &State, signs: StopSignals) -> Option<(WorkflowOutcome, String)> {
    if signs.is_cancelled {
        return Some((WorkflowOutcome::Cancelled, "cancelled by request".to_owned()));
    }
    if let Some((step, error)) = state.failure() {
        return Some((WorkflowOutcome::Failed, format!("step `{step}` failed: {error}")));
    }
    if state.bytes > MAX_RECORD_BYTES {
        let error = format!("the record of the workflow is longer than {MAX_RECORD_BYTES} bytes");
        return Some((WorkflowOutcome::Failed, error));
    }
    let late = "the time of the workflow is over";
    signs.is_late.then(|| (WorkflowOutcome::Exhausted, late.to_owned()))
}

/// The end of a workflow whose steps are over.
fn end(state: &State) -> Event {
    match outputs(state) {
        Ok(outputs) => Event::Ended { outcome: WorkflowOutcome::Done, error: None, outputs },
        Err(error) => {
            let (outcome, outputs) = (WorkflowOutcome::Failed, BTreeMap::new());
            Event::Ended { outcome, error: Some(error), outputs }
        }
    }
}

/// The outputs that can be had. One of a skipped step is left out. An error: they are too large to
/// be recorded.
fn outputs(state: &State) -> Result<BTreeMap<String, StepValue>, String> {
    // Digest and length of a file, and field names.
    const FILE_BYTES: usize = 120;
    let mut outputs = BTreeMap::new();
    let mut bytes = 0;
    let mut put = |name: String, given: StepValue| {
        bytes += name.len();
        bytes += match &given {
            StepValue::File(_) => FILE_BYTES,
            StepValue::Value(value) => {
                check_depth(value).map_err(|error| format!("output `{name}`: {error}"))?;
                size(value)
            }
        };
        outputs.insert(name, given);
        match bytes > MAX_VALUE_BYTES {
            true => Err(format!("the outputs are longer than {MAX_VALUE_BYTES} bytes together")),
            false => Ok(()),
        }
    };
    for (name, text) in &state.definition.outputs {
        let Ok(expression) = text.parse::<Expression>() else { continue };
        let short = check_answers(state, &expression);
        short.map_err(|error| format!("output `{name}`: {error}"))?;
        match resolve(state, &expression, None) {
            Ok(Datum::Value(value)) => put(name.clone(), StepValue::Value(value))?,
            Ok(Datum::File(file)) => put(name.clone(), StepValue::File(file))?,
            Ok(Datum::Files(files)) => {
                for (index, file) in files.into_iter().enumerate() {
                    put(format!("{index}-{name}"), StepValue::File(file))?;
                }
            }
            Err(_) => {}
        }
    }
    Ok(outputs)
}

/// Skips a step, or finds its items, once everything before it is over. Counts the items.
fn settle(state: &State, name: &str, all_items: &mut usize) -> Option<Event> {
    let known = state.steps.get(name)?;
    if known.items.is_some() || state.status(name).is_over() {
        return None;
    }
    let step = state.definition.steps.get(name)?;
    if !step.needs().iter().all(|needed| state.status(needed).is_over()) {
        return None;
    }
    let skip = |reason: String| Some(Event::StepSkipped { step: name.to_owned(), reason });
    let refuse = |error: String| Some(Event::StepRefused { step: name.to_owned(), error });
    let missing = step.data_needs().into_iter().find(|it| state.status(it) != StepStatus::Done);
    if let Some(missing) = missing {
        let status = state.status(&missing).as_str();
        return skip(format!("step `{missing}` is {status}"));
    }
    for condition in &step.when {
        match holds(state, condition) {
            Ok(true) => {}
            Ok(false) => return skip(format!("`{condition}` does not hold")),
            Err(error) => return refuse(format!("`{condition}`: {error}")),
        }
    }
    let items = match &step.for_each {
        None => 1,
        Some(list) => match items(state, list) {
            Ok(list) if list.len() > MAX_ITEMS => {
                return refuse(format!("`for_each` has more than {MAX_ITEMS} items"));
            }
            Ok(list) => list.len(),
            Err(error) => return refuse(format!("`for_each`: {error}")),
        },
    };
    if *all_items + items > MAX_ALL_ITEMS {
        return refuse(format!("the steps have more than {MAX_ALL_ITEMS} items together"));
    }
    *all_items += items;
    Some(Event::Expanded { step: name.to_owned(), items })
}

fn start(state: &State, mut open: usize) -> Vec<Event> {
    let mut started = Vec::new();
    let mut purse = Purse::of(state);
    for (name, step) in &state.definition.steps {
        if state.status(name) != StepStatus::Running || state.has_failed(name) {
            continue;
        }
        let items = state.steps.get(name).and_then(|step| step.items).unwrap_or(0);
        let all: Vec<_> = (0..items).map(|item| state.item_status(name, item)).collect();
        let mut running = all.iter().filter(|status| **status == ItemStatus::Running).count();
        for (item, status) in all.iter().enumerate() {
            let ItemStatus::Open { attempt, grown } = *status else { continue };
            if running >= step.parallel || open >= state.definition.parallel {
                break;
            }
            let key = AttemptKey { step: name.clone(), item, attempt };
            let Some(event) = purse.start(key, step, grown) else { break };
            started.push(event);
            running += 1;
            open += 1;
        }
    }
    started
}

/// The budget of a workflow that no attempt has used or holds.
struct Purse {
    nano_dollars: Option<u64>,
    tokens: Option<u64>,
    /// Items of runs that have still to begin.
    waiting: u64,
}

impl Purse {
    fn of(state: &State) -> Self {
        let used = state.used();
        let held = |of: fn(&StepStarted) -> Option<u64>| {
            state.open_attempts().filter_map(|it| of(&it.started)).fold(0, u64::saturating_add)
        };
        let bounds = &state.definition.budget;
        let left = |bound: Option<u64>, used: u64, held: u64| {
            bound.map(|bound| bound.saturating_sub(used).saturating_sub(held))
        };
        let runs = state.definition.steps.iter().filter(|(_, step)| step.kind == StepKind::Run);
        let waiting = runs.map(|(name, _)| {
            if state.status(name).is_over() {
                return 0;
            }
            let items = state.steps.get(name).and_then(|step| step.items).unwrap_or(1);
            let is_open =
                |item: &usize| matches!(state.item_status(name, *item), ItemStatus::Open { .. });
            (0..items).filter(is_open).count() as u64
        });
        Self {
            nano_dollars: left(bounds.nano_dollars, used.nano_dollars, held(|it| it.nano_dollars)),
            tokens: left(bounds.tokens, used.tokens, held(|it| it.tokens)),
            waiting: waiting.sum(),
        }
    }

    /// Gives an attempt its share: equal parts for all that wait, or less if its own bound is less.
    /// None: nothing is left for now.
    fn start(&mut self, key: AttemptKey, step: &Step, grown: u32) -> Option<Event> {
        let (mut nano_dollars, mut tokens) = (None, None);
        if step.kind == StepKind::Run {
            let parts = self.waiting.max(1);
            let own = |field: &str| {
                let bound = step.run.as_ref()?.get("budget")?.get(field)?.as_u64()?;
                let factor = step.retry.budget;
                Some(factor.map_or(bound, |factor| factor.grow(bound, grown)))
            };
            let share = |left: Option<u64>, own: Option<u64>| match (left, own) {
                (None, own) => own,
                // A bound of its own is not divided, only limited.
                (Some(left), Some(own)) => Some(own.min(left)),
                (Some(left), None) => Some(left / parts),
            };
            nano_dollars = share(self.nano_dollars, own("nano_dollars"));
            tokens = share(self.tokens, own("tokens"));
            if nano_dollars == Some(0) || tokens == Some(0) {
                return None;
            }
            let take = |left: Option<u64>, taken: Option<u64>| {
                left.map(|left| left.saturating_sub(taken.unwrap_or(0)))
            };
            self.nano_dollars = take(self.nano_dollars, nano_dollars);
            self.tokens = take(self.tokens, tokens);
            self.waiting = self.waiting.saturating_sub(1);
        }
        let of = step.kind;
        Some(Event::StepStarted(StepStarted { key, of, nano_dollars, tokens, grown }))
    }
}

#[cfg(test)]
mod tests;
