//! Sandboxes.

use belljar_domain::{EndReason, Runtime, SecurityProfile, Tier};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds::{
    Count, DateTime, Name, Number, OutOfBounds, PageSize, Pairs, Seconds, Text, pairs,
};
use crate::network::{Network, OperationName};
use crate::problem::Envelope;

/// A sandbox to create.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSandbox {
    /// Template name, or a checkpoint's id or name.
    #[serde(default = "base")]
    pub template: Name,
    /// Seconds until the sandbox's deadline. Default: 300.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    /// Pairs for the client's own use. Lists can be filtered by them.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub metadata: Pairs,
    /// Environment variables of every call and context.
    #[serde(default)]
    #[schemars(schema_with = "pairs")]
    pub env: Pairs,
    /// Action at the deadline.
    #[serde(default)]
    pub on_timeout: OnTimeout,
    /// Resume the sandbox on traffic to it while it is paused.
    #[serde(default)]
    pub auto_resume: bool,
    /// Require the `traffic_token` of the response for traffic to its ports.
    #[serde(default)]
    pub private_traffic: bool,
    /// Isolation tier. Default: the template's, or else the server's. A tier that the server
    /// does not offer, or that is below your floor, is refused. Another tier is never used
    /// instead.
    #[serde(default)]
    pub tier: Option<TierName>,
    /// Rights of root in the sandbox. Default: the checkpoint's, or else `strict`. A profile that
    /// the server does not offer is refused.
    #[serde(default)]
    pub profile: Option<ProfileName>,
    /// Limits of the sandbox. Default: the template's. A fork has those of its checkpoint.
    #[serde(default, skip_serializing_if = "ChosenLimits::is_empty")]
    pub limits: ChosenLimits,
    /// Network policy. Default: the checkpoint's, or else the server's.
    #[serde(default)]
    pub network: Option<Network>,
    /// Gateway operations that the sandbox's tokens may use.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub operations: Vec<OperationName>,
    /// Uploaded files (`POST /v1/data`) to mount read-only in `/mnt/data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub data: Vec<ShownDataset>,
}

/// A dataset to mount into a sandbox.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownDataset {
    /// File name in `/mnt/data`.
    pub name: Text<1, 255>,
    /// SHA-256 of the content, in lower-case hexadecimal digits.
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
            profile: None,
            limits: ChosenLimits::default(),
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
    /// End the sandbox.
    #[default]
    Kill,
    /// Pause it and keep its memory.
    Pause,
    /// Pause it and keep only its files.
    PauseFiles,
}

/// Isolation tiers, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierName {
    /// Namespaces, cgroups, seccomp and Landlock; shares the host's kernel.
    Jail,
    /// A crun container; shares the host's kernel.
    #[serde(rename = "oci/crun")]
    Crun,
    /// A runc container; shares the host's kernel.
    #[serde(rename = "oci/runc")]
    Runc,
    /// gVisor: a separate kernel in user space.
    #[serde(rename = "oci/runsc")]
    Runsc,
    /// Alias of `oci/runsc`.
    Gvisor,
    /// A virtual machine with its own kernel.
    Microvm,
}

/// A tier that no sandbox of a server can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sandboxes of a server cannot have the tier `{0}`")]
pub struct NotServed(Tier);

impl TryFrom<Tier> for TierName {
    type Error = NotServed;

    fn try_from(tier: Tier) -> Result<Self, NotServed> {
        match tier {
            Tier::Process => Err(NotServed(tier)),
            Tier::Jail => Ok(Self::Jail),
            Tier::Oci(Runtime::Crun) => Ok(Self::Crun),
            Tier::Oci(Runtime::Runc) => Ok(Self::Runc),
            Tier::Oci(Runtime::Runsc) => Ok(Self::Runsc),
            Tier::Microvm => Ok(Self::Microvm),
        }
    }
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

/// Security profiles: the rights of root inside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// Root has no capability.
    Strict,
    /// Root has the capabilities that package managers and services need, within the sandbox.
    Full,
}

impl From<ProfileName> for SecurityProfile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Strict => Self::Strict,
            ProfileName::Full => Self::Full,
        }
    }
}

