//! The ledger: charges by tenant, run, turn and call, and their sums.
//!
//! ```text
//!   rows of connections ──► charges of models and egress ──┐
//!   ends of sandboxes   ──► charges of sandboxes ──────────┼──► ledger ──► usage
//!   samples, each hour  ──► charges of stored bytes ───────┘
//! ```
//!
//! A charge has a source, and no source is charged twice. Charges are never changed and never
//! forgotten. A charge may cost nothing: its quantities still count.

mod directory;
mod sum;

use std::fmt;

use belljar_domain::network::{Decision, Kind};
use belljar_domain::rows::{AttributedRow, ConnectionRow, RowBody};
use belljar_domain::{ExecId, RunId, SandboxId, StoredBytes};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset};

use crate::error::Failure;
use crate::event::Tokens;

pub use directory::LedgerDirectory;

/// The account that a charge goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Account {
    /// Answers of language models.
    Models,
    /// Bytes that sandboxes sent out.
    Egress,
    /// Time for which sandboxes ran.
    Sandboxes,
    /// Bytes that were kept.
    Storage,
}

impl Account {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Egress => "egress",
            Self::Sandboxes => "sandboxes",
            Self::Storage => "storage",
        }
    }
}

/// Quantities and cost of one charge, or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    #[serde(default)]
    pub tokens: Tokens,
    #[serde(default)]
    pub egress_bytes: u64,
    #[serde(default)]
    pub sandbox_ms: u64,
    /// Bytes that were kept, each for an hour.
    #[serde(default)]
    pub stored_byte_hours: u64,
    #[serde(default)]
    pub nano_dollars: u64,
    /// The part of the cost that was estimated: what was reserved, where no usage was heard of.
    #[serde(default)]
    pub estimated_nano_dollars: u64,
}

/// A charge of a ledger in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// The same source is never charged twice.
    pub source: String,
    pub tenant: String,
    pub account: Account,
    /// For a request of a run's worker to a model, the id of its session with the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// None for a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ExecId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Microseconds since 1970: when the request began, or the sandbox ended. The charge counts for
    /// the day (UTC) of this.
    pub began: u64,
    pub amounts: Amounts,
}

/// A property that charges are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageKey {
    Tenant,
    Run,
    Model,
    Operation,
    Day,
    Account,
}

impl UsageKey {
    pub const ALL: [Self; 6] =
        [Self::Tenant, Self::Run, Self::Model, Self::Operation, Self::Day, Self::Account];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Run => "run",
            Self::Model => "model",
            Self::Operation => "operation",
            Self::Day => "day",
            Self::Account => "account",
        }
    }
}

/// A word that names no [`UsageKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("charges cannot be grouped by `{0}`")]
pub struct InvalidUsageKey(pub String);

impl std::str::FromStr for UsageKey {
    type Err = InvalidUsageKey;

    fn from_str(text: &str) -> Result<Self, InvalidUsageKey> {
        let found = Self::ALL.into_iter().find(|key| key.as_str() == text);
        found.ok_or_else(|| InvalidUsageKey(text.to_owned()))
    }
}

/// The charges that are summed, and the groups of their sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    /// None: of all tenants.
    pub tenant: Option<String>,
    /// Charges of `from` or later, and before `to`.
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
    pub run: Option<RunId>,
    pub by: Vec<UsageKey>,
    /// Groups of one page, and groups before it.
    pub limit: usize,
    pub after: usize,
}

/// The values that the charges of a group have in common; those that are not grouped by are
/// absent, and so is the model of a charge without one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UsageName {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// The sum of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageGroup {
    pub name: UsageName,
    /// Number of charges.
    pub charges: u64,
    pub amounts: Amounts,
}

/// A page of groups in the order of their names, and the sum of all groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsagePage {
    pub total: UsageGroup,
    pub groups: Vec<UsageGroup>,
    /// True if there are more groups after these.
    pub is_cut: bool,
}

/// A ledger that can be summed.
pub trait LedgerStore: fmt::Debug + Send + Sync {
    fn usage<'a>(&'a self, query: &'a UsageQuery) -> BoxFuture<'a, Result<UsagePage, Failure>>;
}

