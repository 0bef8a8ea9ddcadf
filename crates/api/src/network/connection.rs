//! Rows: what became of everything that was asked for.

use belljar_domain::network as model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::Number;

/// Filters for the list of connections.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListConnections {
    /// Only rows after this one: `next` of the previous page.
    #[serde(default)]
    pub after: Option<Number<0, 9_007_199_254_740_991>>,
    /// Only connections of this call, by its `number`.
    #[serde(default)]
    pub call: Option<Number<0, 4_294_967_295>>,
    #[serde(default)]
    pub decision: Option<Decision>,
    #[serde(default)]
    pub kind: Option<Kind>,
    /// Maximum number of rows. Default: 100. Ignored for streams.
    #[serde(default)]
    pub limit: Option<Number<1, 1000>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Forwarded to the upstream.
    Allowed,
    /// Denied; nothing was forwarded.
    Denied,
    /// Answered from a cassette or the package cache; nothing was forwarded.
    Played,
    /// Allowed, but the connection or the upstream failed.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tunnel, or traffic that could not be parsed.
    Connection,
    /// A name lookup.
    Lookup,
    /// A request and its response, where the gateway sees the content.
    Exchange,
    /// A request to a gateway operation.
    Operation,
}

/// A connection of a sandbox. As a server-sent event, its name is `connection` and its id its
/// `sequence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// Sequence number within the sandbox.
    pub sequence: u64,
    /// Number shared by all rows of one connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
    pub sandbox: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The call whose process made the request. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessName>,
    pub kind: Kind,
    pub decision: Decision,
    /// Stable reason code; `docs/network.md` explains each.
    pub reason: String,
    /// Requested host. Absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Address that was connected to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path without the query string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Name of the gateway operation, if `kind` is `operation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    pub bytes: Transferred,
    /// Start time, in microseconds since 1970 (UTC).
    pub began: u64,
    /// Time until the first byte of the response, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_micros: Option<u64>,
    pub micros: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallName {
    /// The call's `number`.
    pub number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True if the call had already ended and a process it left behind made the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessName {
    /// Process id on the host.
    pub pid: u32,
    /// Name that the process gave itself.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transferred {
    /// Bytes out of the sandbox.
    pub out: u64,
    /// Bytes into the sandbox.
    #[serde(rename = "in")]
    pub into: u64,
}

/// The cost of one model answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Charge {
    pub model: String,
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    /// Cost, in billionths of a dollar.
    pub nano_dollars: u64,
    /// True if the upstream reported no usage, so the reserved amount was charged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    /// True if the gateway ended before the request did, so the reserved amount was charged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// A page of connections.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionPage {
    pub items: Vec<Connection>,
    /// Pass this as `after` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl From<Decision> for model::Decision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allowed => Self::Allowed,
            Decision::Denied => Self::Denied,
            Decision::Played => Self::Played,
            Decision::Failed => Self::Failed,
        }
    }
}

impl From<Kind> for model::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Connection => Self::Connection,
            Kind::Lookup => Self::Lookup,
            Kind::Exchange => Self::Exchange,
            Kind::Operation => Self::Operation,
        }
    }
}

impl From<&model::Row> for Connection {
    fn from(row: &model::Row) -> Self {
        let subject = &row.subject;
        let reason = serde_json::to_value(row.reason).ok();
        Self {
            sequence: row.sequence,
            within: row.within,
            sandbox: subject.sandbox.to_string(),
            run: subject.run.clone(),
            turn: subject.turn,
            call: subject.call.as_ref().map(|call| CallName {
                number: call.number,
                name: call.name.clone(),
                ended: call.ended,
            }),
            process: subject
                .process
                .as_ref()
                .map(|process| ProcessName { pid: process.pid, name: process.name.clone() }),
            kind: match row.kind {
                model::Kind::Connection => Kind::Connection,
                model::Kind::Lookup => Kind::Lookup,
                model::Kind::Exchange => Kind::Exchange,
                model::Kind::Operation => Kind::Operation,
            },
            decision: match row.decision {
                model::Decision::Allowed => Decision::Allowed,
                model::Decision::Denied => Decision::Denied,
                model::Decision::Played => Decision::Played,
                model::Decision::Failed => Decision::Failed,
            },
            reason: reason.and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default(),
            host: row.host.as_ref().map(ToString::to_string),
            port: row.port,
            address: row.address.map(|address| address.to_string()),
            method: row.method.clone(),
            path: row.path.clone(),
            status: row.status,
            operation: row.operation.clone(),
            charge: row.charge.as_ref().map(Charge::from),
            bytes: Transferred { out: row.bytes.out, into: row.bytes.into },
            began: row.began,
            first_byte_micros: row.first_byte_micros,
            micros: row.micros,
        }
    }
}

impl From<&model::Charge> for Charge {
    fn from(charge: &model::Charge) -> Self {
        Self {
            model: charge.model.clone(),
            input: charge.input,
            cache_read: charge.cache_read,
            cache_write: charge.cache_write,
            output: charge.output,
            nano_dollars: charge.nano_dollars,
            assumed: charge.assumed,
            estimated: charge.estimated,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_row_is_shown_as_it_is_but_for_the_tenant() {
        let row = json!({
            "sequence": 7, "within": 6, "tenant": "acme", "sandbox": "aaaaaaaaaaaaaaaaaaaaaaaaaa",
            "run": "r", "turn": 2, "call": {"number": 3, "name": "n", "ended": true},
            "process": {"pid": 9, "name": "pip"}, "kind": "operation", "decision": "played",
            "reason": "unknown_price", "host": "example.org", "port": 443, "address": "192.0.2.1",
            "method": "GET", "path": "/a", "status": 200, "operation": "llm:chat",
            "charge": {"model": "m", "input": 1, "cache_read": 2, "cache_write": 3, "output": 4,
                "nano_dollars": 5, "assumed": true},
            "bytes": {"out": 1, "in": 2}, "began": 3, "first_byte_micros": 4, "micros": 5,
        });
        let read: model::Row = serde_json::from_value(row.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), row);
        let mut shown = serde_json::to_value(Connection::from(&read)).unwrap();
        assert_eq!(shown.get("tenant"), None::<&Value>);
        shown["tenant"] = "acme".into();
        assert_eq!(shown, row);
    }
}
