//! Identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Names one sandbox: 26 characters of lower-case base 32, 128 random bits. On a
/// platform of many nodes the first three say on which node it is, and the other
/// 23 are random.
///
/// It is used as a cgroup and file name, so the alphabet holds nothing that a
/// path, a shell or a log line would treat specially.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 26;

/// 128 bits as 26 characters.
pub(crate) fn written(bits: [u8; 16]) -> String {
    let mut value = u128::from_be_bytes(bits);
    let mut text = [0u8; LENGTH];
    for slot in text.iter_mut().rev() {
        *slot = ALPHABET[(value & 31) as usize];
        value >>= 5;
    }
    text.iter().map(|&byte| char::from(byte)).collect()
}

pub(crate) fn is_written(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// Why a text is not a sandbox id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a sandbox id is 26 characters of a-z and 2-7")]
pub struct InvalidId;

impl SandboxId {
    pub const LENGTH: usize = LENGTH;

    /// Makes the id that stands for these random bits.
    pub fn from_random(bits: [u8; 16]) -> Self {
        Self(written(bits))
    }

    /// Makes an id that says where its sandbox is.
    pub fn on_node(node: NodeNumber, bits: [u8; 16]) -> Self {
        let random = Self::from_random(bits);
        let digit = |shift: u32| char::from(ALPHABET[usize::from(node.0 >> shift & 31)]);
        let prefix = [digit(10), digit(5), digit(0)];
        Self(prefix.into_iter().chain(random.0.chars().skip(prefix.len())).collect())
    }

    /// The node that this id would be on, if it was made for one.
    pub fn node(&self) -> Option<NodeNumber> {
        let digits = self.0.bytes().take(3).map(|byte| {
            let digit = ALPHABET.iter().position(|&known| known == byte).unwrap_or_default();
            u16::try_from(digit).unwrap_or_default()
        });
        NodeNumber::new(digits.fold(0, |number, digit| number << 5 | digit))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names one node of a platform: 1 to 32767.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct NodeNumber(u16);

/// Why a number is no node's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a node's number is between 1 and {}", NodeNumber::MOST)]
pub struct InvalidNode;

impl NodeNumber {
    pub const MOST: u16 = (1 << 15) - 1;

    pub fn new(number: u16) -> Option<Self> {
        (1..=Self::MOST).contains(&number).then_some(Self(number))
    }

    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for NodeNumber {
    type Error = InvalidNode;

    fn try_from(number: u16) -> Result<Self, InvalidNode> {
        Self::new(number).ok_or(InvalidNode)
    }
}

impl From<NodeNumber> for u16 {
    fn from(node: NodeNumber) -> Self {
        node.0
    }
}

impl fmt::Display for NodeNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SandboxId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        is_written(text).then(|| Self(text.to_owned())).ok_or(InvalidId)
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
    fn an_id_says_on_which_node_it_is() {
        for number in [1, 31, 32, 1024, NodeNumber::MOST] {
            let node = NodeNumber::new(number).unwrap();
            let id = SandboxId::on_node(node, [0x5a; 16]);
            assert_eq!(id.node(), Some(node));
            assert_eq!(id.as_str().parse(), Ok(id));
        }
        let one = NodeNumber::new(1).unwrap();
        assert_ne!(SandboxId::on_node(one, [0; 16]), SandboxId::on_node(one, [1; 16]));
        assert_eq!(NodeNumber::new(0), None);
        assert_eq!(NodeNumber::new(1 << 15), None);
    }

    #[test]
    fn a_path_is_not_an_id() {
        for text in ["", "../../etc", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "aaaaaaaaaaaaaaaaaaaaaaaaa/"] {
            assert_eq!(text.parse::<SandboxId>(), Err(InvalidId), "{text}");
        }
    }
}
