//! Policies, as they are asked for and shown.

use belljar_domain::network as model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{Number, Text};

/// A host: `example.org`, `*.example.org`, an address or a block of addresses.
type HostText = Text<1, 300>;
/// The name of an operation of the gateway.
pub type OperationName = Text<1, 64>;

/// A network policy. All fields are optional; the default is no network. See `docs/network.md`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    #[serde(default)]
    pub reach: Reach,
    /// Also allow the package indexes that the template's pip, npm, cargo, apt and go are
    /// configured for. Only indexes and the files they list can be read; publishing is
    /// refused.
    #[serde(default)]
    pub packages: bool,
    /// Address blocks to deny, whatever host name leads there.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub deny: Vec<HostText>,
    /// Hosts to deny.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub deny_hosts: Vec<HostText>,
    #[serde(default)]
    pub throttle: Throttle,
    #[serde(default)]
    pub tape: Tape,
}

/// Hosts that a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    #[default]
    None,
    /// Only the hosts that a rule names.
    Allow(#[schemars(length(max = 512))] Vec<Rule>),
    /// All hosts except private addresses.
    Open,
}

/// One allowed destination.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub host: HostText,
    /// Allowed ports. Default: 80 and 443.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ports: Vec<Number<1, 65535>>,
    /// Allowed methods, in upper case. Default: all. To check methods and paths, the gateway
    /// terminates TLS for this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub methods: Vec<Text<1, 32>>,
    /// Allowed path prefixes, by whole segments. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub paths: Vec<Text<1, 1024>>,
}

/// Traffic limits. Absent fields have the usual defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Concurrent connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Number<0, 4096>>,
    /// New connections per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_second: Option<Number<1, 10_000>>,
    /// Bytes per second, both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<Number<1, 10_737_418_240>>,
    /// Total bytes out of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<Number<0, 1_099_511_627_776>>,
    /// Total bytes into the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<Number<0, 1_099_511_627_776>>,
}

/// Recording or replay of exchanges with a cassette.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tape {
    #[default]
    Off,
    Record {
        cassette: Text<1, 64>,
    },
    Replay {
        cassette: Text<1, 64>,
        #[serde(default)]
        miss: Miss,
    },
}

/// Handling of a request that is not on the cassette.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Miss {
    /// Refuse it.
    #[default]
    Strict,
    /// Forward it if the rest of the policy allows it, and record it.
    Fallthrough,
    /// Refuse it. Unlike with `strict`, the rest of the policy is in force also for requests that
    /// are on the cassette: what it forbids is refused for its reason.
    Judged,
}

/// The current network policy of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NetworkShown {
    pub network: Network,
    /// Package indexes that were found, if `packages` is set.
    pub indexes: Vec<Index>,
    /// Gateway operations that the sandbox's tokens may use.
    pub operations: Vec<String>,
}

/// A package index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// `pip`, `npm`, `cargo`, `apt` or `go`.
    pub kind: String,
    pub url: String,
}

/// Why it is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network.{field}: `{text}`: {why}")]
pub struct InvalidNetwork {
    field: &'static str,
    text: String,
    why: String,
}

fn read<T>(field: &'static str, text: &str) -> Result<T, InvalidNetwork>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let invalid =
        |error: T::Err| InvalidNetwork { field, text: text.to_owned(), why: error.to_string() };
    text.parse().map_err(invalid)
}

impl TryFrom<&Network> for model::Policy {
    type Error = InvalidNetwork;

    fn try_from(asked: &Network) -> Result<Self, InvalidNetwork> {
        let reach = match &asked.reach {
            Reach::None => model::Reach::None,
            Reach::Allow(rules) => {
                let rules = rules.iter().map(rule).collect::<Result<_, _>>();
                model::Reach::Allow(rules?)
            }
            Reach::Open => model::Reach::Open,
        };
        let deny = asked.deny.iter().map(|text| read("deny", text.as_str()));
        let deny_hosts = asked.deny_hosts.iter().map(|text| read("deny_hosts", text.as_str()));
        let tape = match &asked.tape {
            Tape::Off => model::Tape::Off,
            Tape::Record { cassette } => {
                model::Tape::Record { cassette: read("tape", cassette.as_str())? }
            }
            Tape::Replay { cassette, miss } => model::Tape::Replay {
                cassette: read("tape", cassette.as_str())?,
                miss: match miss {
                    Miss::Strict => model::Miss::Strict,
                    Miss::Fallthrough => model::Miss::Fallthrough,
                    Miss::Judged => model::Miss::Judged,
                },
            },
        };
        Ok(Self {
            reach,
            packages: Vec::new(),
            deny: deny.collect::<Result<_, _>>()?,
            deny_hosts: deny_hosts.collect::<Result<_, _>>()?,
            throttle: throttle(&asked.throttle),
            tape,
        })
    }
}

fn rule(asked: &Rule) -> Result<model::Rule, InvalidNetwork> {
    let refuse = |field, text: &str, why: &str| {
        Err(InvalidNetwork { field, text: text.to_owned(), why: why.to_owned() })
    };
    for method in &asked.methods {
        if !method.as_str().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            return refuse(
                "reach.allow.methods",
                method.as_str(),
                "a method must be in upper case",
            );
        }
    }
    for path in &asked.paths {
        if !path.as_str().starts_with('/') {
            return refuse("reach.allow.paths", path.as_str(), "a path must begin with `/`");
        }
    }
    let texts = |texts: &[Text<1, 32>]| texts.iter().map(|text| text.as_str().to_owned()).collect();
    Ok(model::Rule {
        host: read("reach.allow.host", asked.host.as_str())?,
        ports: asked.ports.iter().filter_map(|port| u16::try_from(port.get()).ok()).collect(),
        methods: texts(&asked.methods),
        paths: asked.paths.iter().map(|path| path.as_str().to_owned()).collect(),
    })
}

