//! A sandbox, as it is on the books.

use belljar_domain::{EndReason, SandboxId, Tier};
use serde_json::Value;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::read;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SandboxState {
    /// Nobody has it yet.
    Waiting,
    /// A node makes it.
    Starting,
    Running,
    Paused,
    Ended,
}

impl SandboxState {
    pub const ALL: [Self; 5] =
        [Self::Waiting, Self::Starting, Self::Running, Self::Paused, Self::Ended];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct SandboxRow {
    pub id: SandboxId,
    pub tenant: String,
    pub state: SandboxState,
    pub epoch: u64,
    pub node: Option<u16>,
    pub template: String,
    pub tier: Option<Tier>,
    pub facts: Value,
    pub made_at: OffsetDateTime,
    pub started_at: Option<OffsetDateTime>,
    pub deadline_at: Option<OffsetDateTime>,
    pub ended_at: Option<OffsetDateTime>,
    pub reason: Option<EndReason>,
}

pub(super) const COLUMNS: &str = "id, tenant, state, epoch, node, template, tier, facts, made_at, \
                                  started_at, deadline_at, ended_at, reason";

pub(super) fn read(row: &PgRow) -> Result<SandboxRow, StoreError> {
    let state: String = row.try_get("state")?;
    let known = SandboxState::ALL.into_iter().find(|known| known.as_str() == state);
    let node: Option<i16> = row.try_get("node")?;
    let Json(facts) = row.try_get("facts")?;
    Ok(SandboxRow {
        id: read::id(row, "id")?,
        tenant: row.try_get("tenant")?,
        state: known.ok_or(StoreError::Unreadable { what: "a sandbox's state", value: state })?,
        epoch: read::number(row, "epoch")?,
        node: node.map(i16::unsigned_abs),
        template: row.try_get("template")?,
        tier: read::tier(row, "tier")?,
        facts,
        made_at: row.try_get("made_at")?,
        started_at: row.try_get("started_at")?,
        deadline_at: row.try_get("deadline_at")?,
        ended_at: row.try_get("ended_at")?,
        reason: read::reason(row, "reason")?,
    })
}