impl From<SecurityProfile> for ProfileName {
    fn from(profile: SecurityProfile) -> Self {
        match profile {
            SecurityProfile::Strict => Self::Strict,
            SecurityProfile::Full => Self::Full,
        }
    }
}

/// The tiers that a sandbox of a server can have, each by its one name.
pub(crate) fn tiers(_: &mut SchemaGenerator) -> Schema {
    let served = Tier::ALL.into_iter().filter(|tier| *tier != Tier::Process);
    let names: Vec<&str> = served.map(Tier::as_str).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// A new deadline for a sandbox. Give one of the two fields.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSandbox {
    /// Seconds from now until the new deadline, which may be earlier or later than the old one.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
    /// The new deadline.
    #[serde(default)]
    pub deadline: Option<DateTime>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSandbox {
    #[serde(default)]
    pub keep: Keep,
}

/// The state that a pause or a checkpoint keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Memory, processes and files.
    #[default]
    Memory,
    /// Files only. Processes end.
    Files,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeSandbox {
    /// Seconds from now until the sandbox's deadline. Default: 300.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
}

/// Forks to create from a sandbox.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSandbox {
    /// Number of forks. Default: 1.
    #[serde(default)]
    pub count: Option<Number<1, 20>>,
    /// Seconds until the forks' deadline. Default: 15.
    #[serde(default)]
    pub timeout_seconds: Option<Seconds>,
}

/// Filters for the list of sandboxes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListSandboxes {
    /// Only sandboxes in this state. Default: both.
    #[serde(default)]
    pub state: Option<State>,
    /// Only sandboxes with all these pairs: a JSON object, for example `{"team":"red"}`.
    #[serde(default)]
    pub metadata: Option<String>,
    /// Only sandboxes of this template.
    #[serde(default)]
    pub template: Option<String>,
    /// Only sandboxes started after this time.
    #[serde(default)]
    pub started_after: Option<DateTime>,
    #[serde(default)]
    pub order: Order,
    /// Maximum number of entries. Default: 100.
    #[serde(default)]
    pub limit: Option<PageSize>,
    /// `next` of the previous page.
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

/// A sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// Id of the sandbox: 26 characters, 128 random bits.
    #[schemars(length(equal = 26))]
    pub id: String,
    pub state: State,
    /// Template that the sandbox was made from. `asked_for` is the name in the request.
    pub template: String,
    pub asked_for: String,
    pub metadata: Pairs,
    pub started_at: DateTime,
    /// Time at which the sandbox ends or is paused, unless it is extended.
    pub deadline: DateTime,
    pub on_timeout: OnTimeout,
    pub auto_resume: bool,
    /// Isolation tier.
    #[schemars(schema_with = "tiers")]
    pub tier: Tier,
    /// Rights of root.
    #[serde(default = "strict")]
    pub profile: ProfileName,
    pub limits: Limits,
    /// Token that traffic to its ports must carry. Absent if none is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_token: Option<String>,
    /// Token for the calls, contexts and files of this sandbox only, sent as
    /// `X-Access-Token`. The same as E2B's `envdAccessToken`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<String>,
    /// Address of the sandbox's node, which accepts `access_token`. Absent if the platform
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_url: Option<String>,
}

/// The profile of sandboxes on a node that does not report one.
fn strict() -> ProfileName {
    ProfileName::Strict
}

/// Limits of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
    /// Output of one call, in bytes.
    pub output_bytes: u64,
    /// Default wall-clock limit of one call.
    pub wall_ms: u64,
}

impl From<&Limits> for belljar_domain::ChosenLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: Some(limits.memory_bytes),
            cpu_millis: Some(limits.cpu_millis.into()),
            pids: Some(limits.pids.into()),
            disk_bytes: Some(limits.disk_bytes),
            wall_ms: Some(limits.wall_ms),
        }
    }
}

/// Limits to choose. An absent field is the template's. A value above the server's maximum
/// (`max_limits` of `GET /v1/templates`) is refused with `limit_out_of_range`, and never lowered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChosenLimits {
    /// Memory of all processes and of the writable disk together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<Count>,
    /// Thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<Count>,
    /// Processes and threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Count>,
    /// Size of the writable disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<Count>,
    /// Default wall-clock limit of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<Count>,
}

