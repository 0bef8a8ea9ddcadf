//! Blocks of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Addresses that agree in their first bits, written `192.0.2.0/24`; a single
/// address is a block of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Block {
    first: IpAddr,
    bits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block is an address, or an address with `/` and its number of fixed bits")]
pub struct InvalidBlock;

fn widest(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address as a number whose highest bit is its first.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Block {
    pub fn contains(&self, address: IpAddr) -> bool {
        let is_same_kind = widest(self.first) == widest(address);
        let different = number(self.first) ^ number(address);
        is_same_kind && different.leading_zeros() >= u32::from(self.bits)
    }

    /// Whether this is every address of its kind.
    pub fn is_everything(&self) -> bool {
        self.bits == 0
    }

    /// Whether any address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.bits <= other.bits {
            self.contains(other.first)
        } else {
            other.contains(self.first)
        }
    }
}

impl FromStr for Block {
    type Err = InvalidBlock;

    fn from_str(text: &str) -> Result<Self, InvalidBlock> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| InvalidBlock)?;
        let bits = match bits {
            Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => {
                bits.parse().map_err(|_| InvalidBlock)?
            }
            Some(_) => return Err(InvalidBlock),
            None => widest(first),
        };
        if bits > widest(first) {
            return Err(InvalidBlock);
        }
        // IPv4 in IPv6's clothes is the same place, so it is the same block.
        match (first.to_canonical(), bits.checked_sub(128 - 32)) {
            (IpAddr::V4(inner), Some(bits)) if first.is_ipv6() => {
                Ok(Self { first: inner.into(), bits })
            }
            _ => Ok(Self { first, bits }),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits == widest(self.first) {
            self.first.fmt(f)
        } else {
            write!(f, "{}/{}", self.first, self.bits)
        }
    }
}

impl TryFrom<String> for Block {
    type Error = InvalidBlock;

    fn try_from(text: String) -> Result<Self, InvalidBlock> {
        text.parse()
    }
}

impl From<Block> for String {
    fn from(block: Block) -> Self {
        block.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_what_agrees_in_its_bits() {
        let has = |block: &str, address: &str| {
            block.parse::<Block>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("10.0.0.0/8", "10.255.0.1"));
        assert!(!has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("0.0.0.0/0", "203.0.113.9"));
        assert!(!has("0.0.0.0/0", "::1"));
        assert!(has("192.0.2.1", "192.0.2.1"));
        assert!(has("fc00::/7", "fd00:ec2::254"));
        assert!(!has("fc00::/7", "fe00::1"));
        assert!(has("::/0", "2001:db8::1"));
        assert!(!has("192.0.2.1", "192.0.2.0"));
        assert!(has("100.64.0.0/10", "100.127.255.255"));
        assert!(!has("100.64.0.0/10", "100.128.0.0"));
        assert!(has("10.1.2.3/8", "10.9.9.9"));
    }

    #[test]
    fn a_block_of_ipv4_is_one_block_however_it_is_written() {
        for (text, want) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:0:0/95", "::ffff:0.0.0.0/95"),
            ("2001:DB8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(text.parse::<Block>().map(|block| block.to_string()), Ok(want.into()));
        }
    }

    #[test]
    fn only_the_usual_form_is_a_block() {
        for text in ["", "10.0.0.0/33", "::/129", "10/8", "10.0.0.0/+8", "a.b/8", "10.0.0.0/"] {
            assert!(text.parse::<Block>().is_err(), "{text}");
        }
    }
}
