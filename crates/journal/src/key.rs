//! Under which name something is written once.

use std::fmt;

use belljar_objects::Digest;
use serde::{Deserialize, Serialize};

use crate::event::{Body, Injected};

/// An idempotency key: of two events of a run with the same one, there is only
/// the first.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Key(String);

/// Longer ones are known by their digest.
const LONGEST: usize = 120;

impl Key {
    /// Any text will do. What a database or a log would stumble over, such as an id
    /// that a model made up, is replaced by its digest.
    pub fn new(text: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_graphic();
        if (1..=LONGEST).contains(&text.len()) && text.bytes().all(plain) {
            return Self(text.to_owned());
        }
        Self(format!("sha256:{}", Digest::of(text.as_bytes())))
    }

    /// The key of an event that can happen once only: whoever repeats a step after
    /// a crash writes the same, and finds that it is there.
    pub fn natural(body: &Body) -> Option<Self> {
        let text = match body {
            Body::StageChanged(it) => format!("stage:{}:{}:{}", it.turn, it.stage, it.attempt),
            Body::PromptBuilt(it) => format!("prompt:{}:{}", it.turn, it.sha256),
            Body::LlmRequested(it) => format!("ask:{}:{}", it.turn, it.attempt),
            Body::LlmResponded(it) => format!("answer:{}", it.asked),
            Body::LlmFailed(it) => format!("answer:{}", it.asked),
            Body::SandboxAttached(it) => format!("sandbox:{}", it.number),
            Body::ToolIntended(it) => format!("intend:{}:{}", it.call.turn, it.call.id),
            Body::ToolStarted(it) => format!("start:{}", it.exec),
            Body::ToolFinished(it) => format!("finish:{}:{}", it.call.turn, it.call.id),
            Body::NetworkUsed(it) => format!("network:{}:{}", it.call.turn, it.call.id),
            Body::SnapshotTaken(it) => format!("snapshot:{}", it.after),
            Body::SnapshotRefused(it) => format!("snapshot:{}", it.after),
            Body::StageMessage(it) => format!("message:{}:{}", it.turn, it.message.kind()),
            Body::RecordingMade(_) => "recording".to_owned(),
            Body::ParameterDeviated(it) => {
                format!("deviation:{}:{}", it.parameter, it.cause.as_str())
            }
            Body::LimitHit(it) => format!("limit:{:?}:{}", it.limit, it.allowed),
            Body::InjectedMessage(it) => match (it.answers, it.kind) {
                (Some(request), _) => format!("obey:{request}"),
                (None, Injected::TurnsLeft3 | Injected::TurnsLeft1 | Injected::Final) => {
                    format!("inject:{:?}", it.kind)
                }
                (None, _) => return None,
            },
            Body::Paused(it) => format!("obey:{}", it.answers?),
            Body::Resumed(it) => format!("obey:{}", it.answers),
            Body::Cancelled(it) => format!("obey:{}", it.answers),
            Body::BudgetChanged(it) => format!("obey:{}", it.answers),
            Body::Finished(_) => "finished".to_owned(),
            Body::RunCreated(_)
            | Body::ForkedFrom(_)
            | Body::LeaseTaken(_)
            | Body::GuardReported(_)
            | Body::ArtifactAdded(_)
            | Body::SessionSaved(_)
            | Body::ControlRequested(_)
            | Body::Unknown(_) => return None,
        };
        Some(Self::new(&text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_plain_whatever_it_is_made_of() {
        assert_eq!(Key::new("start:abc").as_str(), "start:abc");
        let long = "x".repeat(LONGEST + 1);
        for odd in ["", "a b", "a\0b", "ä", &long] {
            let key = Key::new(odd);
            assert!(key.as_str().len() <= LONGEST && !key.as_str().contains('\0'), "{odd:?}");
            assert_eq!(Key::new(odd), key);
            assert_eq!(Key::new(key.as_str()), key);
        }
        assert_ne!(Key::new("a b"), Key::new("a c"));
    }
}
