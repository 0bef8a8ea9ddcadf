//! How a run begins, who has it, and how it ends.

use belljar_domain::{ChosenLimits, Generation, RunId, Sequence, Tier};
use belljar_objects::Digest;
use belljar_pipeline::AgentKind;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::blob::BlobRef;
use crate::event::{Brief, CallRef, NetworkAccess};

/// The first event of a run that was forked from none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCreated {
    pub question: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub datasets: Vec<Dataset>,
    pub model: String,
    pub prompt: Prompt,
    pub budget: Budget,
    /// What "now" means in this run, and in every run that is forked from it. It is
    /// never read from a clock again.
    #[serde(with = "time::serde::rfc3339")]
    pub now: OffsetDateTime,
    /// Where and by whom it is to be worked on; none: whoever works on it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wish: Option<Wish>,
}

impl RunCreated {
    /// Returns true if the run chose the tier or a limit of its sandboxes.
    pub(super) fn has_environment(&self) -> bool {
        self.wish.as_ref().is_some_and(|wish| !wish.environment.is_default())
    }

    /// Returns true if the run chose the network access of its sandboxes.
    pub(super) fn has_network(&self) -> bool {
        self.wish.as_ref().is_some_and(|wish| !wish.network.is_default())
    }

    /// Returns true if the run chose anything of its model's brief.
    pub(super) fn has_brief(&self) -> bool {
        self.wish.as_ref().is_some_and(|wish| !wish.brief.is_default())
    }

    /// Returns true if tool calls of the run wait for a human.
    pub(super) fn has_approvals(&self) -> bool {
        self.wish.as_ref().is_some_and(|wish| !wish.brief.approvals.is_never())
    }

    /// The kind of agent that answers.
    pub fn agent(&self) -> AgentKind {
        self.wish.as_ref().map(|wish| wish.brief.agent).unwrap_or_default()
    }

    /// Returns true if the model may ask a human. A pipeline asks when its attempts are over.
    pub fn can_ask(&self) -> bool {
        let is_wanted = self.wish.as_ref().is_some_and(|wish| wish.questions);
        is_wanted || self.agent() == AgentKind::Pipeline
    }
}

/// What whoever made a run wants of those who work on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// What its sandboxes are made of.
    pub template: String,
    /// Logs of older versions have none.
    #[serde(default, skip_serializing_if = "Environment::is_default")]
    pub environment: Environment,
    /// None is reached if nothing is said.
    #[serde(default, skip_serializing_if = "NetworkAccess::is_default")]
    pub network: Box<NetworkAccess>,
    #[serde(default, skip_serializing_if = "Brief::is_default")]
    pub brief: Box<Brief>,
    /// The gateway's operation that reaches the model; none: no model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Of the whole request: a repetition that says something else is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Digest>,
    /// Lets the model ask a human and wait for the answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub questions: bool,
    /// The span of the request that made it, as a `traceparent` of W3C. Its trace is linked to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The environment of a run's code: the tier and the limits of its sandboxes. The template, or
/// else the server, has what is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(skip_serializing_if = "ChosenLimits::is_empty")]
    pub limits: ChosenLimits,
}

impl Environment {
    /// Returns true if nothing is chosen.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Data that a run works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    pub name: String,
    /// Of its content.
    pub fingerprint: Digest,
    pub bytes: u64,
    /// What the model is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<BlobRef>,
    /// What it was made of, because that did not fit; none: it is as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// A file that a dataset was made of before the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub name: String,
    pub fingerprint: Digest,
    pub bytes: u64,
    /// Records that it has, and those of them that the dataset has: fewer in a sample.
    pub records: u64,
    pub kept: u64,
}

/// Which prompt template, in which version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    pub name: String,
    pub version: String,
    pub sha256: Digest,
}

/// How much a run may use; what is none has no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Since its creation, pauses included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_dollars: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
}

/// The first event of a run's own: everything before it is its parent's, and is
/// read there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    pub parent: RunId,
    /// The last event that both have.
    pub after: Sequence,
    /// What is different from here on; none: as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Prompt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The parent was not enough; none: somebody wanted to see another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// Another attempt at the same question, with more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The run before all forks is the first.
    pub attempt: u32,
    pub lacked: Vec<Lack>,
    /// What the sandbox may use from now on; none: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What there was not enough of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    Turns,
    Memory,
}

/// Somebody works on the run from here on. Written by the claim itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseTaken {
    pub generation: Generation,
    pub owner: String,
    /// Who had it and did not give it back: that one crashed, or hangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_over: Option<String>,
}

/// Where in its work the run is: plan, code, execute, debug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageChanged {
    pub stage: String,
    /// From 1.
    pub attempt: u32,
    pub turn: u32,
}

/// What of a budget was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Turns,
    Wall,
    Tokens,
    Money,
    Output,
    Cpu,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHit {
    pub limit: Limit,
    pub turn: u32,
    pub used: u64,
    pub allowed: u64,
}

/// A guard saw something in the code or its results, such as an empty join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardReported {
    pub call: CallRef,
    /// Which guard: `empty_join`, `fan_out`, `wrong_now`.
    pub guard: String,
    pub message: String,
}

/// Something that the run made and that outlives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    pub name: String,
    pub media_type: String,
    pub content: BlobRef,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactAdded {
    #[serde(flatten)]
    pub artifact: Artifact,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There is a result.
    Answered,
    /// A budget ended before the work did; what there is, is the result.
    Exhausted,
    Cancelled,
    Failed,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Exhausted => "exhausted",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// Why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// The model's provider did not answer, or refused.
    Model,
    /// The sandbox was lost and could not be restored.
    Sandbox,
    /// A dataset could not be used.
    Data,
    /// The model gave no usable answer, time and again.
    NoResult,
    /// Whoever worked on it died at the same point three times.
    RuntimeCrash,
    /// A replay came to a request that its recording does not have.
    Replay,
    Internal,
}

impl ErrorCategory {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Sandbox => "sandbox",
            Self::Data => "data",
            Self::NoResult => "no_result",
            Self::RuntimeCrash => "runtime_crash",
            Self::Replay => "replay",
            Self::Internal => "internal",
        }
    }
}

/// The last event: nothing follows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorCategory>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl Finished {
    /// Returns true if the run was a replay that left its recording.
    pub(super) fn is_divergence(&self) -> bool {
        self.error == Some(ErrorCategory::Replay)
    }
}
