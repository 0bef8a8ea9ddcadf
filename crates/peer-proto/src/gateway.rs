//! Between a node and the gateway beside it.
//!
//! ```text
//!   node                                 gateway
//!    │ Open  + listener, diagnosis ────────► │  accepts in the sandbox's own
//!    │ ◄──────────────────────────── Opened  │  network namespace
//!    │ ◄────────────── Whose (cgroup, inode) │  for each connection
//!    │ Belongs (call, process) ────────────► │
//!    │ Connection + stream ────────────────► │  tiers without a namespace
//!    │ Change, Mint, Revoke, Close ────────► │
//!    │ SaveCassette, LoadCassette + file ──► │
//!    │ ◄───────────────────────────── Rows   │  what became of everything
//!    │ ◄─────────────────────────── Budget   │  leases and returns slices of budgets
//!    │ Replay ─────────────────────────────► │  rows of gateways that were killed
//!    │ Charged (ids of stored rows) ───────► │  forgets them in its charge log
//!    │ ◄──────────────────────── ChargeLog   │  what its charge log did
//!    │ ◄───────────────────────── Approval   │  asks a human, or takes that back
//! ```
//!
//! Both ends are our own processes; nothing of a sandbox speaks this. The node
//! numbers its requests and the gateway its own; an answer bears its question's.
//!
//! The gateway is the node's own executable, started as [`PROCESS`] with the paths
//! of its configuration, of its data and of its charge log, and [`LEASED_BUDGETS`] or nothing. Its descriptor 0 is a sequenced-packet
//! socket: one message a packet, as [`encode`] writes it. When that socket ends,
//! so does the gateway.

use std::collections::BTreeMap;

use belljar_domain::SandboxId;
use belljar_domain::approval::{ApprovalAnswer, ApprovalRequest, ToolApprovals};
use belljar_domain::budget::{BudgetAnswer, BudgetRequest};
use belljar_domain::network::{CallRef, CassetteId, Policy, Process, Row, Subject};
use serde::{Deserialize, Serialize};

/// From the node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToGateway {
    /// Serve this sandbox from now on. With two descriptors: a TCP listener
    /// inside its network namespace and a `NETLINK_SOCK_DIAG` socket of that
    /// namespace; with none where connections come one by one.
    Open { sequence: u64, session: Box<Session> },
    /// A connection that was made inside; its stream, a Unix one that does not
    /// block, travels along.
    Connection { sandbox: SandboxId, belongs: Belongs },
    /// The policy from now on. What it forbids is cut.
    Change { sequence: u64, sandbox: SandboxId, policy: Box<Policy> },
    /// Make a token for a sandbox.
    Mint { sequence: u64, sandbox: SandboxId, grant: Grant },
    /// All tokens of a sandbox are dead from now on.
    Revoke { sequence: u64, sandbox: SandboxId },
    /// The sandbox has ended: cut everything and forget its tokens.
    Close { sequence: u64, sandbox: SandboxId },
    /// Nothing more is asked of this gateway: done when every row has been said.
    Finish { sequence: u64 },
    /// Answers [`FromGateway::Whose`].
    Belongs { question: u64, belongs: Belongs },
    /// Lets all tokens of a sandbox that are alive live for so long from now: a
    /// program that runs inside cannot be handed another one.
    Renew { sequence: u64, sandbox: SandboxId, seconds: u32 },
    /// Write a cassette of a tenant to the file that travels along.
    SaveCassette { sequence: u64, tenant: String, cassette: CassetteId },
    /// Put the cassette that is in the file that travels along in the place of a tenant's.
    LoadCassette { sequence: u64, tenant: String, cassette: CassetteId },
    /// Remove a cassette of a tenant, if there is one.
    RemoveCassette { sequence: u64, tenant: String, cassette: CassetteId },
    /// Answers [`FromGateway::Budget`].
    Budget { question: u64, answer: BudgetAnswer },
    /// Rows are taken from now on: send those of requests that gateways left in their charge logs
    /// when they were killed.
    Replay,
    /// The rows of requests with these ids are stored, or never will be.
    Charged { ids: Vec<String> },
    /// Answers [`FromGateway::Approval`].
    Approval { question: u64, answer: ApprovalAnswer },
}

/// From the gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromGateway {
    Ready,
    /// It cannot serve, or not any longer, and ends; nothing follows.
    Failed {
        why: String,
    },
    Done {
        sequence: u64,
    },
    Opened {
        sequence: u64,
        opened: Opened,
    },
    Minted {
        sequence: u64,
        minted: Minted,
    },
    Refused {
        sequence: u64,
        why: String,
    },
    /// Which call and process made the connection whose inner socket is this?
    Whose {
        question: u64,
        sandbox: SandboxId,
        socket: Socket,
    },
    /// In the order of their sequences within each sandbox.
    Rows {
        rows: Vec<Row>,
    },
    /// Leases or returns slices of a budget.
    Budget {
        question: u64,
        request: BudgetRequest,
    },
    ChargeLog {
        report: ChargeLogReport,
    },
    /// Asks a human whether a request may go on.
    Approval {
        question: u64,
        request: Box<ApprovalRequest>,
    },
    /// Takes an [`FromGateway::Approval`] back that has no answer yet.
    ApprovalOver {
        question: u64,
    },
}

/// The work of a charge log since its last report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChargeLogReport {
    /// Its size now.
    pub bytes: u64,
    pub appends: u64,
    pub append_micros: u64,
    pub syncs: u64,
    /// Requests of gateways that were killed: those that had ended, and those under way.
    pub replayed_ended: u64,
    pub replayed_estimated: u64,
    pub write_errors: u64,
    /// Records that were torn or changed.
    pub unreadable: u64,
}

