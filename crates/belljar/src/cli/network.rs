//! What code may reach: the part of the command line that says so.

use std::path::PathBuf;

use belljar_domain::network::{CassetteId, HostPattern, Miss, Policy, Reach, Rule, Tape};
use clap::{Args, ValueEnum};

use crate::network::Terms;

#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// Network access of the code
    #[arg(long, value_enum, default_value = "none", value_name = "WHAT", help_heading = "Network")]
    pub(crate) network: Preset,
    /// Allow a host: NAME, *.NAME or an address, with :PORT if it is neither 80 nor 443; may be
    /// repeated
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_rule, help_heading = "Network")]
    pub(crate) allow: Vec<Rule>,
    /// Record every response on this cassette
    #[arg(long, value_name = "NAME", conflicts_with = "replay", help_heading = "Network")]
    pub(crate) record: Option<CassetteId>,
    /// Replay responses from this cassette, without network access
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub(crate) replay: Option<CassetteId>,
    /// With --replay: forward requests that are not on the cassette, if the policy allows them
    #[arg(long, requires = "replay", help_heading = "Network")]
    pub(crate) fallthrough: bool,
    /// Gateway operation that the code may use; may be repeated
    #[arg(long, value_name = "NAME", requires = "gateway", help_heading = "Network")]
    pub(crate) operation: Vec<String>,
    /// Gateway configuration file (TOML): operations, their credentials, and openings to private
    /// addresses
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) gateway: Option<PathBuf>,
    /// Write every connection and its call to this file as JSON lines; `-` is standard error
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) connections: Option<PathBuf>,
    /// Bounds of the token, set by the commands that have them.
    #[arg(skip)]
    pub(crate) terms: Terms,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Only the hosts that --allow names
    None,
    /// The package indexes that the template's pip, npm, cargo and apt are configured for
    Packages,
    /// All public addresses
    Open,
}

impl Network {
    /// Returns true if no option needs the gateway.
    pub(crate) fn is_none(&self) -> bool {
        self.network == Preset::None
            && self.allow.is_empty()
            && self.operation.is_empty()
            && self.record.is_none()
            && self.replay.is_none()
    }

    /// The policy, without the package indexes, which only the template knows.
    pub(crate) fn policy(&self) -> Policy {
        let reach = match self.network {
            Preset::Open => Reach::Open,
            Preset::None | Preset::Packages if self.allow.is_empty() => Reach::None,
            Preset::None | Preset::Packages => Reach::Allow(self.allow.clone()),
        };
        let miss = if self.fallthrough { Miss::Fallthrough } else { Miss::Strict };
        let tape = match (&self.record, &self.replay) {
            (Some(cassette), _) => Tape::Record { cassette: cassette.clone() },
            (None, Some(cassette)) => Tape::Replay { cassette: cassette.clone(), miss },
            (None, None) => Tape::Off,
        };
        Policy { reach, tape, ..Policy::default() }
    }
}

pub(super) fn parse_rule(text: &str) -> Result<Rule, String> {
    let (host, port) = match text.rsplit_once(':') {
        // A colon inside of brackets belongs to the address.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let host: HostPattern = host.parse().map_err(|error| format!("{error}"))?;
    let ports = port.map(parse_port).transpose()?.into_iter().collect();
    Ok(Rule { ports, ..Rule::of(host) })
}

fn parse_port(text: &str) -> Result<u16, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse().ok().filter(|&port: &u16| digits && port > 0);
    port.ok_or_else(|| "expected a port from 1 to 65535".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        for (text, ports) in [
            ("example.org", vec![]),
            ("example.org:8080", vec![8080]),
            ("*.example.org", vec![]),
            ("[2001:db8::1]", vec![]),
            ("[2001:db8::1]:444", vec![444]),
            ("192.0.2.0/24", vec![]),
        ] {
            assert_eq!(parse_rule(text).map(|rule| rule.ports), Ok(ports), "{text}");
        }
        for text in ["", "example.org:", "example.org:0", "example.org:+80", "a b", "1.2.3"] {
            assert!(parse_rule(text).is_err(), "{text}");
        }
    }
}
