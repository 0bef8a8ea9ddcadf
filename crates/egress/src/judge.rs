//! Policies, applied.
//!
//! Denials beat allowances; among rules, one that allows is enough. Nothing here
//! looks a name up, and a name that is denied is never looked up by anyone.

use std::net::IpAddr;

use belljar_domain::network::{
    Host, HostName, HostPattern, Miss, Policy, Reach, Reason, Rule, Tape,
};

use crate::{address, path};

/// Who is asked for, before any name is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
}

/// What may become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Deny(Reason),
    /// Bytes may pass unread, after [`judge_name`].
    Tunnel,
    /// Each request has to be seen: TLS is ended at the gateway.
    Content,
}

/// The gateway's own zone, which nobody else serves. What is meant for the
/// gateway is answered by it before anything is judged; the rest would be a way
/// to reach it from behind.
const OWN_ZONE: &str = "belljar.internal";

/// The gateway's port inside, on loopback.
const OWN_PORT: u16 = 3128;

/// Names under which clouds hand out credentials. Their addresses are vetoed as
/// well; these are refused without asking a resolver that may know others.
const METADATA: &[&str] = &[
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data",
    "instance-data.ec2.internal",
];

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// What may become of a connection to `destination`.
///
/// A policy that plays a tape back needs no host to be reachable, unless the tape
/// is [judged](Miss::Judged): every request is looked for on the tape first, so its
/// content has to be seen. Whether a request that is not on it may go out is for
/// [`may_leave`].
pub fn judge(policy: &Policy, destination: &Destination) -> Verdict {
    if let Err(reason) = judge_denials(policy, destination) {
        return Verdict::Deny(reason);
    }
    if policy.tape.plays_all() {
        return Verdict::Content;
    }
    match reachable(&policy.reach, destination) {
        Err(reason) => Verdict::Deny(reason),
        Ok(_) if policy.tape != Tape::Off => Verdict::Content,
        Ok(Content::Unread) => Verdict::Tunnel,
        Ok(Content::Needed) => Verdict::Content,
    }
}

/// Whether the name in a tunnel's TLS greeting is the one that was asked for.
///
/// Behind one address many names are served, so a tunnel to an allowed name with
/// another one inside would reach that other. Where an address was asked for,
/// there may be no name, or any that is not denied.
pub fn judge_name(
    policy: &Policy,
    destination: &Destination,
    name: Option<&HostName>,
) -> Result<(), Reason> {
    match (&destination.host, name) {
        (Host::Name(wanted), Some(name)) if wanted == name => Ok(()),
        (Host::Name(_), Some(_)) => Err(Reason::NameMismatch),
        (Host::Name(_), None) => Err(Reason::NoName),
        (Host::Address(_), None) => Ok(()),
        (Host::Address(_), Some(name)) => {
            let host = Host::Name(name.clone());
            judge_denials(policy, &Destination { host, port: destination.port })
        }
    }
}

/// Returns true for a tunnel whose plain requests are read, although no rule needs their content:
/// one to a name, at the port of plain HTTP, under a list of what is allowed. What is said to the
/// server there must be for that name, as it must be in a greeting of TLS.
pub fn holds_hosts(policy: &Policy, destination: &Destination) -> bool {
    matches!(policy.reach, Reach::Allow(_))
        && matches!(destination.host, Host::Name(_))
        && destination.port == 80
}

/// Whether a request may be made. `target` is the path, with or without a query.
///
/// With a strict tape, everything may that is not denied: it is played, or
/// refused as not recorded, and never sent. With one that falls through, ask the
/// tape first: this tells whether what is not on it may be made.
pub fn judge_request(
    policy: &Policy,
    destination: &Destination,
    method: &str,
    target: &str,
) -> Result<(), Reason> {
    judge_denials(policy, destination)?;
    if matches!(policy.tape, Tape::Replay { miss: Miss::Strict, .. }) {
        return Ok(());
    }
    if reachable(&policy.reach, destination)? == Content::Unread {
        return Ok(());
    }
    let Reach::Allow(rules) = &policy.reach else { return Err(Reason::NotAllowed) };
    let path = target.split_once('?').map_or(target, |(path, _query)| path);
    let covers =
        |rule: &&Rule| rule.host.matches(&destination.host) && rule.covers_port(destination.port);
    let mut refused = Reason::Method;
    for rule in rules.iter().filter(covers) {
        if !rule.methods.is_empty() && !rule.methods.iter().any(|allowed| allowed == method) {
            continue;
        }
        // Of several rules, the one that came furthest tells what was wrong.
        refused = Reason::Path;
        let is_below = |prefix: &String| path::is_within(path, prefix);
        if rule.paths.is_empty() || (path::is_plain(path) && rule.paths.iter().any(is_below)) {
            return Ok(());
        }
    }
    Err(refused)
}

/// The last question before anything goes out: [`judge_request`], and no tape
/// that forbids it.
pub fn may_leave(
    policy: &Policy,
    destination: &Destination,
    method: &str,
    target: &str,
) -> Result<(), Reason> {
    if policy.tape.is_sealed() {
        return Err(Reason::NotRecorded);
    }
    judge_request(policy, destination, method, target)
}

/// What no rule can allow.
fn judge_denials(policy: &Policy, destination: &Destination) -> Result<(), Reason> {
    if is_own(destination) || is_metadata(&destination.host) {
        return Err(Reason::Private);
    }
    if let Host::Address(address) = destination.host
        && address::is_denied(address, policy)
    {
        return Err(Reason::DeniedBlock);
    }
    if policy.deny_hosts.iter().any(|pattern| matches_any_face(pattern, &destination.host)) {
        return Err(Reason::DeniedHost);
    }
    if destination.port == 0 {
        return Err(Reason::Port);
    }
    Ok(())
}

fn matches_any_face(pattern: &HostPattern, host: &Host) -> bool {
    match host {
        Host::Name(_) => pattern.matches(host),
        Host::Address(address) => {
            address::faces(*address).any(|face| pattern.matches(&Host::Address(face)))
        }
    }
}

fn is_own(destination: &Destination) -> bool {
    match &destination.host {
        Host::Name(name) => name
            .as_str()
            .strip_suffix(OWN_ZONE)
            .is_some_and(|front| front.is_empty() || front.ends_with('.')),
        Host::Address(address) => {
            destination.port == OWN_PORT && address::faces(*address).any(is_here)
        }
    }
}

fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

fn is_metadata(host: &Host) -> bool {
    matches!(host, Host::Name(name) if METADATA.contains(&name.as_str()))
}

/// Whether a rule's content has to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Unread,
    Needed,
}

fn reachable(reach: &Reach, destination: &Destination) -> Result<Content, Reason> {
    let rules = match reach {
        Reach::None => return Err(Reason::NoNetwork),
        Reach::Open => return Ok(Content::Unread),
        Reach::Allow(rules) => rules,
    };
    let mut found = Err(Reason::NotAllowed);
    for rule in rules.iter().filter(|rule| rule.host.matches(&destination.host)) {
        if !rule.covers_port(destination.port) {
            if found == Err(Reason::NotAllowed) {
                found = Err(Reason::Port);
            }
        } else if rule.needs_content() {
            found = Ok(Content::Needed);
        } else {
            return Ok(Content::Unread);
        }
    }
    found
}

#[cfg(test)]
mod tests;
