//! Wishes about the network, in E2B's words, as policies of ours.
//!
//! | E2B | here |
//! |---|---|
//! | nothing said | what the server gives by default |
//! | `allow_internet_access: true` | `open` |
//! | `allow_internet_access: false`, or `denyOut` of everything | `none`, or `allow` what `allowOut` names |
//! | `allowOut` by itself | `open` if that is the default, else `allow` |
//! | `denyOut` by itself | the default without these |
//!
//! What is allowed wins over what is denied at E2B. Here a block that is denied
//! stays so, and asking for a part of it as well is refused rather than half done.
//! A host is allowed on ports 80 and 443, or on the one that is written after it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::extract::{Path, State};
use belljar_domain::network::{Block, Host, HostPattern, Policy, Reach, Rule};
use belljar_sandboxes::{Actions, NetworkWish, Problem};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::auth::Caller;
use crate::control::body::Body;
use crate::error::RestError;

/// Of a create request, or an update: the fields of both.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Network {
    pub(super) allow_public_traffic: Option<bool>,
    pub(super) mask_request_host: Option<String>,
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    dns_servers: Option<Vec<String>>,
    egress_proxy: Option<Value>,
    rules: Option<BTreeMap<String, Value>>,
    https_ports: Option<Vec<u16>>,
    #[serde(rename = "allow_internet_access")]
    pub(super) allow_internet_access: Option<bool>,
}

/// What is not done, and by what else.
pub(super) fn not_here(field: &str, instead: &str) -> Problem {
    Problem::unsupported(format!("{field}: not done here; {instead}"))
}

impl Network {
    /// What is wished for; `None`: nothing was said about it.
    pub(super) fn wish(&self, default: &NetworkWish) -> Result<Option<NetworkWish>, Problem> {
        self.check()?;
        let (allowed, denied) = (self.allowed()?, self.denied()?);
        let all_denied = denied.iter().any(Block::is_everything);
        let deny: Vec<_> = denied.into_iter().filter(|block| !block.is_everything()).collect();
        if let Some(rule) = allowed.iter().find(|rule| touches(rule, &deny)) {
            let message = format!("network: {} is in allowOut and in denyOut", rule.host);
            return Err(Problem::unsupported(message).hint("name it in one of them"));
        }
        let Policy { reach: usual, .. } = &default.policy;
        let (reach, packages) = match self.allow_internet_access {
            Some(true) if all_denied && allowed.is_empty() => {
                let message =
                    "network: allow_internet_access and a denyOut of everything contradict";
                return Err(Problem::invalid(message));
            }
            _ if all_denied => (only(allowed), false),
            Some(false) => (only(allowed), false),
            Some(true) => (Reach::Open, false),
            None if allowed.is_empty() && deny.is_empty() => return Ok(None),
            None if allowed.is_empty() || *usual == Reach::Open => {
                (usual.clone(), default.packages)
            }
            None => (only(allowed), default.packages),
        };
        let policy = Policy { reach, deny, ..default.policy.clone() };
        Ok(Some(NetworkWish { policy, packages }))
    }

    fn check(&self) -> Result<(), Problem> {
        let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        if some(&self.dns_servers) {
            return Err(not_here("network.dnsServers", "the gateway resolves names"));
        }
        if self.egress_proxy.as_ref().is_some_and(|proxy| !proxy.is_null()) {
            return Err(not_here("network.egressProxy", "the gateway is the only way out"));
        }
        if self.rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
            let instead = "an operation of the gateway adds what code must not hold";
            return Err(not_here("network.rules", instead));
        }
        if self.https_ports.as_ref().is_some_and(|ports| !ports.is_empty()) {
            return Err(not_here("network.httpsPorts", "TLS ends at the server"));
        }
        self.mask_request_host.as_deref().map_or(Ok(()), check_host)
    }

    fn allowed(&self) -> Result<Vec<Rule>, Problem> {
        self.allow_out.iter().flatten().map(|text| whom(text)).collect()
    }

    fn denied(&self) -> Result<Vec<Block>, Problem> {
        let block = |text: &String| {
            text.parse().map_err(|_| {
                let message =
                    format!("network.denyOut: {text:?} is neither an IP address nor a CIDR block");
                Problem::invalid(message)
            })
        };
        self.deny_out.iter().flatten().map(block).collect()
    }
}

