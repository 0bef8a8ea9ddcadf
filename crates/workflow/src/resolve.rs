//! References, resolved against the state of a workflow.

use serde_json::Value;

use crate::expression::{Condition, Expression, Operand, follow};
use crate::record::{FileRef, Outputs, StepValue};
use crate::state::State;

/// The data behind a reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Datum {
    Value(Value),
    File(FileRef),
    /// A file of each item.
    Files(Vec<FileRef>),
}

/// An item of `for_each`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) index: usize,
    pub(crate) value: Value,
}

fn is_mapped(state: &State, step: &str) -> bool {
    state.definition.steps.get(step).is_some_and(|step| step.for_each.is_some())
}

/// The longest value that steps pass on: all answers that one reference gathers, all values of one
/// attempt. It is also the longest event.
pub(crate) const MAX_VALUE_BYTES: usize = 4 << 20;
/// Lists and objects within each other, in a value that is recorded. A reader takes 128 at most,
/// and events have some of their own.
pub(crate) const MAX_DEPTH: usize = 64;

/// About the length of a value as JSON.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 3,
        Value::Array(values) => values.iter().map(size).sum::<usize>() + 3,
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| name.len() + 4 + size(value));
            fields.sum::<usize>() + 3
        }
        _ => 8,
    }
}

/// Returns true if a value has more levels of lists and objects.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_inner = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(values) => levels == 0 || values.iter().any(is_inner),
        Value::Object(fields) => levels == 0 || fields.values().any(is_inner),
        _ => false,
    }
}

/// Refuses a value that a reader of events could not read.
pub(crate) fn check_depth(value: &Value) -> Result<(), String> {
    match is_deeper(value, MAX_DEPTH) {
        true => Err(format!("the value has more than {MAX_DEPTH} levels")),
        false => Ok(()),
    }
}

/// Refuses a reference whose answers are too long together.
pub(crate) fn check_answers(state: &State, expression: &Expression) -> Result<(), String> {
    let (Expression::Answer(step) | Expression::Value(step, _)) = expression else {
        return Ok(());
    };
    let outputs = state.outputs(step);
    let lengths = outputs.into_iter().filter_map(|outputs| Some(outputs.answer.as_ref()?.len()));
    match lengths.sum::<usize>() > MAX_VALUE_BYTES {
        true => Err(format!(
            "the answers of `{step}` are longer than {MAX_VALUE_BYTES} bytes; write files instead"
        )),
        false => Ok(()),
    }
}

/// The value of each item, or of the only one.
fn gathered(
    state: &State,
    step: &str,
    read: impl Fn(&Outputs) -> Result<Value, String>,
) -> Result<Value, String> {
    let outputs = state.outputs(step);
    let mut values = outputs.into_iter().map(read);
    if is_mapped(state, step) {
        return Ok(Value::Array(values.collect::<Result<_, _>>()?));
    }
    values.next().unwrap_or_else(|| Err(format!("step `{step}` has no output")))
}

fn answer(outputs: &Outputs) -> Result<&str, String> {
    outputs.answer.as_deref().ok_or_else(|| "there is no answer".to_owned())
}

pub(crate) fn resolve(
    state: &State,
    expression: &Expression,
    item: Option<&Item>,
) -> Result<Datum, String> {
    check_answers(state, expression)?;
    let no_item = || "there is no item here".to_owned();
    let value = match expression {
        Expression::Input(name, path) => match state.inputs.get(name) {
            Some(StepValue::File(file)) => return Ok(Datum::File(file.clone())),
            Some(StepValue::Value(value)) => follow(value, path)?.clone(),
            None => return Err(format!("there is no input `{name}`")),
        },
        Expression::Answer(step) => gathered(state, step, |outputs| Ok(answer(outputs)?.into()))?,
        Expression::Value(step, path) => {
            let read = |outputs: &Outputs| {
                serde_json::from_str(answer(outputs)?)
                    .map_err(|error| format!("the answer of `{step}` is not JSON: {error}"))
            };
            follow(&gathered(state, step, read)?, path)?.clone()
        }
        Expression::File(step, name) => {
            let missing = || format!("step `{step}` made no file `{name}`");
            let found = state.outputs(step);
            let mut found = found.into_iter().map(|outputs| outputs.files.get(name).cloned());
            return if is_mapped(state, step) {
                Ok(Datum::Files(found.flatten().collect()))
            } else {
                found.next().flatten().map(Datum::File).ok_or_else(missing)
            };
        }
        Expression::Outcome(step) => state.status(step).as_str().into(),
        Expression::Item(path) => follow(&item.ok_or_else(no_item)?.value, path)?.clone(),
        Expression::Index => item.ok_or_else(no_item)?.index.into(),
    };
    Ok(Datum::Value(value))
}

pub(crate) fn value(
    state: &State,
    expression: &Expression,
    item: Option<&Item>,
) -> Result<Value, String> {
    match resolve(state, expression, item)? {
        Datum::Value(value) => Ok(value),
        Datum::File(_) | Datum::Files(_) => Err("a file is no value".to_owned()),
    }
}

/// Returns true if a condition holds.
pub(crate) fn holds(state: &State, text: &str) -> Result<bool, String> {
    let condition: Condition = text.parse().map_err(|error| format!("{error}"))?;
    let left = value(state, &condition.left, None)?;
    let right = match &condition.right {
        Operand::Literal(literal) => literal.clone(),
        Operand::Reference(expression) => value(state, expression, None)?,
    };
    condition.operator.holds(&left, &right)
}

/// The list of a step with `for_each`.
pub(crate) fn items(state: &State, text: &str) -> Result<Vec<Value>, String> {
    let expression: Expression = text.parse().map_err(|error| format!("{error}"))?;
    match value(state, &expression, None)? {
        Value::Array(items) => Ok(items),
        _ => Err(format!("`{text}` is not a list")),
    }
}

/// A value as text: a text as it is, and everything else as JSON.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
