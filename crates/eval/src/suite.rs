//! The file of an evaluation: tasks, what is expected, and variants.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The longest id of a task and name of a variant.
const MAX_NAME: usize = 64;

/// The tasks of an evaluation, as its file has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    #[serde(default)]
    pub name: String,
    /// Settings of every run, unless its task or its variant has others.
    #[serde(default)]
    pub defaults: RunSettings,
    /// Settings to compare, by name. Without any there is one variant without a name.
    #[serde(default)]
    pub variants: BTreeMap<String, RunSettings>,
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
}

/// One question, and the answer that is expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub id: String,
    pub question: String,
    /// Paths, relative to the file; with a server also `NAME@SHA256` of an uploaded file.
    #[serde(default)]
    pub data: Vec<String>,
    pub expect: Expectation,
    /// Settings of this task's runs.
    #[serde(default)]
    pub run: RunSettings,
}

/// Settings of a run. A field that is absent is the default of `belljar ask`, or the server's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Text for the model's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Gateway operations that the code may call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Dollars, such as `"0.50"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// The current time, as the run sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guards: Option<GuardSettings>,
    /// The score from which on an answer passes. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<f64>,
}

/// Guards that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardSettings {
    pub joins: bool,
    pub dates: bool,
    pub turns: bool,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self { joins: true, dates: true, turns: true }
    }
}