impl ChosenLimits {
    /// Returns true if nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<ChosenLimits> for belljar_domain::ChosenLimits {
    fn from(limits: ChosenLimits) -> Self {
        let ChosenLimits { memory_bytes, cpu_millis, pids, disk_bytes, wall_ms } = limits;
        Self {
            memory_bytes: memory_bytes.map(Count::get),
            cpu_millis: cpu_millis.map(Count::get),
            pids: pids.map(Count::get),
            disk_bytes: disk_bytes.map(Count::get),
            wall_ms: wall_ms.map(Count::get),
        }
    }
}

impl TryFrom<belljar_domain::ChosenLimits> for ChosenLimits {
    type Error = OutOfBounds;

    fn try_from(limits: belljar_domain::ChosenLimits) -> Result<Self, OutOfBounds> {
        let count = |limit: Option<u64>| limit.map(Count::try_from).transpose();
        let belljar_domain::ChosenLimits { memory_bytes, cpu_millis, pids, disk_bytes, wall_ms } =
            limits;
        Ok(Self {
            memory_bytes: count(memory_bytes)?,
            cpu_millis: count(cpu_millis)?,
            pids: count(pids)?,
            disk_bytes: count(disk_bytes)?,
            wall_ms: count(wall_ms)?,
        })
    }
}

/// The largest limits that a client may choose. Templates of the operator can have more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaxLimits {
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
}

impl From<belljar_domain::MaxLimits> for MaxLimits {
    fn from(max: belljar_domain::MaxLimits) -> Self {
        let belljar_domain::MaxLimits { memory_bytes, cpu_millis, pids, disk_bytes } = max;
        Self { memory_bytes, cpu_millis, pids, disk_bytes }
    }
}

impl From<MaxLimits> for belljar_domain::MaxLimits {
    fn from(max: MaxLimits) -> Self {
        let MaxLimits { memory_bytes, cpu_millis, pids, disk_bytes } = max;
        Self { memory_bytes, cpu_millis, pids, disk_bytes }
    }
}

/// A page of sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPage {
    pub items: Vec<Sandbox>,
    /// Pass this as `after` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One entry for each requested fork, in order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Forks {
    pub items: Vec<Fork>,
}

/// A new sandbox, or the reason that it could not be created.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fork {
    Sandbox(Sandbox),
    Problem(Envelope),
}

/// Filters for the list of ended sandboxes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListEnded {
    /// Maximum number of entries, newest first. Default: 100.
    #[serde(default)]
    pub limit: Option<PageSize>,
}

/// The latest ended sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EndedList {
    pub items: Vec<Ended>,
}

/// An ended sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    pub id: String,
    pub template: String,
    pub started_at: DateTime,
    pub ended_at: DateTime,
    #[schemars(schema_with = "crate::call::reasons")]
    pub reason: EndReason,
    /// Isolation tier. Absent if the sandbox ended before its node reported it.
    #[schemars(schema_with = "tiers")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_of_a_server_has_a_name() {
        for tier in Tier::ALL {
            let named = TierName::try_from(tier).map(Tier::from);
            assert_eq!(named.ok(), (tier != Tier::Process).then_some(tier));
        }
    }

    #[test]
    fn chosen_limits_are_the_same_in_a_request_and_in_the_model() {
        let text = r#"{"memory_bytes":0,"cpu_millis":1,"pids":2,"disk_bytes":3,"wall_ms":4}"#;
        let read: ChosenLimits = serde_json::from_str(text).unwrap();
        let model = belljar_domain::ChosenLimits::from(read);
        assert_eq!(serde_json::to_string(&model).unwrap(), text);
        assert_eq!(ChosenLimits::try_from(model), Ok(read));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        // What JavaScript cannot tell apart is not told it.
        let large = belljar_domain::ChosenLimits { memory_bytes: Some(1 << 60), ..model };
        assert!(ChosenLimits::try_from(large).is_err());
        for text in [r#"{"gpus":1}"#, r#"{"pids":-1}"#, r#"{"pids":"8"}"#, r#"{"pids":1.5}"#] {
            assert!(serde_json::from_str::<ChosenLimits>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<ChosenLimits>(r#"{"pids":null}"#).unwrap().is_empty());
    }
}
