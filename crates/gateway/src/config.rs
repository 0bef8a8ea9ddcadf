//! The gateway's settings: one TOML file, read again when it changes.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_domain::network::Block;
use belljar_domain::{BudgetOwner, KnownBudgets};
use belljar_egress::Opening;
use serde::Deserialize;

use crate::budget::Limit;
use crate::charge_log::Durability;
use crate::{operations, room};

/// Longer than a pause of a client that still reads.
const USUAL_WRITE_PATIENCE: Duration = Duration::from_secs(300);
const MAX_WRITE_SECONDS: u64 = 86_400;

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
    /// The memory that bodies of one sandbox's requests may take.
    sandbox_body_bytes: Option<u64>,
    /// A client that takes no byte of an answer for so long is cut off.
    write_seconds: Option<u64>,
}

impl Settings {
    pub(crate) fn sandbox_body_bytes(&self) -> u64 {
        let bytes = self.sandbox_body_bytes.unwrap_or(room::USUAL_SHARE_BYTES);
        bytes.clamp(room::MIN_SHARE_BYTES, room::ROOM_BYTES)
    }

    pub(crate) fn write_patience(&self) -> Duration {
        self.write_seconds.map_or(USUAL_WRITE_PATIENCE, |seconds| {
            Duration::from_secs(seconds.clamp(1, MAX_WRITE_SECONDS))
        })
    }
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

    /// The budgets of its operations, as gateways with these settings share them.
    pub fn known_budgets(&self) -> KnownBudgets {
        let mut known = KnownBudgets::default();
        for (name, operation) in &self.operations {
            let budgets = [
                (BudgetOwner::AllTenants, operation.budget),
                (BudgetOwner::EachTenant, operation.tenant_budget),
            ];
            for (owner, budget) in budgets {
                let shared = budget.map(|budget| Limit::from(budget).shared(name.as_str()));
                for (name, every_seconds, limit) in shared.into_iter().flatten() {
                    known.add(name, owner, every_seconds, limit);
                }
            }
        }
        known
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
    use belljar_domain::budget::BudgetKey;

    use super::*;

    #[test]
    fn budgets_are_known_under_the_keys_that_gateways_ask_with() {
        let text = "[operations.llm]\nkind = \"http\"\nupstream = \"https://a.example\"\n\
                    budget = { dollars = \"2\", requests_per_minute = 5, every_seconds = 60 }\n\
                    tenant_budget = { tokens = 9 }\n\
                    [operations.free]\nkind = \"http\"\nupstream = \"https://a.example\"\n";
        let known = Config::parse(text).unwrap().known_budgets();
        let of = |operation: &str, tenant: Option<&str>, every_seconds| {
            let (operation, tenant) = (operation.to_owned(), tenant.map(str::to_owned));
            known.limit_of(&BudgetKey { operation, tenant, every_seconds })
        };
        let dollars = of("llm", None, 60).unwrap();
        assert_eq!((dollars.nano_dollars, dollars.requests), (Some(2_000_000_000), None));
        assert_eq!(of("llm#minute", None, 60).unwrap().requests, Some(5));
        assert_eq!(of("llm", Some("ann"), 0).unwrap().tokens, Some(9));
        assert_eq!(of("llm", None, 61), None);
        assert_eq!(of("free", None, 0), None);
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(Config::parse("[gateway]\nopenings = [\"10.0.0.0/8\"]\n").is_ok());
        assert!(Config::parse("[gateway]\nopening = []\n").is_err());
        assert!(Config::parse("[gatewya]\n").is_err());
    }

    #[test]
    fn bounds_of_clients_have_bounds() {
        let read = |text: &str| {
            let settings = Config::parse(&format!("[gateway]\n{text}")).unwrap().gateway;
            (settings.sandbox_body_bytes() >> 20, settings.write_patience().as_secs())
        };
        assert_eq!(read(""), (256, 300));
        assert_eq!(read("sandbox_body_bytes = 67108864\nwrite_seconds = 5\n"), (64, 5));
        assert_eq!(read("sandbox_body_bytes = 0\nwrite_seconds = 0\n"), (32, 1));
        assert_eq!(read("sandbox_body_bytes = 9999999999\n").0, 1024);
    }
}
