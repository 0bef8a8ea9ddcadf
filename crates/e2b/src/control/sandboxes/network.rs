//! Wishes about the network. There is none yet, so what only denies is granted.

use std::collections::BTreeMap;
use std::net::IpAddr;

use axum::extract::{Path, State};
use belljar_actions::{Actions, Problem};
use http::StatusCode;
use serde::Deserialize;
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
    allow_internet_access: Option<bool>,
}

/// What is refused, and until when.
pub(super) fn until_the_gateway(field: &str, what: &str) -> Problem {
    let message =
        format!("{field}: sandboxes have no network, and no {what}, until the gateway exists");
    Problem::unsupported(message)
}

impl Network {
    /// Refuses what would need a network, by the name of its field.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let some = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let refuse = |field: &str, what| Err(until_the_gateway(&format!("network.{field}"), what));
        if some(&self.allow_out) {
            return refuse("allowOut", "way out");
        }
        if self.allow_internet_access == Some(true) {
            return refuse("allow_internet_access", "internet access");
        }
        if some(&self.dns_servers) {
            return refuse("dnsServers", "name servers");
        }
        if self.egress_proxy.as_ref().is_some_and(|proxy| !proxy.is_null()) {
            return refuse("egressProxy", "egress proxy");
        }
        if self.rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
            return refuse("rules", "rewriting of requests");
        }
        if self.https_ports.as_ref().is_some_and(|ports| !ports.is_empty()) {
            return refuse("httpsPorts", "TLS to servers inside");
        }
        for denied in self.deny_out.iter().flatten() {
            check_block(denied)?;
        }
        self.mask_request_host.as_deref().map_or(Ok(()), check_host)
    }
}

/// An address, or a block of them.
fn check_block(text: &str) -> Result<(), Problem> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let fits = match address.parse() {
        Ok(IpAddr::V4(_)) => bits.parse().is_ok_and(|bits: u8| bits <= 32),
        Ok(IpAddr::V6(_)) => bits.parse().is_ok_and(|bits: u8| bits <= 128),
        Err(_) => false,
    };
    if fits {
        return Ok(());
    }
    let message = format!("network.denyOut: {text:?} is neither an IP address nor a CIDR block");
    Err(Problem::invalid(message))
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

/// Replaces the rules of a sandbox: by those that change nothing, or by none.
pub(crate) async fn update(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    Body(network): Body<Network>,
) -> Result<StatusCode, RestError> {
    actions.registry().find(&tenant, &id)?.live()?;
    network.check()?;
    let at_birth = [
        ("allowPublicTraffic", network.allow_public_traffic.is_some()),
        ("maskRequestHost", network.mask_request_host.is_some()),
    ];
    if let Some((field, _)) = at_birth.iter().find(|(_, is_there)| *is_there) {
        let message = format!("network.{field} is chosen when a sandbox is made");
        return Err(Problem::invalid(message).into());
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(network: Value) -> Result<(), String> {
        let network: Network =
            serde_json::from_value(network).map_err(|error| error.to_string())?;
        network.check().map_err(|problem| problem.message)
    }

    #[test]
    fn what_only_denies_is_granted() {
        for network in [
            json!({}),
            json!({"denyOut": ["0.0.0.0/0", "10.0.0.1", "::/0"], "allowOut": []}),
            json!({"allow_internet_access": false, "egressProxy": null, "rules": {}}),
            json!({"maskRequestHost": "localhost:${PORT}", "allowPublicTraffic": true}),
        ] {
            assert_eq!(check(network.clone()), Ok(()), "{network}");
        }
    }

    #[test]
    fn what_allows_is_refused_until_the_gateway_exists() {
        for (field, value) in [
            ("allowOut", json!(["example.com"])),
            ("allow_internet_access", json!(true)),
            ("dnsServers", json!(["9.9.9.9"])),
            ("egressProxy", json!({"address": "proxy:1080"})),
            ("rules", json!({"example.com": []})),
            ("httpsPorts", json!([8443])),
        ] {
            let refusal = check(json!({ field: value })).unwrap_err();
            assert!(refusal.contains(field), "{refusal}");
            assert!(refusal.contains("network") && refusal.contains("until the gateway exists"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for network in [
            json!({"denyOut": ["example.com"]}),
            json!({"denyOut": ["10.0.0.0/33"]}),
            json!({"maskRequestHost": "a\r\nb"}),
            json!({"maskRequestHost": ""}),
            json!({"unheardOf": 1}),
        ] {
            assert!(check(network.clone()).is_err(), "{network}");
        }
    }
}
