//! Hosts: a name or an address, in the one spelling that is accepted.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Block;

/// A DNS name in lower case, without a dot at its end.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// Who a connection goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Host {
    Name(HostName),
    Address(IpAddr),
}

/// Which hosts a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostPattern {
    /// Written as the host itself.
    Exact(Host),
    /// Every name below this one, but not itself: written `*.example.org`.
    Below(HostName),
    /// Addresses that are asked for as such: a name is never looked up to find
    /// out whether it is allowed.
    Addresses(Block),
}

/// Why a text is not a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHost {
    #[error("a host is not empty and has at most 253 characters")]
    Length,
    #[error("a host name is made of letters, digits, `-` and `.`, no label empty or over 63")]
    Name,
    #[error("an address is written in its usual form, such as 192.0.2.1 or [2001:db8::1]")]
    Address,
}

const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies below `parent`, by whole labels.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(&parent.0).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    /// Upper case is the same name; one dot at the end is too. A last label that
    /// begins with a digit would be read as a number by some resolvers: that is
    /// how `127.1` and `0x7f.1` reach a loopback, so no name ends in one.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() || text.len() > LONGEST {
            return Err(InvalidHost::Length);
        }
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= LONGEST_LABEL
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        let last = text.rsplit('.').next().unwrap_or(text);
        let is_number = last.starts_with(|first: char| first.is_ascii_digit());
        if is_number || !text.split('.').all(is_label) {
            return Err(InvalidHost::Name);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl FromStr for Host {
    type Err = InvalidHost;

    /// As it stands in a URL: IPv6 in brackets, IPv4 as four decimal numbers.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(InvalidHost::Address)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| InvalidHost::Address)?;
            // IPv4 in IPv6's clothes is the same place, so it is the same host.
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl HostPattern {
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(wanted), host) => wanted == host,
            (Self::Below(parent), Host::Name(name)) => name.is_below(parent),
            (Self::Addresses(block), Host::Address(address)) => block.contains(*address),
            (Self::Below(_), Host::Address(_)) | (Self::Addresses(_), Host::Name(_)) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        match text.strip_prefix("*.") {
            Some(parent) => parent.parse().map(Self::Below),
            None if text.contains('/') => {
                text.parse().map(Self::Addresses).map_err(|_| InvalidHost::Address)
            }
            None => text.parse().map(Self::Exact),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(parent) => write!(f, "*.{parent}"),
            Self::Addresses(block) => block.fmt(f),
        }
    }
}

macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = InvalidHost;

            fn try_from(text: String) -> Result<Self, InvalidHost> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(HostName, Host, HostPattern);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_spelling() {
        for text in ["example.org", "EXAMPLE.org", "example.org."] {
            assert_eq!(text.parse::<Host>().map(|h| h.to_string()), Ok("example.org".into()));
        }
        assert_eq!("[::1]".parse::<Host>(), Ok(Host::Address(Ipv6Addr::LOCALHOST.into())));
        for text in
            ["127.0.0.1", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]"]
        {
            assert_eq!(
                text.parse::<Host>(),
                Ok(Host::Address(Ipv4Addr::LOCALHOST.into())),
                "{text}"
            );
        }
        for text in ["[0:0:0:0:0:0:0:1]", "[::0001]", "[::0.0.0.1]"] {
            assert_eq!(text.parse::<Host>().map(|h| h.to_string()), Ok("[::1]".into()), "{text}");
        }
    }

    #[test]
    fn what_resolvers_read_as_a_number_is_no_name() {
        for text in [
            "127.1",
            "0x7f.1",
            "2130706433",
            "0177.0.0.1",
            "0x7f000001",
            "1.2.3",
            "::1",
            "fe80::1%lo",
            "[fe80::1%25lo]",
            "１２７.0.0.1",
            "127.0.0.1%00",
            "a..b",
            "-a.org",
            ".",
            "",
            "a b",
            "a\0.b",
            "a@b",
            "a#b",
            "a/b",
            "a\r\nb",
            "*.",
            "[::1",
            "127.0.0.1.",
            "127.0.0.01",
            "127.0.0.256",
            "127.0.0",
            "0x7f.0.0.1",
            "1e9",
            "a.0x7f",
            "a.1",
            "[127.0.0.1]",
            "[::1]]",
            "[[::1]]",
            "[::1].",
            "[::1]:80",
            "[::ffff:127.0.0.1%1]",
            "[::1%]",
            "evil.com\0.allowed.com",
            "evil.com%00.allowed.com",
            "evil.com:80",
            "evil.com..",
            ".evil.com",
            "evil-.com",
            "bücher.example",
            "ｅxample.org",
            "example。org",
            "exam\u{ad}ple.org",
            "\u{feff}example.org",
            "a\tb",
            " a",
            "a ",
            "a?b",
            "a\\b",
            "a,b",
            "*",
        ] {
            assert!(text.parse::<Host>().is_err(), "{text:?}");
        }
        assert!("a".repeat(300).parse::<Host>().is_err());
    }

    #[test]
    fn a_suffix_matches_whole_labels_below_it() {
        let pattern: HostPattern = "*.example.org".parse().unwrap();
        for (text, want) in [
            ("a.example.org", true),
            ("a.b.example.org", true),
            ("example.org", false),
            ("notexample.org", false),
            ("example.org.evil.com", false),
        ] {
            assert_eq!(pattern.matches(&text.parse().unwrap()), want, "{text}");
        }
    }
}
