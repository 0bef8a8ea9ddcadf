//! The gateway's settings: one TOML file, read again when it changes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use belljar_egress::Opening;
use belljar_model::network::Block;
use serde::Deserialize;

use crate::charge_log::Durability;
use crate::operations;

/// What the operator decides. Secrets are named here, never written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub(crate) gateway: Settings,
    /// What sandboxes may ask the gateway to do for them, by name.
    pub(crate) operations: operations::Table,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Blocks that would be vetoed as private, and may be reached all the same,
    /// by those whose policy allows it.
    pub(crate) openings: Vec<Opened>,
    /// Name servers; none: those of the system.
    pub(crate) resolver: Vec<SocketAddr>,
    /// PEM files of authorities to trust for upstreams, beside the system's.
    pub(crate) trusted_roots: Vec<PathBuf>,
    /// Where cassettes are kept.
    pub(crate) cassettes: Option<PathBuf>,
    /// Where downloaded packages are kept.
    pub(crate) packages: Option<PathBuf>,
    /// The crashes that records of the charge log outlive.
    pub(crate) charge_log: Durability,
}

/// A block, or a block of which only some ports are meant. This host's own
/// addresses are opened only where the port is named.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Opened {
    Block(Block),
    Ports(Ports),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ports {
    block: Block,
    ports: Vec<u16>,
}

impl From<&Opened> for Opening {
    fn from(opened: &Opened) -> Self {
        match opened {
            Opened::Block(block) => Self { block: *block, ports: None },
            Opened::Ports(Ports { block, ports }) => {
                Self { block: *block, ports: Some(ports.clone()) }
            }
        }
    }
}

/// Why settings were not taken over.
#[derive(Debug, thiserror::Error)]
pub enum InvalidConfig {
    #[error("cannot read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("invalid gateway settings in `{path}`")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, InvalidConfig> {
        let text = fs::read_to_string(path)
            .map_err(|source| InvalidConfig::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|source| InvalidConfig::Parse { path: path.to_owned(), source })
    }

    /// Has what is kept, and has no place of its own, kept below `data`.
    pub(crate) fn keep_below(&mut self, data: &Path) {
        self.gateway.cassettes.get_or_insert_with(|| data.join("cassettes"));
        self.gateway.packages.get_or_insert_with(|| data.join("packages"));
    }

    pub fn parse(text: &str) -> Result<Self, Box<toml::de::Error>> {
        toml::from_str(text).map_err(Box::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused() {
        assert!(Config::parse("[gateway]\nopenings = [\"10.0.0.0/8\"]\n").is_ok());
        assert!(Config::parse("[gateway]\nopening = []\n").is_err());
        assert!(Config::parse("[gatewya]\n").is_err());
    }
}