/// The way to a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Expectation {
    /// The whole answer, apart from spaces around it.
    Exact(String),
    /// A text that the answer holds.
    Contains(String),
    /// The one number of the answer.
    Number(NumberRule),
    /// Values that the answer gives as `@name[value]`, as DABench has them.
    Values(BTreeMap<String, String>),
    /// Python code that scores the answer.
    Checker(Checker),
    /// A model that scores the answer.
    Judge(Judge),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberRule {
    pub value: f64,
    #[serde(default)]
    pub absolute: f64,
    /// Of the value's size, such as 0.01.
    #[serde(default)]
    pub relative: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checker {
    /// Path of a Python file, relative to the tasks.
    pub file: String,
    /// Template of its sandbox. Default: `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Wall-clock limit. Default: 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    /// `MODEL` or `OPERATION=MODEL`.
    pub model: String,
    pub rubric: String,
    /// Dollars that one verdict may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<String>,
}

/// A file that is no suite.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("it is no valid TOML")]
    Toml(#[from] toml::de::Error),
    #[error("it is no valid JSON")]
    Json(#[from] serde_json::Error),
    #[error("it has no [[task]]")]
    NoTask,
    #[error("`{0}` is no name: use 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`")]
    Name(String),
    #[error("two tasks have the id `{0}`")]
    Twice(String),
    #[error("task `{task}`: {why}")]
    Task { task: String, why: &'static str },
}

impl Suite {
    /// Reads JSON if the text begins with a brace, or else TOML.
    pub fn read(text: &str) -> Result<Self, SuiteError> {
        let suite: Self = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text)?,
            false => toml::from_str(text)?,
        };
        suite.check()?;
        Ok(suite)
    }

    fn check(&self) -> Result<(), SuiteError> {
        if self.tasks.is_empty() {
            return Err(SuiteError::NoTask);
        }
        let mut names = self.tasks.iter().map(|task| &task.id).chain(self.variants.keys());
        if let Some(wrong) = names.find(|name| !is_name(name)) {
            return Err(SuiteError::Name(wrong.clone()));
        }
        let mut seen = BTreeSet::new();
        for task in &self.tasks {
            if !seen.insert(&task.id) {
                return Err(SuiteError::Twice(task.id.clone()));
            }
            let failed = |why| SuiteError::Task { task: task.id.clone(), why };
            task.expect.check().map_err(failed)?;
            for variant in self.variant_names() {
                self.settings(task, variant).check().map_err(failed)?;
            }
        }
        Ok(())
    }

    /// The names of the variants; one without a name if there is none.
    pub fn variant_names(&self) -> Vec<&str> {
        match self.variants.is_empty() {
            true => vec![""],
            false => self.variants.keys().map(String::as_str).collect(),
        }
    }

    /// The settings of a task's runs: the variant's, then the task's, then the defaults.
    pub fn settings(&self, task: &Task, variant: &str) -> RunSettings {
        let own = self.variants.get(variant).cloned().unwrap_or_default();
        own.or(&task.run).or(&self.defaults)
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

impl RunSettings {
    /// The fields of `self`, and of `other` where `self` has none.
    fn or(self, other: &Self) -> Self {
        let text = |own: Option<String>, other: &Option<String>| own.or_else(|| other.clone());
        Self {
            template: text(self.template, &other.template),
            tier: text(self.tier, &other.tier),
            memory: text(self.memory, &other.memory),
            instructions: text(self.instructions, &other.instructions),
            operations: self.operations.or_else(|| other.operations.clone()),
            turns: self.turns.or(other.turns),
            budget_usd: text(self.budget_usd, &other.budget_usd),
            tokens: self.tokens.or(other.tokens),
            time: text(self.time, &other.time),
            temperature: self.temperature.or(other.temperature),
            effort: text(self.effort, &other.effort),
            output_tokens: self.output_tokens.or(other.output_tokens),
            now: text(self.now, &other.now),
            guards: self.guards.or(other.guards),
            pass: self.pass.or(other.pass),
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        match self.pass {
            Some(pass) if !(0.0..=1.0).contains(&pass) => Err("`pass` is a score from 0 to 1"),
            _ => Ok(()),
        }
    }
}

impl Expectation {
    fn check(&self) -> Result<(), &'static str> {
        let is_tolerance = |tolerance: f64| tolerance.is_finite() && tolerance >= 0.0;
        match self {
            Self::Number(wanted) if !wanted.value.is_finite() => Err("the number is not finite"),
            Self::Number(wanted)
                if !is_tolerance(wanted.absolute) || !is_tolerance(wanted.relative) =>
            {
                Err("a tolerance is a number from 0 on")
            }
            Self::Values(values) if values.is_empty() => Err("`values` names no value"),
            Self::Contains(text) if text.trim().is_empty() => Err("`contains` has no text"),
            Self::Judge(judge) if judge.rubric.trim().is_empty() => Err("the judge has no rubric"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: &str = r#"
        name = "two"
        [defaults]
        template = "python-data"
        turns = 5
        [variants.plain]
        guards = { joins = false }
        turns = 7
        [variants.guarded]
        [[task]]
        id = "a"
        question = "How many?"
        data = ["a.csv"]
        expect.number = { value = 3.0, absolute = 0.5 }
        [[task]]
        id = "b"
        question = "Which?"
        expect.values = { mean = "1.5" }
        run = { turns = 6, now = "2026-03-20" }
    "#;

    #[test]
    fn a_variant_comes_before_the_task_and_that_before_the_defaults() {
        let suite = Suite::read(SUITE).unwrap();
        assert_eq!(suite.variant_names(), ["guarded", "plain"]);
        let turns = |task: usize, variant| suite.settings(&suite.tasks[task], variant).turns;
        assert_eq!([turns(0, "guarded"), turns(1, "guarded")], [Some(5), Some(6)]);
        assert_eq!([turns(0, "plain"), turns(1, "plain")], [Some(7), Some(7)]);
        let settings = suite.settings(&suite.tasks[1], "plain");
        assert_eq!(settings.template.as_deref(), Some("python-data"));
        assert_eq!(settings.now.as_deref(), Some("2026-03-20"));
        let guards = GuardSettings { joins: false, ..GuardSettings::default() };
        assert_eq!(settings.guards, Some(guards));
    }

    #[test]
    fn json_is_the_same() {
        let suite = Suite::read(SUITE).unwrap();
        let text = serde_json::to_string(&suite).unwrap();
        assert_eq!(Suite::read(&text).unwrap(), suite);
        let plain = r#"{"task": [{"id": "a", "question": "?", "expect": {"exact": "1"}}]}"#;
        assert_eq!(Suite::read(plain).unwrap().variant_names(), [""]);
    }

    #[test]
    fn mistakes_are_refused() {
        for (from, to) in [
            ("turns = 5", "truns = 5"),
            ("id = \"b\"", "id = \"a\""),
            ("id = \"b\"", "id = \"b/c\""),
            ("absolute = 0.5", "absolute = -0.5"),
            ("value = 3.0", "value = nan"),
            ("{ mean = \"1.5\" }", "{}"),
            ("turns = 6,", "pass = 1.5,"),
            ("expect.values", "expect.vals"),
        ] {
            let text = SUITE.replacen(from, to, 1);
            assert_ne!(text, SUITE, "{from}");
            assert!(Suite::read(&text).is_err(), "{to}");
        }
        assert!(matches!(Suite::read("task = []"), Err(SuiteError::NoTask)));
    }
}
