//! What a server is told at its start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use belljar_node::PoolSize;

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
    /// How many sandboxes of a warm template wait.
    pub pool: PoolSize,
    pub quota: Quota,
    /// Under which name this server is reached, for hosts like `8080-<id>.<domain>`.
    pub domain: Option<String>,
}

/// What one tenant may have at once.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Running and paused.
    pub sandboxes: usize,
    pub longest_life: Duration,
    pub snapshots: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self { sandboxes: 1000, longest_life: Duration::from_secs(24 * 3600), snapshots: 100 }
    }
}

impl Config {
    pub fn new(state: PathBuf, store: PathBuf) -> Self {
        let to = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let data = ["code-interpreter", "python-data"];
        let aliases = [("base", to(&data)), ("code-interpreter-v1", to(&data))];
        Self {
            state,
            engine_state: None,
            store,
            aliases: aliases.map(|(name, to)| (name.to_owned(), to)).into(),
            pool: PoolSize { least: 4, most: 128, rate: 100 },
            quota: Quota::default(),
            domain: None,
        }
    }
}
