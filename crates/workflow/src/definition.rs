//! The file of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use belljar_api::bounds::{Millis, Name, Script, Text};
use belljar_api::network::{Network, OperationName};
use belljar_api::run::CreateRun;
use belljar_api::sandbox::{ChosenLimits, TierName};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::expression::Expression;

/// A workflow: inputs, steps and outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub name: String,
    /// Inputs that a caller gives.
    #[serde(default)]
    pub inputs: BTreeMap<String, InputKind>,
    /// Bounds of all steps together.
    #[serde(default)]
    pub budget: Bounds,
    /// Attempts at the same time.
    #[serde(default = "default_parallel")]
    pub parallel: usize,
    pub steps: BTreeMap<String, Step>,
    /// Results of the workflow, as references.
    #[serde(default)]
    pub outputs: BTreeMap<String, String>,
}

fn default_parallel() -> usize {
    8
}

fn default_step_parallel() -> usize {
    4
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    File,
    Value,
}

/// Bounds of a workflow. An absent field is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Time since the workflow was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A run: an agent with a question.
    Run,
    /// A command in a sandbox of its own.
    Call,
}

impl StepKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Call => "call",
        }
    }
}

/// A step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub kind: StepKind,
    /// The body of `POST /v1/runs`, without `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Map<String, Value>>,
    /// Files and values for the step: a name, and a reference.
    #[serde(default)]
    pub inputs: BTreeMap<String, String>,
    /// Files that a call makes. A run's files are all kept.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// Steps that have to end first, besides those that are referred to.
    #[serde(default)]
    pub after: Vec<String>,
    /// Conditions, all of which must hold. Else the step is skipped.
    #[serde(default, deserialize_with = "one_or_many")]
    pub when: Vec<String>,
    /// A list. The step is executed once for each item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<String>,
    /// Items at the same time.
    #[serde(default = "default_step_parallel")]
    pub parallel: usize,
    #[serde(default)]
    pub retry: Retry,
    #[serde(default)]
    pub on_failure: OnFailure,
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}

/// Further attempts at a step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts in all.
    #[serde(default = "one")]
    pub attempts: u32,
    /// Factor of the memory for each further attempt, such as `x2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Factor>,
    /// Factor of the turns, tokens and dollars of a run for each further attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Factor>,
}

fn one() -> u32 {
    1
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 1, memory: None, budget: None }
    }
}

/// A factor from `x1` to `x16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Factor(u64);

impl Factor {
    /// Multiplies a value by the factor so many times.
    pub fn grow(self, value: u64, times: u32) -> u64 {
        value.saturating_mul(self.0.saturating_pow(times))
    }
}

impl TryFrom<String> for Factor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = text.strip_prefix('x').and_then(|number| number.parse::<u64>().ok());
        number
            .filter(|number| (1..=16).contains(number))
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a factor from x1 to x16"))
    }
}

impl From<Factor> for String {
    fn from(factor: Factor) -> Self {
        format!("x{}", factor.0)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The workflow fails.
    #[default]
    Fail,
    /// The workflow goes on; steps that need the output are skipped.
    Continue,
}

/// The table `call` of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallStep {
    #[serde(default)]
    pub template: Option<Name>,
    #[serde(default)]
    pub tier: Option<TierName>,
    #[serde(default)]
    pub limits: ChosenLimits,
    #[serde(default)]
    pub network: Option<Network>,
    #[serde(default)]
    pub operations: Vec<OperationName>,
    #[serde(default)]
    pub argv: Vec<Text<0, 131_071>>,
    #[serde(default)]
    pub script: Option<Script>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    #[serde(default)]
    pub timeout_ms: Option<Millis>,
}

impl Step {
    /// The brief of a run, without its data.
    pub fn brief(&self) -> Result<CreateRun, serde_json::Error> {
        serde_json::from_value(Value::Object(self.run.clone().unwrap_or_default()))
    }

    pub fn call_step(&self) -> Result<CallStep, serde_json::Error> {
        serde_json::from_value(Value::Object(self.call.clone().unwrap_or_default()))
    }

    /// The references of the inputs, with their names. Invalid ones are left out: `check` finds
    /// them.
    pub(crate) fn input_expressions(&self) -> impl Iterator<Item = (&str, Expression)> {
        self.inputs
            .iter()
            .filter_map(|(name, text)| Some((name.as_str(), text.parse::<Expression>().ok()?)))
    }

    /// The steps that have to be over before this one.
    pub(crate) fn needs(&self) -> BTreeSet<String> {
        let mut needs: BTreeSet<String> = self.after.iter().cloned().collect();
        needs.extend(self.data_needs());
        for condition in &self.when {
            if let Ok(condition) = condition.parse::<crate::expression::Condition>() {
                needs.extend(condition.steps().map(str::to_owned));
            }
        }
        needs
    }

    /// The steps whose output this one reads.
    pub(crate) fn data_needs(&self) -> BTreeSet<String> {
        let list = self.for_each.as_ref().and_then(|text| text.parse::<Expression>().ok());
        let all = self.input_expressions().map(|(_, expression)| expression).chain(list);
        all.filter(|it| !it.is_outcome()).filter_map(|it| it.step().map(str::to_owned)).collect()
    }
}
