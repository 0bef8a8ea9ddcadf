//! The log of what went out: one row for each connection, look-up and exchange.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Host;
use crate::SandboxId;

/// Whose traffic it is. Everything but the process is told by our own parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub tenant: String,
    pub sandbox: SandboxId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The call whose process made the connection; none when it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

/// A call of a sandbox, as the sandbox counts them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallRef {
    pub number: u32,
    /// What the surfaces call it, where they gave it a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it had ended before: what it left behind made the connection.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ended: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The process at the inner end, as the host's kernel names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// As the host counts.
    pub pid: u32,
    /// At most 15 bytes that the process chose itself.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Connection,
    Lookup,
    Exchange,
    /// A request to an operation of the gateway.
    Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allowed,
    Denied,
    /// Answered from a cassette or the package cache; nothing went out.
    Played,
    Failed,
}

/// Why it was decided so. Stable words, explained in docs/network.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Rule,
    Open,
    Operation,
    NoNetwork,
    NotAllowed,
    Port,
    Method,
    Path,
    Private,
    DeniedBlock,
    DeniedHost,
    Malformed,
    NameMismatch,
    NoName,
    TooMany,
    BytesSpent,
    Foreign,
    Token,
    Scope,
    Budget,
    /// No slice of the budget could be leased: its books could not be reached.
    BudgetLease,
    /// The request could not be written to the charge log.
    ChargeLog,
    UnknownPrice,
    Recorded,
    Replayed,
    NotRecorded,
    Cached,
    Unresolved,
    Unreachable,
    Upstream,
    PolicyChanged,
    Ended,
    /// The answer was larger or stranger than is passed on.
    BadAnswer,
    /// The operation does not have this repository.
    Repository,
    /// This branch, or something that is no branch, may not be pushed.
    Branch,
    /// A branch would lose commits.
    Force,
    /// A branch would be deleted.
    Deletion,
    /// No human approved it.
    NotApproved,
    /// A human approved it.
    Approved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bytes {
    /// From the sandbox.
    pub out: u64,
    /// Into the sandbox.
    #[serde(rename = "in")]
    pub into: u64,
}

/// What one answer of a model cost. Kinds of tokens never overlap: what was read
/// from a cache is not in `input`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Charge {
    /// As the upstream calls it.
    pub model: String,
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    /// Billionths of a dollar.
    pub nano_dollars: u64,
    /// The upstream did not tell its usage: what was reserved was charged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub assumed: bool,
    /// The gateway ended before the request did: what was reserved was charged.
    #[serde(default, skip_serializing_if = "is_false")]
    pub estimated: bool,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Counts up within a sandbox, without gaps.
    pub sequence: u64,
    /// The connection that this belongs to: a number that all of its rows bear,
    /// its own among them. Rows are numbered when they end, so the connection's
    /// own comes after those of its exchanges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
    #[serde(flatten)]
    pub subject: Subject,
    pub kind: Kind,
    pub decision: Decision,
    pub reason: Reason,
    /// As asked for; none when it could not even be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where it really went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Without the query, which may hold secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The operation's name, for those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Names a request that has a price in the gateway's charge log, and its charge in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge_id: Option<String>,
    /// What it cost, of operations that have a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    pub bytes: Bytes,
    /// Microseconds since 1970.
    pub began: u64,
    /// Until the first byte of an answer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_micros: Option<u64>,
    pub micros: u64,
}
