//! What a server is told at its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use belljar_domain::{MaxLimits, SecurityProfile};
use belljar_node::PoolSize;
use belljar_template::measure::Amount;

use crate::events::EventObserver;
use crate::network::Networks;
use crate::row_queue::RowQueue;
use crate::tier::Tiers;

/// Settings of the actions.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where records of sandboxes, volumes and the like are kept.
    pub state: PathBuf,
    /// What running engines share; `None`: the engine's own choice.
    pub engine_state: Option<PathBuf>,
    /// Templates.
    pub store: PathBuf,
    /// Other names of templates: the first that is built counts.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Whether there is a template `host`, of the machine's own programs. Whoever
    /// makes a sandbox of it sees what any user of the machine can read in `/usr`.
    pub offers_host: bool,
    /// Makes sandboxes whose limits this host cannot keep.
    pub allow_weak_limits: bool,
    /// How many sandboxes of a warm template wait.
    pub pool: PoolSize,
    pub quota: Quota,
    /// Memory that snapshots of all tenants may take; `None`: half of the host's.
    pub snapshot_memory: Option<u64>,
    /// Warm a template up on demand, for its first sandbox. False in a process that makes only one
    /// sandbox: the warm-up takes longer than that sandbox gains.
    pub warms_on_demand: bool,
    /// Templates that have an image's name: those of E2B. Any other image cannot be used. Tags
    /// are not looked at.
    pub images: BTreeMap<String, String>,
    pub builds: BuildLimits,
    /// What sandboxes are kept in.
    pub tiers: Tiers,
    /// The most rights that root may have in one. Clients of E2B's API get these; others have
    /// to ask.
    pub max_profile: SecurityProfile,
    /// The largest limits that a client may choose, for a sandbox or for a template that it
    /// builds.
    pub max_limits: MaxLimits,
    /// What they may reach.
    pub networks: Networks,
    /// Under which name this server is reached, for hosts like `8080-<id>.<domain>`.
    pub domain: Option<String>,
    /// Where tenants reach the inside of this node's sandboxes themselves, without
    /// control; `None`: nobody is told of such a way.
    pub direct: Option<String>,
    /// Where nodes share what tenants have built; `None`: this one shares nothing.
    pub objects: Option<belljar_objects::Place>,
    /// Datasets that sandboxes can be shown; `None`: there are none. Who knows the
    /// digest of one gets it, so this is for a server that one tenant has alone.
    pub shelf: Option<belljar_objects::Shelf>,
    /// Where tenants keep files for runs. A sandbox can mount those of its tenant: each is
    /// fetched once, to a shelf of this tenant on this host. `None`: there are none.
    pub datasets: Option<belljar_objects::Place>,
    /// The queue for rows of calls and connections; `None`: they are not kept.
    pub rows: Option<RowQueue>,
    /// Called with every event of a sandbox, those of the start included.
    pub event_observer: EventObserver,
    /// Whether this is a node of a platform: control decides what is made here.
    pub is_member: bool,
    /// Sandboxes that there can be at once, of all tenants together.
    pub slots: Option<usize>,
}

/// What one tenant may have at once.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Running and paused.
    pub sandboxes: usize,
    pub longest_life: Duration,
    pub snapshots: usize,
    /// Of all snapshots, in memory and on disk.
    pub snapshot_bytes: u64,
    pub volumes: usize,
    /// Of one volume.
    pub volume_bytes: u64,
    /// Templates that were built through the API.
    pub templates: usize,
}

/// Bounds of template builds.
#[derive(Debug, Clone, Copy)]
pub struct BuildLimits {
    /// Builds that run at the same time; others wait for their turn.
    pub at_once: usize,
    /// Builds that one tenant may have running or waiting.
    pub per_tenant: usize,
    pub step: Duration,
    pub whole: Duration,
    /// What one step may write.
    pub written: Amount,
    /// Free space of the store's file system below which steps are stopped.
    pub spare_bytes: u64,
    /// How a step is kept to what it may write.
    pub disks: BuildDisks,
    /// One uploaded archive, and all that are kept for a tenant.
    pub upload_bytes: u64,
    pub kept_bytes: u64,
    /// How long a sandbox waits for the command that its template starts with.
    pub ready: Duration,
}

/// How a step of a build is kept to what it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildDisks {
    /// By a file system of that size, where the host can make one (root, loop devices,
    /// `mkfs.ext4`); else by a watch.
    Sized,
    /// By looking at its directory now and then. Files without a name are seen by the
    /// space that is left alone.
    Watched,
}

impl Default for BuildLimits {
    fn default() -> Self {
        Self {
            at_once: 2,
            per_tenant: 20,
            step: Duration::from_secs(600),
            whole: Duration::from_secs(1800),
            written: Amount { bytes: 4 << 30, entries: 500_000 },
            spare_bytes: 1 << 30,
            disks: BuildDisks::Sized,
            upload_bytes: 1 << 30,
            kept_bytes: 4 << 30,
            ready: Duration::from_secs(20),
        }
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            sandboxes: 1000,
            longest_life: Duration::from_secs(24 * 3600),
            snapshots: 100,
            snapshot_bytes: 16 << 30,
            volumes: 100,
            volume_bytes: 10 << 30,
            templates: 100,
        }
    }
}

impl Config {
    pub fn new(state: PathBuf, store: PathBuf) -> Self {
        let to = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let data = ["code-interpreter", "python-data"];
        let aliases = [("base", to(&data)), ("code-interpreter-v1", to(&data))];
        let images = [("e2bdev/base", "base"), ("e2bdev/code-interpreter", "code-interpreter-v1")];
        Self {
            state,
            engine_state: None,
            store,
            aliases: aliases.map(|(name, to)| (name.to_owned(), to)).into(),
            offers_host: false,
            allow_weak_limits: false,
            pool: PoolSize { least: 4, most: 128, rate: 100 },
            quota: Quota::default(),
            snapshot_memory: None,
            warms_on_demand: true,
            images: images.map(|(image, to)| (image.to_owned(), to.to_owned())).into(),
            builds: BuildLimits::default(),
            tiers: Tiers::default(),
            max_profile: SecurityProfile::Full,
            max_limits: MaxLimits::default(),
            networks: Networks::default(),
            domain: None,
            direct: None,
            objects: None,
            shelf: None,
            datasets: None,
            rows: None,
            event_observer: EventObserver::default(),
            is_member: false,
            slots: None,
        }
    }
}
