//! Identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one sandbox: 26 characters of lower-case base 32, 128 random bits.
///
/// It is used as a cgroup and file name, so the alphabet holds nothing that a
/// path, a shell or a log line would treat specially.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Why a text is not a sandbox id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a sandbox id is 26 characters of a-z and 2-7")]
pub struct InvalidId;

impl SandboxId {
    pub const LENGTH: usize = 26;

    /// Makes the id that stands for these random bits.
    pub fn from_random(bits: [u8; 16]) -> Self {
        let mut value = u128::from_be_bytes(bits);
        let mut text = [0u8; Self::LENGTH];
        for slot in text.iter_mut().rev() {
            *slot = ALPHABET[(value & 31) as usize];
            value >>= 5;
        }
        Self(text.iter().map(|&byte| char::from(byte)).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let fits = text.len() == Self::LENGTH && text.bytes().all(|b| ALPHABET.contains(&b));
        fits.then(|| Self(text.to_owned())).ok_or(InvalidId)
    }
}

impl TryFrom<String> for SandboxId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SandboxId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_form() {
        let id = SandboxId::from_random([0xab; 16]);
        assert_eq!(id.as_str().len(), SandboxId::LENGTH);
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn distinct_bits_give_distinct_ids() {
        assert_ne!(SandboxId::from_random([0; 16]), SandboxId::from_random([1; 16]));
    }

    #[test]
    fn a_path_is_not_an_id() {
        for text in ["", "../../etc", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "aaaaaaaaaaaaaaaaaaaaaaaaa/"] {
            assert_eq!(text.parse::<SandboxId>(), Err(InvalidId), "{text}");
        }
    }
}