fn throttle(asked: &Throttle) -> model::Throttle {
    let usual = model::Throttle::default();
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let Throttle { connections, connections_per_second, bytes_per_second, bytes_out, bytes_in } =
        asked;
    model::Throttle {
        connections: connections.map_or(usual.connections, |n| small(n.get())),
        connections_per_second: connections_per_second
            .map_or(usual.connections_per_second, |n| small(n.get())),
        bytes_per_second: bytes_per_second.map_or(usual.bytes_per_second, |n| n.get()),
        bytes_out: bytes_out.map_or(usual.bytes_out, |n| n.get()),
        bytes_in: bytes_in.map_or(usual.bytes_in, |n| n.get()),
    }
}

fn text<const LEAST: usize, const MOST: usize>(shown: &impl ToString) -> Option<Text<LEAST, MOST>> {
    Text::try_from(shown.to_string()).ok()
}

impl Network {
    /// As it can be asked for again.
    pub fn of(policy: &model::Policy, packages: bool) -> Self {
        let reach = match &policy.reach {
            model::Reach::None => Reach::None,
            model::Reach::Allow(rules) => Reach::Allow(rules.iter().filter_map(shown).collect()),
            model::Reach::Open => Reach::Open,
        };
        let tape = match &policy.tape {
            model::Tape::Off => None,
            model::Tape::Record { cassette } => {
                text(cassette).map(|cassette| Tape::Record { cassette })
            }
            model::Tape::Replay { cassette, miss } => {
                let miss = match miss {
                    model::Miss::Strict => Miss::Strict,
                    model::Miss::Fallthrough => Miss::Fallthrough,
                    model::Miss::Judged => Miss::Judged,
                };
                text(cassette).map(|cassette| Tape::Replay { cassette, miss })
            }
        };
        let limits = &policy.throttle;
        Self {
            reach,
            packages,
            deny: policy.deny.iter().filter_map(text).collect(),
            deny_hosts: policy.deny_hosts.iter().filter_map(text).collect(),
            throttle: Throttle {
                connections: u64::from(limits.connections).try_into().ok(),
                connections_per_second: u64::from(limits.connections_per_second).try_into().ok(),
                bytes_per_second: limits.bytes_per_second.try_into().ok(),
                bytes_out: limits.bytes_out.try_into().ok(),
                bytes_in: limits.bytes_in.try_into().ok(),
            },
            tape: tape.unwrap_or_default(),
        }
    }
}

fn shown(rule: &model::Rule) -> Option<Rule> {
    Some(Rule {
        host: text(&rule.host)?,
        ports: rule.ports.iter().filter_map(|port| u64::from(*port).try_into().ok()).collect(),
        methods: rule.methods.iter().filter_map(text).collect(),
        paths: rule.paths.iter().filter_map(text).collect(),
    })
}

impl From<&model::PackageIndex> for Index {
    fn from(index: &model::PackageIndex) -> Self {
        let kind = match index.kind {
            model::IndexKind::Pip => "pip",
            model::IndexKind::Npm => "npm",
            model::IndexKind::Cargo => "cargo",
            model::IndexKind::Apt => "apt",
            model::IndexKind::Go => "go",
        };
        Self { kind: kind.to_owned(), url: index.url.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(asked: Value) -> Result<model::Policy, String> {
        let network: Network = serde_json::from_value(asked).map_err(|error| error.to_string())?;
        model::Policy::try_from(&network).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_for_is_the_policy_in_the_same_words() {
        for asked in [
            json!({}),
            json!({"reach": "open", "deny": ["203.0.113.0/24"], "throttle": {"connections": 32}}),
            json!({"reach": {"allow": [
                {"host": "files.example.org", "methods": ["GET"], "paths": ["/packages"]},
                {"host": "*.example.net", "ports": [443, 8443]},
            ]}, "deny_hosts": ["internal.example.net"]}),
            json!({"tape": {"replay": {"cassette": "install-2026-11", "miss": "fallthrough"}}}),
            json!({"tape": {"replay": {"cassette": "c", "miss": "judged"}}}),
            json!({"tape": {"record": {"cassette": "c"}}}),
        ] {
            let read = policy(asked.clone()).unwrap();
            // The model reads the same words, where it has them.
            assert_eq!(serde_json::from_value::<model::Policy>(asked.clone()).unwrap(), read);
            let again = Network::of(&read, false);
            assert_eq!(model::Policy::try_from(&again), Ok(read), "{asked}");
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_by_name() {
        for (asked, field) in [
            (json!({"reach": {"allow": [{"host": "127.1"}]}}), "host"),
            (json!({"reach": {"allow": [{"host": "a.example", "methods": ["get"]}]}}), "methods"),
            (json!({"reach": {"allow": [{"host": "a.example", "paths": ["a"]}]}}), "paths"),
            (json!({"deny": ["example.org"]}), "deny"),
            (json!({"deny_hosts": ["a b"]}), "deny_hosts"),
            (json!({"tape": {"record": {"cassette": "../c"}}}), "tape"),
            (json!({"reach": "some"}), "some"),
            (json!({"reeach": "open"}), "reeach"),
            (json!({"throttle": {"connections": 1_000_000}}), "4096"),
        ] {
            let refusal = policy(asked.clone()).unwrap_err();
            assert!(refusal.contains(field), "{asked}: {refusal}");
        }
    }
}
