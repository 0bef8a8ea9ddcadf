//! What happened in a run, one typed and versioned fact after another.
//!
//! On disk and on the wire an event is one JSON object. Its `kind` says what
//! happened and its `v` which shape it has: the number of the journal's format
//! that brought this shape. So a reader of format F knows everything up to `v` F,
//! and what is above was written by a newer version: it is carried along as it is
//! ([`Unknown`]), and whoever does not know it may not work on the run.
//!
//! A field that may be left out can be added to a shape; anything else is a new
//! one. A kind is never removed, and never comes to mean something else.

mod brief;
mod control;
mod life;
mod model;
mod network;
mod pipeline;
mod program;
mod tool;

use belljar_domain::{Generation, Sequence};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use time::OffsetDateTime;

use crate::key::Key;

pub use brief::{Brief, DeviationCause, Guards, ParameterDeviated, RecordingMade, Replay, Skill};
pub use control::{
    Breakpoints, BudgetChanged, BudgetPatch, CallDecision, Cancelled, ControlRequested, Injected,
    InjectedMessage, PausePoint, Paused, Request, Resumed, Verdict,
};
pub use life::{
    Artifact, ArtifactAdded, Budget, Dataset, Environment, ErrorCategory, Finished, ForkedFrom,
    GuardReported, Lack, LeaseTaken, Limit, LimitHit, Origin, Outcome, Prompt, Retry, RunCreated,
    StageChanged, Wish,
};
pub use model::{Block, LlmFailed, LlmRequested, LlmResponded, LlmTrouble, PromptBuilt, Tokens};
pub use network::{NetworkAccess, NetworkRefusal, NetworkUsed};
pub use pipeline::{SnapshotRefused, StageMessage};
pub use program::SessionSaved;
pub use tool::{
    Brought, CallRef, Cut, Output, SandboxAttached, SnapshotTaken, ToolFault, ToolFinished,
    ToolIntended, ToolStarted, Used,
};

/// The newest format that this version reads and writes. 2 brought the environment of a run: who
/// does not know it would execute the run's code behind another wall, and may not claim it.
/// 3 brought its network access, the brief of its model, recordings, deviations, steps, breakpoints
/// and questions to humans: an older worker would give it no network, not follow its brief, or go on
/// where it has to wait. 4 brought agents other than the model with its tools: an older worker would
/// take a pipeline for such a run. 5 brought agents that are published programs, and approvals of
/// tool calls: an older worker would make the calls without asking.
pub const FORMAT: u32 = 5;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub seq: Sequence,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Whose lease it was written under; none: it came from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Generation>,
    /// Under which it is written once, however often somebody tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    #[serde(flatten)]
    pub body: Body,
}

/// What a newer version wrote: readable by those who know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Unknown {
    pub kind: String,
    pub version: u32,
    /// All of it, `kind` and `v` included.
    pub content: Value,
}

/// How a known shape looks on the wire.
#[derive(Serialize)]
struct Tagged<'a, T> {
    kind: &'static str,
    v: u32,
    #[serde(flatten)]
    fields: &'a T,
}

