//! The file of `--config`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belljar_domain::{SecurityProfile, Tier};
use serde::Deserialize;

use crate::cli::Hosting;
use crate::output::Hint as _;

/// A key that is not known is refused: a misspelled floor must not be none.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) tier: Option<Tier>,
    pub(super) floor: Option<Tier>,
    pub(super) tiers: Option<Vec<Tier>>,
    pub(super) build_tier: Option<Tier>,
    pub(super) max_profile: Option<SecurityProfile>,
    /// Sizes are texts, such as `"8G"`; CPU cores are a number.
    pub(super) max_memory: Option<String>,
    pub(super) max_cpus: Option<f64>,
    pub(super) max_disk: Option<String>,
    pub(super) max_pids: Option<u32>,
    pub(super) network: Option<String>,
    pub(super) build_network: Option<String>,
    pub(super) network_most: Option<String>,
    pub(super) gateway: Option<PathBuf>,
    /// Of `belljar serve` only: a node serves no console.
    pub(super) console: Option<bool>,
}

impl File {
    pub(crate) fn read(options: &Hosting) -> anyhow::Result<Self> {
        options.config.as_deref().map_or_else(|| Ok(Self::default()), load)
    }
}

fn load(path: &Path) -> anyhow::Result<File> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
    let file = toml::from_str(&text);
    file.with_context(|| format!("`{}` is not valid", path.display())).hint(
        "its keys are `tier`, `floor`, `tiers`, `build_tier`, `max_profile`, `max_memory`, \
         `max_cpus`, `max_disk`, `max_pids`, `network`, `build_network`, `network_most`, \
         `gateway` and `console`, such as floor = \"gvisor\"",
    )
}
