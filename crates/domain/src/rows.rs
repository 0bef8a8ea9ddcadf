//! Rows that outlive a sandbox and its node: calls that ended, connections, and ends of sandboxes.

use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::end::EndReason;
use crate::id::SandboxId;
use crate::network::{self, Bytes, Charge, Decision, Kind, Reason};
use crate::run::RunId;

/// A call, a connection or the end of a sandbox, with its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributedRow {
    /// Unique: a row that is sent twice is stored once.
    pub id: String,
    pub tenant: String,
    /// For a model request, the id of the session with the gateway.
    pub sandbox: SandboxId,
    /// None for what no run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Microseconds since 1970.
    pub began: u64,
    pub micros: u64,
    pub body: RowBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowBody {
    Call(CallRow),
    Connection(ConnectionRow),
    /// Of a server that is alone: a platform charges sandboxes where it records their end.
    Sandbox(SandboxRow),
}

impl RowBody {
    /// One word, for metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Connection(_) => "connection",
            Self::Sandbox(_) => "sandbox",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    Process,
    Cell,
}

impl CallKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Cell => "cell",
        }
    }
}

/// A process or a cell that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRow {
    /// As its machine counts.
    pub number: u32,
    pub kind: CallKind,
    /// True if it ended by itself and without an error.
    pub is_ok: bool,
    pub reason: EndReason,
    /// None for a cell, and for a process that a signal ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub cpu_micros: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    pub output_bytes: u64,
    /// Known for calls of runs alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// True if more files changed than are listed, or if they could not be listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// A file that changed during a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: String,
    pub change: ChangeKind,
    /// None for a file that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Created,
    Modified,
    Removed,
}

/// A connection, a look-up or a request, as the gateway decided it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// As its sandbox counts.
    pub sequence: u64,
    pub kind: Kind,
    pub decision: Decision,
    pub reason: Reason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Without the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    pub bytes: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    /// The call had ended: a process that it left behind made the connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
}

/// The end of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRow {
    /// The run that the sandbox was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Time for which it ran; pauses do not count.
    pub ran_ms: u64,
}

impl AttributedRow {
    /// The row of a connection. Its id is that of its charge, if it may have one; else it is empty.
    pub fn of_connection(row: &network::Row) -> Self {
        Self {
            id: row.charge_id.clone().unwrap_or_default(),
            tenant: row.subject.tenant.clone(),
            sandbox: row.subject.sandbox.clone(),
            attribution: attribution(&row.subject),
            began: row.began,
            micros: row.micros,
            body: RowBody::Connection(ConnectionRow {
                sequence: row.sequence,
                kind: row.kind,
                decision: row.decision,
                reason: row.reason,
                host: row.host.as_ref().map(ToString::to_string),
                port: row.port,
                operation: row.operation.clone(),
                method: row.method.clone(),
                path: row.path.clone(),
                status: row.status,
                bytes: row.bytes,
                charge: row.charge.clone(),
                is_late: row.subject.call.as_ref().is_some_and(|call| call.ended),
            }),
        }
    }
}

/// The identity of traffic. The name of a call of a run is its execution id.
fn attribution(subject: &network::Subject) -> Option<Attribution> {
    let run = subject.run.as_deref()?.parse().ok()?;
    let call = subject.call.as_ref().and_then(|call| call.name.as_deref()?.parse().ok());
    Some(Attribution { run, turn: subject.turn?, call })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{ExecId, RunId};

    #[test]
    fn traffic_is_attributed_by_what_its_subject_says() {
        let (run, exec) = (RunId::from_bits([1; 16]), ExecId::from_bits([2; 16]));
        let call = network::CallRef { number: 7, name: Some(exec.to_string()), ended: true };
        let subject = network::Subject {
            tenant: "ann".to_owned(),
            sandbox: SandboxId::from_random([3; 16]),
            run: Some(run.to_string()),
            turn: Some(2),
            call: Some(call),
            process: None,
        };
        let known = Attribution { run, turn: 2, call: Some(exec) };
        assert_eq!(attribution(&subject), Some(known.clone()));
        // A call of another name is not known, and the run is.
        let call = subject.call.clone().map(|call| network::CallRef { name: None, ..call });
        let unnamed = network::Subject { call, ..subject.clone() };
        assert_eq!(attribution(&unnamed), Some(Attribution { call: None, ..known }));
        for unknown in [
            network::Subject { run: None, ..subject.clone() },
            network::Subject { turn: None, ..subject.clone() },
            network::Subject { run: Some("../etc".to_owned()), ..subject },
        ] {
            assert_eq!(attribution(&unknown), None);
        }
    }
}
