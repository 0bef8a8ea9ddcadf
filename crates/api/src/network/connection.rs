//! Rows: what became of everything that was asked for.

use belljar_model::network as model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::Number;

/// Which rows to show.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListConnections {
    /// Only rows after this one: the `next` of the page before.
    #[serde(default)]
    pub after: Option<Number<0, 9_007_199_254_740_991>>,
    /// Only what this call did, by its `number`.
    #[serde(default)]
    pub call: Option<Number<0, 4_294_967_295>>,
    #[serde(default)]
    pub decision: Option<Decision>,
    #[serde(default)]
    pub kind: Option<Kind>,
    /// At most as many; 100 if nothing is said. Does not matter to who follows.
    #[serde(default)]
    pub limit: Option<Number<1, 1000>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It went out.
    Allowed,
    /// It did not go out.
    Denied,
    /// Answered from a cassette or the package cache; nothing went out.
    Played,
    /// It was allowed, and something outside went wrong.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tunnel, or something that could not be read.
    Connection,
    /// A name that was looked up.
    Lookup,
    /// A request and its answer, where content is seen.
    Exchange,
    /// A request to an operation of the gateway.
    Operation,
}

/// One row of a sandbox's traffic, as a server-sent event: its name is
/// `connection`, its id is its `sequence`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connection {
    /// Counts up within a sandbox.
    pub sequence: u64,
    /// The connection that this belongs to: a number that all of its rows bear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
    pub sandbox: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The call whose process asked; none when it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessName>,
    pub kind: Kind,
    pub decision: Decision,
    /// A stable word; `docs/network.md` explains each.
    pub reason: String,
    /// As asked for; none when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where it really went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Without the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The operation's name, for those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    pub bytes: Transferred,
    /// Microseconds since 1970.
    pub began: u64,
    /// Until the first byte of an answer, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_micros: Option<u64>,
    pub micros: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallName {
    /// The `number` of the call.
    pub number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it had ended before: what it left behind asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessName {
    /// As the host counts.
    pub pid: u32,
    /// What the process called itself.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transferred {
    /// From the sandbox.
    pub out: u64,
    /// Into the sandbox.
    #[serde(rename = "in")]
    pub into: u64,
}

/// What one answer of a model cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Charge {
    pub model: String,
    pub input: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub output: u64,
    /// Billionths of a dollar.
    pub nano_dollars: u64,
    /// The upstream did not tell its usage: what was reserved was charged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
}

/// One page of rows.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionPage {
    pub items: Vec<Connection>,
    /// Ask for rows after this one next; none: there was nothing more.
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
