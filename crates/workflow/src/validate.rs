//! Reads the file of a workflow and finds its mistakes, with their lines.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::definition::{Definition, InputKind, Step, StepKind};
use crate::expression::{Condition, Expression};
use crate::locate::line_of;

/// Steps of one workflow; its inputs and outputs; inputs, outputs, conditions and so on of a step.
const MAX_ENTRIES: usize = 200;
/// Mistakes that are searched for.
const MAX_PROBLEMS: usize = 20;
/// Characters of one message, which may quote the file.
const MAX_MESSAGE: usize = 500;
/// The longest name that is compared with others.
const MAX_COMPARED_BYTES: usize = 64;
/// The longest file of a workflow.
const MAX_BYTES: usize = 256 << 10;
const MAX_PARALLEL: usize = 64;
const MAX_ATTEMPTS: u32 = 10;

/// A mistake in the file of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The mistakes in the file of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct DefinitionError(pub Vec<Problem>);

impl Problem {
    fn new(line: Option<usize>, mut message: String) -> Self {
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
        }
        Self { line, message }
    }
}

impl DefinitionError {
    fn one(line: Option<usize>, message: String) -> Self {
        Self(vec![Problem::new(line, message)])
    }
}

/// Refuses a file with too many entries, before anything is done for each of them.
fn check_size(text: &str, value: &Value) -> Result<(), DefinitionError> {
    let count = |value: &Value, field: &str| match value.get(field) {
        Some(Value::Object(entries)) => entries.len(),
        Some(Value::Array(entries)) => entries.len(),
        _ => 0,
    };
    for field in ["steps", "inputs", "outputs"] {
        if count(value, field) > MAX_ENTRIES {
            let line = line_of(text, None, Some(field));
            let message = format!("a workflow has at most {MAX_ENTRIES} {field}");
            return Err(DefinitionError::one(line, message));
        }
    }
    let steps = value.get("steps").and_then(Value::as_object);
    for (name, step) in steps.into_iter().flatten() {
        for field in ["inputs", "outputs", "after", "when"] {
            if count(step, field) > MAX_ENTRIES {
                let line = line_of(text, Some(name), Some(field));
                let message = format!("step `{name}`: `{field}` has at most {MAX_ENTRIES} entries");
                return Err(DefinitionError::one(line, message));
            }
        }
    }
    Ok(())
}

/// Reads a file, in TOML or JSON, without looking at references.
pub fn parse(text: &str) -> Result<Definition, DefinitionError> {
    if text.len() > MAX_BYTES {
        let message = format!("the file is longer than {MAX_BYTES} bytes");
        return Err(DefinitionError::one(None, message));
    }
    let value: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text)
            .map_err(|error| DefinitionError::one(Some(error.line()), error.to_string()))?
    } else {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
            DefinitionError::one(Some(line), error.message().to_owned())
        })?
    };
    check_size(text, &value)?;
    if value.get("steps").is_some_and(|steps| !steps.is_object()) {
        let message = "`steps` is a table with one table for each step: `[steps.NAME]`";
        return Err(DefinitionError::one(line_of(text, None, Some("steps")), message.to_owned()));
    }
    // Each step by itself, so that an error has its step.
    let steps = value.get("steps").and_then(Value::as_object);
    let mut problems = Vec::new();
    for (name, step) in steps.into_iter().flatten() {
        if let Err(error) = serde_json::from_value::<Step>(step.clone()) {
            let message = error.to_string();
            let field = message.split('`').nth(1);
            let line = line_of(text, Some(name), field);
            problems.push(Problem::new(line, format!("step `{name}`: {message}")));
        }
        if problems.len() >= MAX_PROBLEMS {
            break;
        }
    }
    if !problems.is_empty() {
        return Err(DefinitionError(problems));
    }
    serde_json::from_value(value).map_err(|error| {
        let message = error.to_string();
        let field = message.split('`').nth(1);
        DefinitionError::one(field.and_then(|field| line_of(text, None, Some(field))), message)
    })
}

