//! The parts of a run that are about its model: parameters, skills and recordings.

use std::borrow::Cow;

use belljar_domain::{Effort, ModelParameters, Temperature};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::Number;
use crate::data::Sha256;

/// Parameters of every model request of a run. The model's provider decides what is absent. A
/// parameter that the provider does not have is refused with `model_parameter_unsupported`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunParameters {
    /// Sampling temperature, exact to a thousandth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<TemperatureNumber>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<EffortName>,
    /// Maximum number of tokens in one model answer, reasoning included. Default: the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<Number<1, 1_000_000>>,
}

impl RunParameters {
    /// Returns true if nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<RunParameters> for ModelParameters {
    fn from(parameters: RunParameters) -> Self {
        let RunParameters { temperature, effort, output_tokens } = parameters;
        Self {
            temperature: temperature.map(|temperature| temperature.0),
            effort: effort.map(Into::into),
            // The bound is far below.
            output_tokens: output_tokens.and_then(|tokens| u32::try_from(tokens.get()).ok()),
        }
    }
}

impl From<ModelParameters> for RunParameters {
    fn from(parameters: ModelParameters) -> Self {
        let ModelParameters { temperature, effort, output_tokens } = parameters;
        Self {
            temperature: temperature.map(TemperatureNumber),
            effort: effort.map(Into::into),
            output_tokens: output_tokens.and_then(|tokens| u64::from(tokens).try_into().ok()),
        }
    }
}

/// The guards of a run: hints to its model about mistakes that models make often. They are no
/// defence, and all are on by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunGuards {
    /// Reports joins that matched nothing, or multiplied rows.
    #[serde(default = "on")]
    pub joins: bool,
    /// Reports dates of the data that are compared with the clock of the sandbox.
    #[serde(default = "on")]
    pub dates: bool,
    /// Tells the model when 3 turns and 1 are left.
    #[serde(default = "on")]
    pub turns: bool,
}

fn on() -> bool {
    true
}

impl Default for RunGuards {
    fn default() -> Self {
        Self { joins: true, dates: true, turns: true }
    }
}

impl RunGuards {
    /// Returns true if all are on.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A temperature as a number from 0 to 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct TemperatureNumber(Temperature);

impl JsonSchema for TemperatureNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Temperature".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 2 })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffortName {
    Low,
    Medium,
    High,
}

impl From<EffortName> for Effort {
    fn from(name: EffortName) -> Self {
        match name {
            EffortName::Low => Self::Low,
            EffortName::Medium => Self::Medium,
            EffortName::High => Self::High,
        }
    }
}

impl From<Effort> for EffortName {
    fn from(effort: Effort) -> Self {
        match effort {
            Effort::Low => Self::Low,
            Effort::Medium => Self::Medium,
            Effort::High => Self::High,
        }
    }
}

/// A skill for a run: a folder with a `SKILL.md`, as a tar archive uploaded with
/// `POST /v1/data`. The code finds it in `/mnt/skills`, below its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedSkill {
    /// Digest of the archive.
    pub sha256: Sha256,
}

/// A skill of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunSkill {
    pub name: String,
    pub description: String,
    #[schemars(length(equal = 64))]
    pub sha256: String,
}

/// The recording of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecording {
    /// The name that the request gave to it.
    pub name: String,
    /// Digest of the recording. Absent until the run is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(equal = 64))]
    pub sha256: Option<String>,
    /// Digest of the recorded exchanges of the run's code with operations and hosts. Absent for a
    /// run without a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(equal = 64))]
    pub cassette: Option<String>,
    /// The reason why requests of the run's code are missing on the cassette; a replay diverges
    /// there. Absent if none is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_within_bounds_or_never_read() {
        let json = r#"{"temperature":0.2,"effort":"high","output_tokens":4096}"#;
        let read: RunParameters = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        assert_eq!(RunParameters::from(ModelParameters::from(read)), read);
        for json in [
            r#"{"temperature":-0.1}"#,
            r#"{"temperature":2.5}"#,
            r#"{"temperature":"0.2"}"#,
            r#"{"effort":"maximal"}"#,
            r#"{"output_tokens":0}"#,
            r#"{"output_tokens":1000001}"#,
            r#"{"top_p":0.5}"#,
        ] {
            assert!(serde_json::from_str::<RunParameters>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn guards_are_on_unless_they_are_switched_off() {
        let read = |text: &str| serde_json::from_str::<RunGuards>(text);
        assert!(read("{}").unwrap().is_default());
        let read_one = read(r#"{"joins":false}"#).unwrap();
        assert_eq!(read_one, RunGuards { joins: false, dates: true, turns: true });
        assert!(read(r#"{"spelling":false}"#).is_err());
    }
}
