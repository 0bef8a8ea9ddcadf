//! The choices of a run that are about its model: parameters, instructions, skills, recordings.

use belljar_domain::approval::ToolApprovals;
use belljar_domain::{ModelParameters, RunId};
use belljar_pipeline::{AgentKind, CodeArtifact, RoleModels};
use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;

/// The brief of a run's model. Everything is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brief {
    /// The kind of agent that answers.
    #[serde(skip_serializing_if = "AgentKind::is_react")]
    pub agent: AgentKind,
    /// Models by role, for a pipeline.
    #[serde(skip_serializing_if = "RoleModels::is_empty")]
    pub models: RoleModels,
    /// The program of a run whose agent is the Executor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Box<CodeArtifact>>,
    #[serde(skip_serializing_if = "ModelParameters::is_default")]
    pub parameters: ModelParameters,
    /// Text of the owner, added to the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// By name, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
    /// The name of the recording that is made of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The recording whose answers the run gets. No model is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Guards that are on. Logs of older versions have all of them.
    #[serde(skip_serializing_if = "Guards::is_default")]
    pub guards: Guards,
    /// Tool calls that wait for a human. Logs of older versions have none.
    #[serde(skip_serializing_if = "ToolApprovals::is_never")]
    pub approvals: ToolApprovals,
}

/// The guards of a run. All are on unless its owner compares runs with and without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Guards {
    /// Reports of joins that went wrong, inside the interpreter.
    pub joins: bool,
    /// Reports of dates that come from the wrong clock, inside the interpreter.
    pub dates: bool,
    /// Messages to the model when 3 turns and 1 are left.
    pub turns: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self { joins: true, dates: true, turns: true }
    }
}

impl Guards {
    /// Returns true if all are on.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Brief {
    /// Returns true if nothing is chosen.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A skill of a run: a folder with a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// The archive of the folder, as it was uploaded.
    pub archive: BlobRef,
}

/// The recording that a run replays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The run that was recorded.
    pub run: RunId,
    pub recording: BlobRef,
}

/// The run was recorded. Written once, before its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingMade {
    pub name: String,
    pub recording: BlobRef,
    /// The requests of the run's code to the gateway, with their answers; none: it could ask nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassette: Option<BlobRef>,
    /// The reason why requests of the run's code are missing; none: all are on the cassette.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// The part of Belljar or beyond that changed a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviationCause {
    /// The rest of the run's budget bounded the answer.
    Budget,
    /// The gateway changed the request, or the provider said that it applied another value.
    Provider,
}

impl DeviationCause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Provider => "provider",
        }
    }
}

/// A parameter that the run chose was not in force. Written once for each parameter and cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterDeviated {
    pub turn: u32,
    pub parameter: String,
    pub asked: String,
    /// None: the value that was in force is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
    pub cause: DeviationCause,
}