/// Reads a file and checks all of it.
pub fn check(text: &str) -> Result<Definition, DefinitionError> {
    let definition = parse(text)?;
    let mut checker = Checker { text, definition: &definition, problems: Vec::new() };
    checker.whole();
    match checker.problems.is_empty() {
        true => Ok(definition),
        false => Err(DefinitionError(checker.problems)),
    }
}

/// The kind of data that a reference yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    File,
    Value,
}

struct Checker<'a> {
    text: &'a str,
    definition: &'a Definition,
    problems: Vec<Problem>,
}

fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k String>) -> String {
    // The comparison takes the time of both lengths together, multiplied.
    let is_short = |name: &str| name.len() <= MAX_COMPARED_BYTES;
    let known = known.filter(|known| is_short(name) && is_short(known));
    let near = known.map(|known| (strsim::damerau_levenshtein(name, known), known));
    match near.filter(|(distance, _)| *distance <= 2).min() {
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}

fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=40).contains(&name.len()) && name.bytes().all(is_letter)
}

/// A file name without directories.
fn is_file_name(name: &str) -> bool {
    let is_plain = !name.contains(['/', '\0']) && name != "." && name != "..";
    is_plain && (1..=255).contains(&name.len())
}

impl Checker<'_> {
    fn problem(&mut self, step: Option<&str>, field: Option<&str>, message: String) {
        if self.is_full() {
            return;
        }
        let line = line_of(self.text, step, field);
        let message = match step {
            Some(step) => format!("step `{step}`: {message}"),
            None => message,
        };
        self.problems.push(Problem::new(line, message));
    }

    /// Returns true if further mistakes are not searched for.
    fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }

    fn whole(&mut self) {
        let definition = self.definition;
        if !is_name(&definition.name) {
            let message = "a name has 1 to 40 letters, digits, `_` and `-`";
            self.problem(None, Some("name"), message.to_owned());
        }
        if definition.steps.is_empty() {
            self.problem(None, Some("steps"), format!("a workflow has 1 to {MAX_ENTRIES} steps"));
        }
        if !(1..=MAX_PARALLEL).contains(&definition.parallel) {
            self.problem(None, Some("parallel"), format!("parallel is 1 to {MAX_PARALLEL}"));
        }
        for (name, step) in &definition.steps {
            if self.is_full() {
                return;
            }
            self.step(name, step);
        }
        for (name, reference) in &definition.outputs {
            if self.is_full() {
                return;
            }
            if let Some(expression) = self.reference(None, name, reference, false)
                && expression.is_of_item()
            {
                let message = format!("output `{name}`: there is no item here");
                self.problem(None, Some(name), message);
            }
        }
        if let Some(cycle) = self.cycle() {
            let message = format!("the steps wait for each other: {}", cycle.join(" -> "));
            self.problem(cycle.first().map(String::as_str), None, message);
        }
    }

    fn step(&mut self, name: &str, step: &Step) {
        let at = Some(name);
        if !is_name(name) {
            let message = "a name has 1 to 40 letters, digits, `_` and `-`";
            self.problem(at, None, message.to_owned());
        }
        self.body(name, step);
        let mapped = step.for_each.is_some();
        for (input, reference) in &step.inputs {
            if self.is_full() {
                return;
            }
            if !is_file_name(input) {
                self.problem(at, Some(input), format!("input `{input}` is not a file name"));
            }
            if let Some(expression) = self.reference(at, input, reference, mapped) {
                self.input(name, step, input, &expression);
            }
        }
        for needed in &step.after {
            if self.is_full() {
                return;
            }
            self.known_step(at, "after", needed);
        }
        for text in &step.when {
            if self.is_full() {
                return;
            }
            match text.parse::<Condition>() {
                Err(error) => self.problem(at, Some("when"), error.to_string()),
                Ok(condition) => {
                    let references: Vec<_> = condition.references().cloned().collect();
                    for expression in references {
                        let kind = self.known(at, "when", &expression, false);
                        if kind == Some(Data::File) {
                            let message = format!("`{text}` compares a file");
                            self.problem(at, Some("when"), message);
                        }
                    }
                }
            }
        }
        if let Some(list) = &step.for_each
            && let Some(expression) = self.reference(at, "for_each", list, false)
            && self.kind(&expression) == Some(Data::File)
        {
            self.problem(at, Some("for_each"), "`for_each` needs a list, not a file".to_owned());
        }
        if !(1..=MAX_PARALLEL).contains(&step.parallel) {
            self.problem(at, Some("parallel"), format!("parallel is 1 to {MAX_PARALLEL}"));
        }
        if !(1..=MAX_ATTEMPTS).contains(&step.retry.attempts) {
            self.problem(at, Some("retry"), format!("retry.attempts is 1 to {MAX_ATTEMPTS}"));
        }
        let body = step.run.as_ref().or(step.call.as_ref());
        let memory = body.and_then(|body| body.get("limits")?.get("memory_bytes"));
        if step.retry.memory.is_some() && memory.is_none() {
            let message = "`retry.memory` grows `limits.memory_bytes`, which is not given";
            self.problem(at, Some("retry"), message.to_owned());
        }
        for output in &step.outputs {
            if !is_file_name(output) {
                self.problem(at, Some("outputs"), format!("output `{output}` is not a file name"));
            }
        }
    }

    /// The table of the step's kind.
    fn body(&mut self, name: &str, step: &Step) {
        let at = Some(name);
        let kind = step.kind.as_str();
        let (own, other) = match step.kind {
            StepKind::Run => (step.run.is_some(), step.call.is_some()),
            StepKind::Call => (step.call.is_some(), step.run.is_some()),
        };
        if !own || other {
            self.problem(
                at,
                Some("kind"),
                format!("a step of kind `{kind}` has one table, `{kind}`"),
            );
            return;
        }
        let read = match step.kind {
            StepKind::Run => step.brief().map(drop),
            StepKind::Call => step.call_step().map(drop),
        };
        if let Err(error) = read {
            let message = error.to_string();
            let field = message.split('`').nth(1).map(str::to_owned);
            self.problem(at, field.as_deref(), format!("`{kind}`: {message}"));
            return;
        }
        match step.kind {
            StepKind::Run => {
                if step.run.as_ref().is_some_and(|run| run.contains_key("data")) {
                    let message = "files of a run are named in `inputs`, not in `run.data`";
                    self.problem(at, Some("data"), message.to_owned());
                }
                if !step.outputs.is_empty() {
                    let message = "a run has no `outputs`: all its files are kept";
                    self.problem(at, Some("outputs"), message.to_owned());
                }
            }
            StepKind::Call => {
                let call = step.call.as_ref();
                let has = |field| call.is_some_and(|call| call.contains_key(field));
                if has("argv") == has("script") {
                    self.problem(
                        at,
                        Some("call"),
                        "a call has either `argv` or `script`".to_owned(),
                    );
                }
            }
        }
    }

    /// A value for a run is part of its question. A file is not.
    fn input(&mut self, name: &str, step: &Step, input: &str, expression: &Expression) {
        if step.kind != StepKind::Run {
            return;
        }
        let question = step.run.as_ref().and_then(|run| run.get("question")?.as_str());
        let is_used = question.unwrap_or_default().contains(&format!("{{{{{input}}}}}"));
        match (self.kind(expression), is_used) {
            (Some(Data::Value), false) => {
                let message = format!("write {{{{{input}}}}} where the question needs the value");
                self.problem(Some(name), Some(input), message);
            }
            (Some(Data::File), true) => {
                let message = format!("input `{input}` is a file and cannot be in the question");
                self.problem(Some(name), Some(input), message);
            }
            _ => {}
        }
    }

    fn reference(
        &mut self,
        step: Option<&str>,
        field: &str,
        text: &str,
        mapped: bool,
    ) -> Option<Expression> {
        match text.parse::<Expression>() {
            Err(error) => {
                self.problem(step, Some(field), error.to_string());
                None
            }
            Ok(expression) => {
                self.known(step, field, &expression, mapped)?;
                Some(expression)
            }
        }
    }

    /// Checks that a reference is to something, and returns its kind.
    fn known(
        &mut self,
        step: Option<&str>,
        field: &str,
        expression: &Expression,
        mapped: bool,
    ) -> Option<Data> {
        let definition = self.definition;
        match expression {
            Expression::Input(input, path) => {
                let Some(kind) = definition.inputs.get(input) else {
                    let near = nearest(input, definition.inputs.keys());
                    let message = format!("there is no input `{input}`{near}");
                    self.problem(step, Some(field), message);
                    return None;
                };
                if *kind == InputKind::File && !path.is_empty() {
                    let message = format!("input `{input}` is a file and has no parts");
                    self.problem(step, Some(field), message);
                    return None;
                }
            }
            Expression::Item(_) | Expression::Index if !mapped && step.is_some() => {
                let message = "there is an item only in `inputs` of a step with `for_each`";
                self.problem(step, Some(field), message.to_owned());
                return None;
            }
            Expression::Item(_) | Expression::Index => {}
            Expression::File(of, file) => {
                self.known_step(step, field, of)?;
                let made = definition.steps.get(of)?;
                if made.kind == StepKind::Call && !made.outputs.contains(file) {
                    let near = nearest(file, made.outputs.iter());
                    let message = format!("step `{of}` does not list the output `{file}`{near}");
                    self.problem(step, Some(field), message);
                    return None;
                }
            }
            Expression::Answer(of) | Expression::Value(of, _) | Expression::Outcome(of) => {
                self.known_step(step, field, of)?;
            }
        }
        self.kind(expression)
    }

    fn known_step(&mut self, step: Option<&str>, field: &str, of: &str) -> Option<()> {
        let definition = self.definition;
        if definition.steps.contains_key(of) {
            return Some(());
        }
        let near = nearest(of, definition.steps.keys());
        self.problem(step, Some(field), format!("there is no step `{of}`{near}"));
        None
    }

    fn kind(&self, expression: &Expression) -> Option<Data> {
        match expression {
            Expression::Input(input, _) => Some(match self.definition.inputs.get(input)? {
                InputKind::File => Data::File,
                InputKind::Value => Data::Value,
            }),
            Expression::File(..) => Some(Data::File),
            _ => Some(Data::Value),
        }
    }

    /// Steps that wait for each other, the first one twice.
    fn cycle(&self) -> Option<Vec<String>> {
        let steps = &self.definition.steps;
        let mut settled: BTreeSet<&str> = BTreeSet::new();
        for start in steps.keys() {
            let mut way: Vec<String> = Vec::new();
            if let Some(found) = self.visit(start, &mut way, &mut settled) {
                return Some(found);
            }
        }
        None
    }

    fn visit<'s>(
        &'s self,
        step: &'s str,
        way: &mut Vec<String>,
        settled: &mut BTreeSet<&'s str>,
    ) -> Option<Vec<String>> {
        if let Some(at) = way.iter().position(|on_way| on_way == step) {
            let mut cycle = way[at..].to_vec();
            cycle.push(step.to_owned());
            return Some(cycle);
        }
        if settled.contains(step) {
            return None;
        }
        let (name, found) = self.definition.steps.get_key_value(step)?;
        way.push(step.to_owned());
        for needed in found.needs() {
            let Some((needed, _)) = self.definition.steps.get_key_value(&needed) else { continue };
            let cycle = self.visit(needed, way, settled);
            if cycle.is_some() {
                return cycle;
            }
        }
        way.pop();
        settled.insert(name);
        None
    }
}

#[cfg(test)]
mod tests;