macro_rules! kinds {
    ($($kind:literal v $version:literal = $name:ident,)*) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Body {
            $($name($name),)*
            Unknown(Unknown),
        }

        impl Body {
            /// Every kind that this version knows.
            pub const KINDS: &[&str] = &[$($kind),*];

            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// The format that brought this shape.
            pub fn version(&self) -> u32 {
                match self {
                    Self::RunCreated(created)
                        if created.has_approvals() || created.agent().is_program() =>
                    {
                        5
                    }
                    Self::RunCreated(created) if !created.agent().is_react() => 4,
                    Self::RunCreated(created)
                        if created.has_network() || created.has_brief() || created.can_ask() =>
                    {
                        3
                    }
                    Self::Finished(finished) if finished.is_divergence() => 3,
                    Self::RunCreated(created) if created.has_environment() => 2,
                    Self::ControlRequested(asked) if asked.request.version() > 1 => {
                        asked.request.version()
                    }
                    Self::Paused(Paused { at: Some(PausePoint::Approval { .. }), .. }) => 5,
                    Self::Paused(paused) if paused.at.is_some() => 3,
                    Self::Resumed(it) if it.decision.is_some() => 5,
                    Self::Resumed(it) if it.until.is_some() || it.reply.is_some() => 3,
                    $(Self::$name(_) => $version,)*
                    Self::Unknown(unknown) => unknown.version,
                }
            }

            fn known(kind: &str, content: Value) -> Option<serde_json::Result<Self>> {
                match kind {
                    $($kind => Some(serde_json::from_value(content).map(Self::$name)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$name> for Body {
            fn from(fields: $name) -> Self {
                Self::$name(fields)
            }
        })*

        impl Serialize for Body {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(fields) => {
                        Tagged { kind: $kind, v: self.version(), fields }.serialize(serializer)
                    })*
                    Self::Unknown(unknown) => unknown.content.serialize(serializer),
                }
            }
        }
    };
}

kinds! {
    "run_created" v 1 = RunCreated,
    "forked_from" v 1 = ForkedFrom,
    "lease_taken" v 1 = LeaseTaken,
    "stage_changed" v 1 = StageChanged,
    "prompt_built" v 1 = PromptBuilt,
    "llm_requested" v 1 = LlmRequested,
    "llm_responded" v 1 = LlmResponded,
    "llm_failed" v 1 = LlmFailed,
    "sandbox_attached" v 1 = SandboxAttached,
    "tool_intended" v 1 = ToolIntended,
    "tool_started" v 1 = ToolStarted,
    "tool_finished" v 1 = ToolFinished,
    "network_used" v 1 = NetworkUsed,
    "guard_reported" v 1 = GuardReported,
    "artifact_added" v 1 = ArtifactAdded,
    "snapshot_taken" v 1 = SnapshotTaken,
    "snapshot_refused" v 4 = SnapshotRefused,
    "stage_message" v 4 = StageMessage,
    "session_saved" v 5 = SessionSaved,
    "recording_made" v 3 = RecordingMade,
    "parameter_deviated" v 3 = ParameterDeviated,
    "injected_message" v 1 = InjectedMessage,
    "limit_hit" v 1 = LimitHit,
    "control_requested" v 1 = ControlRequested,
    "paused" v 1 = Paused,
    "resumed" v 1 = Resumed,
    "cancelled" v 1 = Cancelled,
    "budget_changed" v 1 = BudgetChanged,
    "finished" v 1 = Finished,
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = Value::deserialize(deserializer)?;
        let kind = content.get("kind").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| de::Error::missing_field("kind"))?.to_owned();
        let version = content.get("v").and_then(Value::as_u64);
        let version = version.and_then(|version| u32::try_from(version).ok());
        let version = version.ok_or_else(|| de::Error::missing_field("v"))?;
        if version > FORMAT {
            return Ok(Self::Unknown(Unknown { kind, version, content }));
        }
        let known = Self::known(&kind, content);
        known
            .ok_or_else(|| de::Error::unknown_variant(&kind, Self::KINDS))?
            .map_err(de::Error::custom)
    }
}

impl Body {
    /// Whether the run is further than before, so that whoever takes over starts from
    /// another point than the last one did. To try once more is no progress.
    pub fn is_progress(&self) -> bool {
        matches!(
            self,
            Self::RunCreated(_)
                | Self::ForkedFrom(_)
                | Self::LlmResponded(_)
                | Self::ToolFinished(_)
                | Self::Paused(_)
                | Self::Resumed(_)
                | Self::BudgetChanged(_)
                | Self::Cancelled(_)
                | Self::Finished(_)
        )
    }

    /// Whether nobody may write it who has not seen everything before it.
    pub fn wants_to_be_last(&self) -> bool {
        matches!(self, Self::Paused(_) | Self::Finished(_))
    }
}

#[cfg(test)]
mod tests;
