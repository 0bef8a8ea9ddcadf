//! What runs and their parts are called.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id;

/// Why a text is not the id of a run or of an execution.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an id is 26 characters of a-z and 2-7")]
pub struct InvalidRunId;

/// An id that is written like a sandbox's: 128 bits in lower-case base 32, safe in
/// paths, shells and logs.
macro_rules! id {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id that stands for these bits.
            pub fn from_bits(bits: [u8; 16]) -> Self {
                Self(id::written(bits))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidRunId;

            fn from_str(text: &str) -> Result<Self, InvalidRunId> {
                id::is_written(text).then(|| Self(text.to_owned())).ok_or(InvalidRunId)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidRunId;

            fn try_from(text: String) -> Result<Self, InvalidRunId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id! {
    /// Names one run.
    RunId
}

id! {
    /// Names one attempt at one tool call of one run. Whoever asks a sandbox to do
    /// the same execution twice finds what became of it the first time.
    ExecId
}

/// The place of an event in its run: 1, 2, 3, without gaps.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first event.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts who has had a run: whoever acts under an older number is a ghost, to
/// the journal, to the sandbox and to the gateway alike.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form_and_a_path_is_none() {
        let id = RunId::from_bits([0x5a; 16]);
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_ne!(id, RunId::from_bits([0x5b; 16]));
        for text in ["", "..", "../../etc/passwd-and-so-on", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"] {
            assert_eq!(text.parse::<RunId>(), Err(InvalidRunId), "{text}");
        }
    }
}
