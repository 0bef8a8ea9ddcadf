//! The events that webhooks are called for, and the messages that tell of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The kind of an event, as messages name it in `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventKind {
    #[serde(rename = "sandbox.created")]
    SandboxCreated,
    #[serde(rename = "sandbox.paused")]
    SandboxPaused,
    #[serde(rename = "sandbox.resumed")]
    SandboxResumed,
    #[serde(rename = "sandbox.ended")]
    SandboxEnded,
    #[serde(rename = "run.created")]
    RunCreated,
    #[serde(rename = "run.paused")]
    RunPaused,
    /// The run asked its owner a question and waits for the answer.
    #[serde(rename = "run.waiting")]
    RunWaiting,
    #[serde(rename = "run.resumed")]
    RunResumed,
    #[serde(rename = "run.ended")]
    RunEnded,
    /// Sent on request only.
    #[serde(rename = "webhook.test")]
    Test,
}

/// The text names no kind of event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no event kind `{0}`")]
pub struct UnknownEventKind(pub String);

impl EventKind {
    pub const ALL: [Self; 10] = [
        Self::SandboxCreated,
        Self::SandboxPaused,
        Self::SandboxResumed,
        Self::SandboxEnded,
        Self::RunCreated,
        Self::RunPaused,
        Self::RunWaiting,
        Self::RunResumed,
        Self::RunEnded,
        Self::Test,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::SandboxCreated => "sandbox.created",
            Self::SandboxPaused => "sandbox.paused",
            Self::SandboxResumed => "sandbox.resumed",
            Self::SandboxEnded => "sandbox.ended",
            Self::RunCreated => "run.created",
            Self::RunPaused => "run.paused",
            Self::RunWaiting => "run.waiting",
            Self::RunResumed => "run.resumed",
            Self::RunEnded => "run.ended",
            Self::Test => "webhook.test",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = UnknownEventKind;

    fn from_str(text: &str) -> Result<Self, UnknownEventKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownEventKind(text.to_owned()))
    }
}

/// A message about one event, as it is signed and sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The same for each attempt, so that the receiver can drop repetitions.
    pub id: String,
    pub kind: EventKind,
    pub body: String,
}

impl Message {
    pub fn new(id: String, kind: EventKind, at: OffsetDateTime, data: Map<String, Value>) -> Self {
        let at = at.format(&Rfc3339).unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned());
        let body = json!({ "type": kind.as_str(), "timestamp": at, "data": data }).to_string();
        Self { id, kind, body }
    }

    /// Returns the facts of a sandbox: its id and, at its end, the reason.
    pub fn of_sandbox(id: &str, reason: Option<&str>) -> Map<String, Value> {
        let mut data = Map::new();
        data.insert("sandbox".to_owned(), id.into());
        if let Some(reason) = reason {
            data.insert("reason".to_owned(), reason.into());
        }
        data
    }

    /// Returns the facts of a run: its id and, at its end, the outcome.
    pub fn of_run(id: &str, outcome: Option<&str>) -> Map<String, Value> {
        let mut data = Map::new();
        data.insert("run".to_owned(), id.into());
        if let Some(outcome) = outcome {
            data.insert("outcome".to_owned(), outcome.into());
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse::<EventKind>(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert!("sandbox.exploded".parse::<EventKind>().is_err());
    }

    #[test]
    fn a_message_has_type_time_and_facts() {
        let at = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
        let data = Message::of_run("abc", Some("answered"));
        let message = Message::new("msg_1".to_owned(), EventKind::RunEnded, at, data);
        let value: Value = serde_json::from_str(&message.body).unwrap();
        assert_eq!(
            value,
            json!({
                "type": "run.ended",
                "timestamp": "2027-01-15T08:00:00Z",
                "data": { "run": "abc", "outcome": "answered" },
            })
        );
    }
}