/// What the gateway needs to know of a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub subject: Subject,
    pub policy: Policy,
    /// Which operations its tokens can be given at most.
    pub operations: Vec<String>,
    /// The sandbox that is charged, where `subject` has the id of one of its machines.
    #[serde(default)]
    pub charged: Option<SandboxId>,
}

/// What inside has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The certificate of the sandbox's own authority, in PEM. It is trusted
    /// inside and nowhere else; its key never leaves the gateway.
    pub authority: String,
    /// The path of the first of its operations that takes OpenTelemetry.
    pub otlp: Option<String>,
    /// The git servers that operations of it stand for.
    #[serde(default)]
    pub git: Vec<GitRemote>,
}

/// A git server, and where inside it is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRemote {
    /// On the listener, with a slash at its end.
    pub path: String,
    /// As clients outside write it, with a slash at its end.
    pub url: String,
}

/// An inner socket, as the kernel of the host describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// The v2 cgroup of the process that made it; 0 when not known.
    pub cgroup: u64,
    pub inode: u32,
    pub uid: u32,
}

/// Whose a connection is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Belongs {
    pub run: Option<String>,
    pub turn: Option<u32>,
    pub call: Option<CallRef>,
    pub process: Option<Process>,
}

/// What a token allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Operations by name; each must be configured, and among the session's.
    pub operations: Vec<String>,
    /// Who acts, for the log: an agent's name.
    pub agent: Option<String>,
    pub seconds: u32,
    pub budget: Option<Budget>,
    /// The tool calls in answers of models that wait for a human; none: no call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<ToolApprovals>,
}

/// What may be spent, in all, by one token. Absent: not bounded by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    pub requests: Option<u64>,
    /// All kinds together.
    pub tokens: Option<u64>,
    /// In billionths of a dollar.
    pub nano_dollars: Option<u64>,
    pub requests_per_minute: Option<u32>,
}

/// A new token. This is the only message that ever holds one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minted {
    pub token: String,
    /// Microseconds since 1970.
    pub expires: u64,
    /// Where inside each operation is found: name → path on the listener.
    pub paths: BTreeMap<String, String>,
}

impl std::fmt::Debug for Minted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minted").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// What the gateway is called, as `argv[0]`.
pub const PROCESS: &str = "belljar-gateway";

/// The fourth argument of a gateway that leases slices of its budgets from the node. Without it,
/// its budgets are in its own memory.
pub const LEASED_BUDGETS: &str = "leased-budgets";

/// The longest packet. Rows are sent in as many packets as they need.
pub const LONGEST: usize = 128 << 10;

/// A message that does not fit a packet, or a packet that is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfit;

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a message between node and gateway, or longer than a packet")
    }
}

impl std::error::Error for Unfit {}

/// One message as a packet.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, Unfit> {
    let packet = serde_json::to_vec(message).map_err(|_| Unfit)?;
    if packet.len() <= LONGEST { Ok(packet) } else { Err(Unfit) }
}

pub fn decode<T: serde::de::DeserializeOwned>(packet: &[u8]) -> Result<T, Unfit> {
    serde_json::from_slice(packet).map_err(|_| Unfit)
}

/// The port inside on which the gateway is found, on loopback.
pub const PORT: u16 = 3128;

/// The gateway's own name, to a client that sends everything through the proxy.
/// No resolver knows it: `.internal` is reserved for such use.
pub const OWN_NAME: &str = "gateway.belljar.internal";

#[cfg(test)]
mod tests {
    use belljar_domain::SandboxId;
    use belljar_domain::approval::{ApprovalAction, ToolCall};
    use belljar_domain::network::{Bytes, Decision, Kind, Reason, Row, Subject};

    use super::*;

    #[test]
    fn rows_survive_a_packet() {
        let sandbox = SandboxId::from_random([7; 16]);
        let subject = Subject {
            tenant: "t".into(),
            sandbox,
            run: None,
            turn: None,
            call: Some(CallRef { number: 3, name: None, ended: true }),
            process: Some(Process { pid: 9, name: "pip".into() }),
        };
        let row = Row {
            sequence: 1,
            within: None,
            subject,
            kind: Kind::Connection,
            decision: Decision::Denied,
            reason: Reason::NoNetwork,
            host: Some("example.org".parse().unwrap()),
            port: Some(443),
            address: None,
            method: None,
            path: None,
            status: Some(403),
            operation: None,
            charge_id: None,
            charge: None,
            bytes: Bytes { out: 1, into: 2 },
            began: 3,
            first_byte_micros: None,
            micros: 4,
        };
        let sent = FromGateway::Rows { rows: vec![row] };
        assert_eq!(decode::<FromGateway>(&encode(&sent).unwrap()), Ok(sent));
        assert_eq!(decode::<FromGateway>(b"{}"), Err(Unfit));
    }

    /// The longest that a model can write, in the letters that take most room.
    #[test]
    fn every_tool_call_fits_a_packet() {
        let text = "\u{1}".repeat(1 << 20);
        let tool = ToolCall::new(&text, Some(&text), &text, "0".repeat(64));
        let subject = Subject {
            tenant: "t".into(),
            sandbox: SandboxId::from_random([7; 16]),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let request = ApprovalRequest {
            subject,
            operation: "llm".into(),
            action: ApprovalAction::ToolCall,
            repository: String::new(),
            changes: Vec::new(),
            seconds: 3600,
            tool: Some(tool),
        };
        let asked = FromGateway::Approval { question: 1, request: Box::new(request) };
        assert!(encode(&asked).is_ok());
    }

    #[test]
    fn what_is_longer_than_a_packet_is_refused() {
        let long = FromGateway::Refused { sequence: 1, why: "a".repeat(LONGEST) };
        assert_eq!(encode(&long), Err(Unfit));
    }
}
