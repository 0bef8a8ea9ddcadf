//! Sandboxes.

use belljar_model::{EndReason, Runtime, Tier};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, Name, Number, PageSize, Pairs, Seconds, Text, pairs};
use crate::network::{Network, OperationName};
use crate::problem::Envelope;

/// A sandbox to be made.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSandbox {
    /// A template's name, or a checkpoint's id or name.
    #[serde(default = "base")]
    pub template: Name,
    /// How long it lives; five minutes if nothing is said.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    /// For the owner's own use; lists can be filtered by it.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub metadata: Pairs,
    /// Environment of every call and every context.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// What becomes of it when its time is up.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// Whether traffic to it resumes it when it is paused.
    #[serde(default)]
    pub auto_resume: bool,
    /// Whether traffic to its ports must show the token that is answered.
    #[serde(default)]
    pub private_traffic: bool,
    /// What it is kept in; what the template or the server says, if nothing is
    /// said. A tier that this server lacks, or that is weaker than you must have,
    /// is refused; none is ever replaced by a weaker one.
    #[serde(default)]
    pub tier: Option<TierName>,
    /// What it may reach; what its checkpoint reached, or what the server gives, if
    /// nothing is said.
    #[serde(default)]
    pub network: Option<Network>,
    /// Operations of the gateway that its tokens can be given.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub operations: Vec<OperationName>,
    /// Datasets of the server's that it is shown, read-only, in `/mnt/data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub data: Vec<ShownDataset>,
}

/// A dataset that a sandbox is shown.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownDataset {
    /// What the file is called there.
    pub name: Text<1, 255>,
    /// The SHA-256 of what is in it, in lower-case hexadecimal digits.
    pub sha256: Text<64, 64>,
}

impl CreateSandbox {
    /// A sandbox of a template, as it is when nothing else is said.
    pub fn of(template: Name) -> Self {
        Self {
            template,
            timeout_seconds: None,
            metadata: Pairs::new(),
            env: Pairs::new(),
            on_timeout: OnTimeout::default(),
            auto_resume: false,
            private_traffic: false,
            tier: None,
            network: None,
            operations: Vec::new(),
            data: Vec::new(),
        }
    }
}

fn base() -> Name {
    // The name is a constant that fits.
    serde_json::from_str("\"base\"").unwrap_or_else(|_| unreachable!("`base` is a name"))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It ends.
    #[default]
    Kill,
    /// It is paused, with its memory.
    Pause,
    /// It is paused, and only its files are kept.
    PauseFiles,
}

/// What can stand between a sandbox and its host, from the weakest up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierName {
    /// Namespaces, cgroups, seccomp and Landlock; shares the host's kernel.
    Jail,
    /// A container of crun; shares the host's kernel.
    #[serde(rename = "oci/crun")]
    Crun,
    /// A container of runc; shares the host's kernel.
    #[serde(rename = "oci/runc")]
    Runc,
    /// gVisor: a kernel of its own, in user space.
    #[serde(rename = "oci/runsc")]
    Runsc,
    /// Another name of `oci/runsc`.
    Gvisor,
    /// A virtual machine with a kernel of its own.
    Microvm,
}

impl From<TierName> for Tier {
    fn from(name: TierName) -> Self {
        match name {
            TierName::Jail => Self::Jail,
            TierName::Crun => Self::Oci(Runtime::Crun),
            TierName::Runc => Self::Oci(Runtime::Runc),
            TierName::Runsc | TierName::Gvisor => Self::Oci(Runtime::Runsc),
            TierName::Microvm => Self::Microvm,
        }
    }
}

/// The tiers that a sandbox of a server can have, each by its one name.
pub(crate) fn tiers(_: &mut SchemaGenerator) -> Schema {
    let served = Tier::ALL.into_iter().filter(|tier| *tier != Tier::Process);
    let names: Vec<&str> = served.map(Tier::as_str).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// A new end of a sandbox: one of the two.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSandbox {
    /// This long from now, be it more or less than it had.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    /// At this moment.
    #[serde(default)]
    pub deadline: Option<DateTime>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSandbox {
    #[serde(default)]
    pub keep: Keep,
}

/// What a pause, or a checkpoint, keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Memory and processes: they stand still.
    #[default]
    Memory,
    /// Files only: what ran is gone.
    Files,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSandbox {
    /// How long it lives from now; five minutes if nothing is said.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
}

/// Copies of a sandbox as it is now.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSandbox {
    /// How many; one if nothing is said.
    #[serde(default)]
    pub count: Option<Number<1, 20>>,
    /// How long they live; 15 seconds if nothing is said.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
}

/// Which sandboxes to show.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSandboxes {
    /// Running or paused; both if nothing is said.
    #[serde(default)]
    pub state: Option<State>,
    /// A JSON object: all of these pairs, for example `{"team":"red"}`.
    #[serde(default)]
    pub metadata: Option<String>,
    /// A template's name.
    #[serde(default)]
    pub template: Option<String>,
    /// Those that were started after this moment.
    #[serde(default)]
    pub started_after: Option<DateTime>,
    #[serde(default)]
    pub order: Order,
    /// At most as many; 100 if nothing is said.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// The `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Running,
    Paused,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// One sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// 26 characters, 128 random bits.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: State,
    /// The template that it stands on, and the name that was asked for.
    pub template: String,
    pub asked_for: String,
    pub metadata: Pairs,
    pub started_at: DateTime,
    /// When it ends or is paused, unless somebody extends it.
    pub deadline: DateTime,
    pub on_timeout: OnTimeout,
    pub auto_resume: bool,
    /// What it is kept in.
    #[schemars(schema_with = "tiers")]
    pub tier: Tier,
    pub limits: Limits,
    /// What traffic to its ports must show, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_token: Option<String>,
    /// Opens what is inside of it (calls, contexts, files), and no other sandbox:
    /// `X-Access-Token`. The same as E2B's `envdAccessToken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// Where that token is taken without a detour, if the platform says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_url: Option<String>,
}

/// What a sandbox may use at most.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
    /// Output of one call.
    pub output_bytes: u64,
    /// Wall time of one call, unless the call says otherwise.
    pub wall_ms: u64,
}

/// One page of sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPage {
    pub items: Vec<Sandbox>,
    /// Where the next page begins; none: this was the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One answer for each copy that was asked for, in order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Forks {
    pub items: Vec<Fork>,
}

/// A copy, or why there is none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fork {
    Sandbox(Sandbox),
    Problem(Envelope),
}

/// Which sandboxes that have ended to show.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEnded {
    /// At most as many, the newest; 100 if nothing is said.
    #[serde(default)]
    pub limit: Option<PageSize>,
}

/// The newest ends.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EndedList {
    pub items: Vec<Ended>,
}

/// How a sandbox ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    pub id: String,
    pub template: String,
    pub started_at: DateTime,
    pub ended_at: DateTime,
    #[schemars(schema_with = "crate::call::reasons")]
    pub reason: EndReason,
    /// What it was kept in. Absent if it ended before its node reported it.
    #[schemars(schema_with = "tiers")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
}
