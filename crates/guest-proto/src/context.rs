//! What the host and a context say to each other over the context's stream.
//!
//! Frames of a length (u32, little endian) and JSON, which every language
//! reads; those that cannot are sent fields that end in a zero byte. The guest
//! passes the bytes on and looks at none of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest message of a context; a longer one ends it.
pub const LONGEST: usize = 64 << 20;

/// What the host sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ToContext<'a> {
    /// Runs one cell.
    Run {
        id: u64,
        code: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        language: Option<&'a str>,
        /// Set for this cell only; afterwards what was there before is back.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        env: &'a BTreeMap<String, String>,
    },
    /// Makes a waiting or copied interpreter a session's own.
    Wake {
        /// Whether its memory came from another process, and with it what that
        /// one knew about itself.
        copied: bool,
        /// Random bytes in hexadecimal, besides those of the kernel.
        entropy: String,
        cwd: Option<&'a str>,
        env: BTreeMap<&'a str, &'a str>,
        /// Resource number and value, each no higher than in force.
        rlimits: Vec<(u32, u64)>,
    },
    /// Has it run something that nobody sees, to be quicker when somebody does.
    Rehearse,
    /// Asks it to hold still and to say what it holds.
    Park,
}

/// What a context sends: the word of a stranger.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
pub enum FromContext {
    Ready {
        version: String,
    },
    /// The interpreter lacks what a context needs.
    Unfit {
        reason: String,
    },
    Awake {
        /// What could not be done, if anything.
        #[serde(default)]
        problem: Option<String>,
    },
    Stdout {
        text: String,
    },
    Stderr {
        text: String,
    },
    Display(Display),
    Result {
        data: Bundle,
        #[serde(default)]
        metadata: Map<String, Value>,
        #[serde(default)]
        count: u64,
    },
    Error {
        name: String,
        value: String,
        traceback: Vec<String>,
    },
    Done {
        id: u64,
        ok: bool,
        #[serde(default)]
        count: u64,
    },
    Parked(Parked),
}

/// One value in several representations, by MIME type.
pub type Bundle = BTreeMap<String, Value>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Display {
    pub data: Bundle,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub display_id: Option<String>,
    /// Whether it replaces what was shown under the same id.
    #[serde(default)]
    pub update: bool,
}

/// What an interpreter holds that a copy of its memory would not bring along.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parked {
    /// `None`: it has been removed.
    pub cwd: Option<String>,
    #[serde(default)]
    pub threads: Vec<String>,
    #[serde(default)]
    pub descriptors: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Held {
    pub fd: i32,
    pub target: String,
}

impl ToContext<'_> {
    pub fn encode(&self) -> Vec<u8> {
        frame(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// For interpreters that read no JSON and know no other message: `run`, the
    /// id, the code, how many variables there are, each one's name and value.
    pub fn encode_fields(&self) -> Vec<u8> {
        let Self::Run { id, code, env, .. } = self else { return Vec::new() };
        let (id, count) = (id.to_string(), env.len().to_string());
        let variables = env.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let fields = ["run", id.as_str(), *code, count.as_str()].into_iter().chain(variables);
        fields.flat_map(field).collect()
    }
}

/// A text without the byte that ends it, which no shell could hold, and then
/// that byte.
pub fn field(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(|byte| *byte != 0).chain([0])
}

/// Puts the length before a body.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], body].concat()
}

/// A frame of a context that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    TooLong(usize),
    NotAMessage,
}

/// Cuts a stream of bytes into messages.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    pub fn next_message(&mut self) -> Result<Option<FromContext>, Unreadable> {
        let rest = &self.bytes[self.at..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(Unreadable::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(|_| Unreadable::NotAMessage)?;
        self.at += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_any_pieces() {
        let body = br#"{"ev":"done","id":3,"ok":true,"count":1}"#;
        let twice = [frame(body), frame(body)].concat();
        let mut reader = Reader::default();
        let mut found = 0;
        for byte in twice {
            reader.push(&[byte]);
            while let Ok(Some(message)) = reader.next_message() {
                assert_eq!(message, FromContext::Done { id: 3, ok: true, count: 1 });
                found += 1;
            }
        }
        assert_eq!(found, 2);
    }

    #[test]
    fn a_zero_byte_cannot_end_a_field_early() {
        let env = BTreeMap::from([("A".to_owned(), "x\0y".to_owned())]);
        let run = ToContext::Run { id: 7, code: "echo\0 1", language: None, env: &env };
        assert_eq!(run.encode_fields(), b"run\x007\0echo 1\x001\0A\0xy\0");
    }

    #[test]
    fn what_is_too_long_or_no_message_is_refused() {
        let mut reader = Reader::default();
        reader.push(&u32::MAX.to_le_bytes());
        assert!(matches!(reader.next_message(), Err(Unreadable::TooLong(_))));
        let mut reader = Reader::default();
        reader.push(&frame(br#"{"ev":"mischief"}"#));
        assert_eq!(reader.next_message(), Err(Unreadable::NotAMessage));
    }
}