impl LedgerEntry {
    /// The charge of bytes that were kept in an hour, counted since 1970. The database of a
    /// platform writes the same source.
    pub fn of_stored(stored: &StoredBytes, hour: u64) -> Self {
        const MICROS_PER_HOUR: u64 = 3_600_000_000;
        let kind = stored.kind.as_str();
        Self {
            source: format!("stored:{kind}:{hour}"),
            tenant: stored.tenant.clone(),
            account: Account::Storage,
            sandbox: None,
            run: None,
            turn: None,
            call: None,
            operation: Some(format!("storage:{kind}")),
            model: None,
            began: hour.saturating_mul(MICROS_PER_HOUR),
            amounts: Amounts { stored_byte_hours: stored.bytes, ..Amounts::default() },
        }
    }
}

impl Amounts {
    pub(crate) fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.tokens.input, other.tokens.input),
            (&mut self.tokens.cache_read, other.tokens.cache_read),
            (&mut self.tokens.cache_write, other.tokens.cache_write),
            (&mut self.tokens.output, other.tokens.output),
            (&mut self.egress_bytes, other.egress_bytes),
            (&mut self.sandbox_ms, other.sandbox_ms),
            (&mut self.stored_byte_hours, other.stored_byte_hours),
            (&mut self.nano_dollars, other.nano_dollars),
            (&mut self.estimated_nano_dollars, other.estimated_nano_dollars),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The charges of rows: one for each answer of a model, one for the bytes that one call sent out in
/// one day, and one for each sandbox. Rows that come again come under the same source.
pub(crate) fn charges(rows: &[AttributedRow]) -> Vec<LedgerEntry> {
    let mut charges: Vec<LedgerEntry> = Vec::new();
    for row in rows {
        let Some(charge) = charge(row) else { continue };
        let is_same = |known: &&mut LedgerEntry| {
            known.account == Account::Egress
                && (&known.tenant, &known.sandbox) == (&charge.tenant, &charge.sandbox)
                && (&known.run, known.turn, &known.call) == (&charge.run, charge.turn, &charge.call)
                && known.operation == charge.operation
                && day(known.began) == day(charge.began)
        };
        let is_egress = charge.account == Account::Egress;
        match charges.iter_mut().find(is_same).filter(|_| is_egress) {
            Some(known) => known.amounts.add(&charge.amounts),
            None => charges.push(charge),
        }
    }
    charges
}

fn charge(row: &AttributedRow) -> Option<LedgerEntry> {
    let known = row.attribution.as_ref();
    let mut entry = LedgerEntry {
        source: format!("row:{}", row.id),
        tenant: row.tenant.clone(),
        account: Account::Models,
        sandbox: Some(row.sandbox.clone()),
        run: known.map(|known| known.run.clone()),
        turn: known.map(|known| known.turn),
        call: known.and_then(|known| known.call.clone()),
        operation: None,
        model: None,
        began: row.began,
        amounts: Amounts::default(),
    };
    let connection = match &row.body {
        RowBody::Call(_) => return None,
        RowBody::Connection(connection) => connection,
        RowBody::Sandbox(ended) => {
            entry.source = format!("sandbox:{}", row.sandbox);
            entry.account = Account::Sandboxes;
            entry.run.clone_from(&ended.run);
            entry.began = row.began.saturating_add(row.micros);
            entry.amounts.sandbox_ms = ended.ran_ms;
            return (ended.ran_ms > 0).then_some(entry);
        }
    };
    entry.operation.clone_from(&connection.operation);
    entry.amounts.egress_bytes = sent(connection);
    if let Some(charge) = &connection.charge {
        entry.model = Some(charge.model.clone());
        entry.amounts.tokens = Tokens {
            input: charge.input,
            cache_read: charge.cache_read,
            cache_write: charge.cache_write,
            output: charge.output,
        };
        entry.amounts.nano_dollars = charge.nano_dollars;
        if charge.assumed || charge.estimated {
            entry.amounts.estimated_nano_dollars = charge.nano_dollars;
        }
        return Some(entry);
    }
    entry.account = Account::Egress;
    (entry.amounts.egress_bytes > 0).then_some(entry)
}

/// The bytes that left the platform. A look-up of a name is part of a connection, and what was
/// refused or played from a recording sent nothing.
fn sent(connection: &ConnectionRow) -> u64 {
    let has_left = connection.decision == Decision::Allowed && connection.kind != Kind::Lookup;
    if has_left { connection.bytes.out } else { 0 }
}

/// The day (UTC) of a time in microseconds since 1970, as `2026-01-31`.
pub(crate) fn day(micros: u64) -> String {
    day_of(moment(micros))
}

pub(crate) fn day_of(at: OffsetDateTime) -> String {
    let date = at.to_offset(UtcOffset::UTC).date();
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}

pub(crate) fn moment(micros: u64) -> OffsetDateTime {
    let nanos = i128::from(micros).saturating_mul(1000);
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
