//! Policies.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Block, HostPattern};

/// What a sandbox may reach, how much of it, and whether the world is recorded
/// or played back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub reach: Reach,
    /// Package indexes: read only, with the files that they promise, whatever
    /// else is reached.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageIndex>,
    /// Never reached, whatever else is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Block>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny_hosts: Vec<HostPattern>,
    pub throttle: Throttle,
    pub tape: Tape,
}

impl Policy {
    /// Whether nothing at all can be reached or played.
    pub fn is_none(&self) -> bool {
        let reaches = match &self.reach {
            Reach::None => false,
            Reach::Allow(rules) => !rules.is_empty(),
            Reach::Open => true,
        };
        !reaches && self.packages.is_empty() && self.tape == Tape::Off
    }
}

/// Who may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    #[default]
    None,
    /// Whom a rule names.
    Allow(Vec<Rule>),
    /// Everyone but private places.
    Open,
}

/// One thing that is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub host: HostPattern,
    /// Empty: 80 and 443.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// In upper case; empty: all. Rules with methods or paths need the content,
    /// so TLS is ended at the gateway for the hosts that they name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Prefixes by whole segments: `/simple` allows `/simple` and `/simple/a`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

impl Rule {
    /// The usual ports of a host.
    pub fn of(host: HostPattern) -> Self {
        Self { host, ports: vec![], methods: vec![], paths: vec![] }
    }

    /// Whether only the content of a request can tell if it is allowed.
    pub fn needs_content(&self) -> bool {
        !self.methods.is_empty() || !self.paths.is_empty()
    }

    pub fn covers_port(&self, port: u16) -> bool {
        match self.ports.as_slice() {
            [] => port == 80 || port == 443,
            ports => ports.contains(&port),
        }
    }
}

/// Where packages come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageIndex {
    pub kind: IndexKind,
    /// As its package manager is configured, without credentials.
    pub url: String,
}

/// Whose index it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    Pip,
    Npm,
    Cargo,
    Apt,
    Go,
}

/// How much of the world at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Throttle {
    /// Connections at the same time.
    pub connections: u32,
    /// New connections a second, on average; ten seconds' worth at once.
    pub connections_per_second: u32,
    /// Both directions together.
    pub bytes_per_second: u64,
    /// In all, from the sandbox outwards, headers and names included.
    pub bytes_out: u64,
    /// In all, into the sandbox.
    pub bytes_in: u64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_second: 200,
            bytes_per_second: 256 << 20,
            bytes_out: 4 << 30,
            bytes_in: 64 << 30,
        }
    }
}

/// Whether exchanges are recorded or played back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tape {
    #[default]
    Off,
    Record {
        cassette: CassetteId,
    },
    Replay {
        cassette: CassetteId,
        miss: Miss,
    },
}

/// What becomes of a request that is not on the cassette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    #[default]
    Strict,
    /// It goes out, if the rest of the policy allows it, and is recorded.
    Fallthrough,
    /// Nothing goes out, as with `Strict`. The rest of the policy is in force all the same: what
    /// it forbids is refused for its reason, as it was when the cassette was recorded.
    Judged,
}

impl Tape {
    /// Returns true for a replay in which nothing goes out.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Self::Replay { miss: Miss::Strict | Miss::Judged, .. })
    }

    /// Returns true for a replay that plays requests also where the rest of the policy forbids
    /// them.
    pub fn plays_all(&self) -> bool {
        matches!(self, Self::Replay { miss: Miss::Strict | Miss::Fallthrough, .. })
    }
}

/// Names one cassette within its tenant; a file name as well.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CassetteId(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a cassette's name is 1 to 64 characters of a-z, 0-9, `-` and `_`, beginning with neither sign"
)]
pub struct InvalidCassetteId;

impl CassetteId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CassetteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CassetteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CassetteId {
    type Err = InvalidCassetteId;

    fn from_str(text: &str) -> Result<Self, InvalidCassetteId> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|b| plain(b) || b == b'-' || b == b'_')
            && text.bytes().next().is_some_and(plain);
        fits.then(|| Self(text.to_owned())).ok_or(InvalidCassetteId)
    }
}

impl TryFrom<String> for CassetteId {
    type Error = InvalidCassetteId;

    fn try_from(text: String) -> Result<Self, InvalidCassetteId> {
        text.parse()
    }
}

impl From<CassetteId> for String {
    fn from(id: CassetteId) -> Self {
        id.0
    }
}