fn only(allowed: Vec<Rule>) -> Reach {
    if allowed.is_empty() { Reach::None } else { Reach::Allow(allowed) }
}

/// A name, `*.name`, an address or a block; a port may follow.
fn whom(text: &str) -> Result<Rule, Problem> {
    // E2B writes IPv6 without brackets.
    let host = match text.parse::<IpAddr>() {
        Ok(address) => Ok(HostPattern::Exact(Host::Address(address.to_canonical()))),
        Err(_) => text.parse(),
    };
    let error = match host {
        Ok(host) => return Ok(Rule::of(host)),
        Err(error) => error,
    };
    let with_port = text.rsplit_once(':').and_then(|(host, port)| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|&port: &u16| digits && port > 0)?;
        Some(Rule { ports: vec![port], ..Rule::of(host.parse().ok()?) })
    });
    with_port.ok_or_else(|| Problem::invalid(format!("network.allowOut: {text:?}: {error}")))
}

fn touches(rule: &Rule, deny: &[Block]) -> bool {
    match &rule.host {
        HostPattern::Exact(Host::Address(address)) => {
            deny.iter().any(|block| block.contains(*address))
        }
        HostPattern::Addresses(allowed) => deny.iter().any(|block| block.overlaps(allowed)),
        HostPattern::Exact(Host::Name(_)) | HostPattern::Below(_) => false,
    }
}

/// What can stand in a `Host` header, once the port is filled in.
fn check_host(host: &str) -> Result<(), Problem> {
    let filled = host.replace("${PORT}", "0");
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if (1..=255).contains(&filled.len()) && filled.bytes().all(plain) {
        return Ok(());
    }
    Err(Problem::invalid(format!("network.maskRequestHost: {host:?} is not a host")))
}

/// Replaces the rules of a sandbox; what is left out is what the server gives.
pub(crate) async fn update(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(network): Body<Network>,
) -> Result<StatusCode, RestError> {
    actions.registry().find(&tenant, &id)?.live()?;
    let at_birth = [
        ("allowPublicTraffic", network.allow_public_traffic.is_some()),
        ("maskRequestHost", network.mask_request_host.is_some()),
    ];
    if let Some((field, _)) = at_birth.iter().find(|(_, is_there)| *is_there) {
        let message = format!("network.{field} is chosen when a sandbox is made");
        return Err(Problem::invalid(message).into());
    }
    let default = &actions.config().networks.default;
    let wish = network.wish(default)?.unwrap_or_else(|| default.clone());
    actions.set_network(&tenant, &id, wish).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A policy in E2B's words.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow_out: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deny_out: Vec<String>,
}

impl Shown {
    /// And whether everything public is reached.
    pub(super) fn of(policy: &Policy) -> (Self, bool) {
        let mut deny_out: Vec<_> = policy.deny.iter().map(ToString::to_string).collect();
        let allow_out = match &policy.reach {
            Reach::Allow(rules) => rules.iter().map(shown).collect(),
            Reach::None | Reach::Open => Vec::new(),
        };
        let open = policy.reach == Reach::Open;
        if !open {
            deny_out.insert(0, "0.0.0.0/0".to_owned());
        }
        (Self { allow_out, deny_out }, open)
    }
}

fn shown(rule: &Rule) -> String {
    match rule.ports.as_slice() {
        [port] => format!("{}:{port}", rule.host),
        _ => rule.host.to_string(),
    }
}

#[cfg(test)]
mod tests;
