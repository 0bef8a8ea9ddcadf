//! The options of `belljar serve` and `belljar node`, which run sandboxes for clients.

use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::units::{parse_size, parse_time};
use belljar_domain::{SecurityProfile, Tier};
use belljar_sandboxes::Ceiling;
use clap::Args;

use super::{Observe, Preset, Sharing, parse_cores, parse_tier};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Hosting {
    /// Minimum number of pre-started sandboxes for each warm template
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) pool: usize,
    /// Host memory for the checkpoints of all tenants [default: half of the host's memory]
    #[arg(long = "checkpoint-memory", alias = "snapshot-memory", value_name = "SIZE")]
    #[arg(value_parser = parse_size)]
    pub(crate) snapshot_memory: Option<u64>,
    /// Create sandboxes even if this host cannot keep one of their limits
    #[arg(long)]
    pub(crate) allow_weak_limits: bool,
    /// Default tier of sandboxes: jail, oci/crun, oci/runc, gvisor or microvm. Requests and
    /// templates can choose another [default: jail]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) tier: Option<Tier>,
    /// Floor: the weakest tier for sandboxes and commands of template builds; a tenant can have a
    /// stronger one [default: jail]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) floor: Option<Tier>,
    /// Tier that requests may choose, in order of preference; may be repeated [default: all that
    /// this host can run]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) offer: Vec<Tier>,
    /// Tier for commands of template builds: jail, oci/crun, oci/runc or gvisor; microvm is not
    /// available for builds [default: as for sandboxes]
    #[arg(long, value_name = "TIER", value_parser = parse_tier, help_heading = "Tiers")]
    pub(crate) build_tier: Option<Tier>,
    /// Maximum rights of root in a sandbox: strict or full. Clients of E2B's API and template builds
    /// get these; clients of /v1 get strict unless they ask for more [default: full]
    #[arg(long, value_name = "PROFILE", help_heading = "Tiers")]
    pub(crate) max_profile: Option<SecurityProfile>,
    /// Maximum memory that a client may choose for a sandbox, or for a template that it builds; no
    /// more than the host has [default: 8G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) max_memory: Option<u64>,
    /// Maximum CPU cores, such as 0.5 [default: 8]
    #[arg(long, value_name = "CORES", value_parser = parse_cores, help_heading = "Limits")]
    pub(crate) max_cpus: Option<u32>,
    /// Maximum size of the writable disk [default: 8G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    pub(crate) max_disk: Option<u64>,
    /// Maximum number of processes and threads [default: 1024]
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    pub(crate) max_pids: Option<u32>,
    /// Default network access: none, packages or open [default: none]
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Network")]
    pub(crate) network: Option<Preset>,
    /// Network access of commands of template builds: none, packages or open [default: as
    /// --network]
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Network")]
    pub(crate) build_network: Option<Preset>,
    /// Maximum network access that a client may request: none, packages, allow or open [default:
    /// open]
    #[arg(long = "max-network", alias = "network-most", value_name = "WHAT")]
    #[arg(help_heading = "Network")]
    pub(crate) network_most: Option<Ceiling>,
    /// Gateway configuration file (TOML): operations, their credentials, and openings to private
    /// addresses
    #[arg(long, value_name = "FILE", help_heading = "Network")]
    pub(crate) gateway: Option<PathBuf>,
    /// Configuration file (TOML) with `tier`, `floor`, `tiers`, `build_tier`, `max_profile`,
    /// `max_memory`, `max_cpus`, `max_disk`, `max_pids`, `network`, `build_network`,
    /// `network_most`, `gateway` and, for `serve`, `console`; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Time for requests in progress to finish at shutdown
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub(crate) grace: Duration,
    /// Directory for records, volumes and certificates [env: BELLJAR_DATA]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    #[command(flatten)]
    pub(crate) observe: Observe,
}
