//! What every command that keeps sandboxes for others is told.

use std::path::PathBuf;
use std::time::Duration;

use belljar_actions::Ceiling;
use belljar_model::Tier;
use belljar_model::units::{parse_size, parse_time};
use clap::Args;

use super::{Observe, Preset, Sharing, parse_tier};

#[derive(Debug, Clone, Args)]
pub(crate) struct Hosting {
    /// Sandboxes that are kept waiting for each warm template, at least
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) pool: usize,
    /// Memory of the host that snapshots of all tenants may take [default: half of it]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) snapshot_memory: Option<u64>,
    /// What sandboxes are kept in when neither they nor their template say: jail, oci/crun,
    /// oci/runc, gvisor or microvm [default: jail]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) tier: Option<Tier>,
    /// The weakest tier that any sandbox may have, and any command of a template build; a
    /// tenant's own is in the key file [default: jail]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) floor: Option<Tier>,
    /// A tier that may be asked for, of several the preferred first; may be repeated
    /// [default: all that this host can run]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) offer: Vec<Tier>,
    /// The tier of commands in template builds: jail, oci/crun, oci/runc or gvisor; builds run no
    /// commands in microvm [default: as for sandboxes]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) build_tier: Option<Tier>,
    /// What sandboxes reach that ask for nothing: none, packages or open [default: none]
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Network")]
    pub(crate) network: Option<Preset>,
    /// The most that anybody may ask for: none, packages, allow or open [default: open]
    #[arg(long, value_name = "WHAT", help_heading = "Network")]
    pub(crate) network_most: Option<Ceiling>,
    /// The gateway's configuration: operations and their credentials, private addresses that may
    /// be reached (TOML)
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) gateway: Option<PathBuf>,
    /// Where the same is written: `tier`, `floor`, `tiers`, `build_tier`, `network`,
    /// `network_most` and `gateway` (TOML); flags win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How long requests may take to finish when the server is told to stop
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub(crate) grace: Duration,
    /// Where records, volumes and certificates are kept [env: BELLJAR_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) observe: Observe,
}
