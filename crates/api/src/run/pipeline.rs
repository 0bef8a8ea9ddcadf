//! The choices of a run whose agent is a pipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{Count, Number, Text};

/// The name of a model.
type ModelName = Text<1, 128>;

/// Models of each role, from the smallest to the largest. The next one is asked after an answer
/// that cannot be used, and for the second diagnosis. An empty list: the run's model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunModels {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub planner: Vec<ModelName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub coder: Vec<ModelName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub debugger: Vec<ModelName>,
}

impl RunModels {
    /// Returns true if no role names a model.
    pub fn is_empty(&self) -> bool {
        self.planner.is_empty() && self.coder.is_empty() && self.debugger.is_empty()
    }
}

/// A program and the commands that install its packages and run it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArtifact {
    /// File name in the home directory, such as `main.py`.
    pub filename: Text<1, 100>,
    pub code: Text<1, 262_144>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_command: Option<Text<1, 4000>>,
    pub run_command: Text<1, 4000>,
    /// Wall-clock limit of the installation. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_seconds: Option<Number<1, 600>>,
    /// Wall-clock limit of the program. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_seconds: Option<Number<1, 600>>,
    /// Memory of its sandbox. Default: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Count>,
}
