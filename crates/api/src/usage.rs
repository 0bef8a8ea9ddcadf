//! Usage: sums of a tenant's charges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{DateTime, PageSize};

/// The charges that are summed, and their groups.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetUsage {
    /// Start of the period. Default: 30 days before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<DateTime>,
    /// End of the period, which is not in it. Default: now. A period has at most 366 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<DateTime>,
    /// Properties to group by, with commas between them: `run`, `model`, `operation`, `day` and
    /// `account`. Default: none, so that there is one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Only charges of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Maximum number of groups. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<PageSize>,
    /// `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Sums of your charges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Start of the period.
    pub since_at: DateTime,
    /// End of the period, which is not in it.
    pub until_at: DateTime,
    /// The sum of all groups, also of those on other pages.
    pub total: UsageAmounts,
    /// Groups in the order of their names.
    pub items: Vec<UsageGroup>,
    /// Pass this as `after` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The charges that have these properties. A property is absent if it is not grouped by, or if
/// the charges have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageGroup {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// As the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Operation of the gateway, or `storage:` and the kind of what was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Day (UTC) on which the charged request or sandbox began, as `2026-01-31`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// `models`, `egress`, `sandboxes` or `storage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    pub used: UsageAmounts,
}

/// Quantities and their cost. Quantities without a price cost nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageAmounts {
    /// Number of charges.
    pub charges: u64,
    pub tokens: UsageTokens,
    /// Bytes that left the platform.
    pub egress_bytes: u64,
    /// Time for which sandboxes ran, in milliseconds. Counted when a sandbox ends.
    pub sandbox_ms: u64,
    /// Bytes that were kept, each for an hour. Sampled once an hour.
    #[serde(default)]
    pub stored_byte_hours: u64,
    /// Cost, in billionths of a dollar.
    pub nano_dollars: u64,
    /// The part of the cost that is a reservation, because no usage was reported.
    pub estimated_nano_dollars: u64,
}

/// Model tokens. The kinds do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageTokens {
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
}
