//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use belljar_domain::Tier;
use belljar_domain::spec::{Runtime, UnknownTier};

use crate::shards::Shard;
use crate::suite::Case;

#[derive(Debug, clap::Parser)]
#[command(about = "What every Belljar tier must do, as a black box")]
pub(crate) struct Args {
    /// The tiers to test, by name, or `all`. Without any: process and jail, and
    /// oci/crun and oci/runsc where the runtime is installed
    #[arg(long, value_name = "TIER", value_delimiter = ',')]
    tier: Vec<Choice>,
    /// Run only cases whose name contains this
    pub(crate) filter: Option<String>,
    /// Run only a fixed choice of cases, for tiers that are slow
    #[arg(long, value_name = "NAME")]
    pub(crate) subset: Option<Subset>,
    /// Keep what was seen, and write docs/tiers.md from what is kept of all tiers
    #[arg(long)]
    pub(crate) table: bool,
    /// Fail where what was seen is not what docs/tiers.md says
    #[arg(long, conflicts_with = "table")]
    pub(crate) check: bool,
    /// Leave out contexts where the warm template is not built; for a desk,
    /// not for CI
    #[arg(long)]
    pub(crate) skip_without_template: bool,
    /// How many processes share the cases of a tier
    #[arg(short, long, default_value_t = 1, value_name = "N")]
    pub(crate) jobs: usize,
    /// The part of the cases that this process runs
    #[arg(long, hide = true)]
    pub(crate) shard: Option<Shard>,
    /// Write the results here, for the process that has started this one
    #[arg(long, hide = true, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Make and end this many sandboxes and count what is left
    #[arg(long, value_name = "N")]
    churn: Option<usize>,
    /// How many sandboxes of --churn live at a time
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub(crate) parallel: usize,
    /// Kill an engine this many times and watch its sandboxes end
    #[arg(long, value_name = "N")]
    kill_test: Option<usize>,
    /// Chooses the moments of --kill-test
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Do random things to sandboxes of random tiers for this many seconds
    #[arg(long, value_name = "SECONDS")]
    fleet: Option<u64>,
    /// Move a random file in and out: fails unless it comes back the same, and shows how
    /// fast it went beside `cp`
    #[arg(long)]
    transfer: bool,
    /// The size of that file, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub(crate) transfer_size: u64,
    /// Also fail if --transfer is slower than this share of the speed of `cp`; for
    /// benchmarks on a host that does nothing else
    #[arg(long, value_name = "SHARE")]
    pub(crate) least_speed: Option<f64>,
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,
    #[arg(long, hide = true)]
    sweeper: bool,
    /// The state directory of engines that the kill test starts
    #[arg(long, hide = true)]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    All,
    One(Tier),
}

impl FromStr for Choice {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Subset {
    /// At least one case of each group
    Quick,
}

/// Whether a tier must run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It was asked for by name.
    Named,
    /// If this host can; else the reason is told.
    IfHere,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Suite,
    Churn(usize),
    KillTest(usize),
    Fleet(Duration),
    Transfer,
    /// Started by the kill test, to be killed. Holds the template store.
    Victim(PathBuf),
    /// Started by the kill test, as the next command would be.
    Sweeper,
}

impl Mode {
    /// The name in the case log of a mode that is one case by itself.
    pub(crate) fn single_case(&self) -> Option<&'static str> {
        match self {
            Self::Churn(_) => Some("churn"),
            Self::KillTest(_) => Some("kill-test"),
            Self::Fleet(_) => Some("fleet"),
            Self::Transfer => Some("transfer"),
            Self::Suite | Self::Victim(_) | Self::Sweeper => None,
        }
    }
}

impl Args {
    /// The tiers to run, in the order of the table.
    pub(crate) fn tiers(&self) -> Vec<(Tier, Wanted)> {
        let (crun, runsc) = (Tier::Oci(Runtime::Crun), Tier::GVISOR);
        let usual = |tier| match tier {
            Tier::Process | Tier::Jail => Some((tier, Wanted::Named)),
            tier if tier == crun || tier == runsc => Some((tier, Wanted::IfHere)),
            Tier::Oci(_) | Tier::Microvm => None,
        };
        let chosen = |tier| {
            let named = self.tier.contains(&Choice::One(tier)).then_some((tier, Wanted::Named));
            named.or(self.tier.contains(&Choice::All).then_some((tier, Wanted::IfHere)))
        };
        let pick = |tier| if self.tier.is_empty() { usual(tier) } else { chosen(tier) };
        Tier::ALL.into_iter().filter_map(pick).collect()
    }

    /// Returns true if the filter and the subset select this case.
    pub(crate) fn wants(&self, case: &Case) -> bool {
        self.filter.as_deref().is_none_or(|filter| case.full_name().contains(filter))
            && self.subset.is_none_or(|subset| subset.has(case))
    }

    /// The tier of the modes that look at one at a time.
    pub(crate) fn first(&self) -> Tier {
        let named = self.tier.iter().find_map(|choice| match choice {
            Choice::One(tier) => Some(*tier),
            Choice::All => None,
        });
        named.unwrap_or(Tier::Jail)
    }

    pub(crate) fn mode(&self) -> Mode {
        if let Some(store) = &self.victim {
            Mode::Victim(store.clone())
        } else if self.sweeper {
            Mode::Sweeper
        } else if let Some(count) = self.churn {
            Mode::Churn(count)
        } else if let Some(count) = self.kill_test {
            Mode::KillTest(count)
        } else if let Some(seconds) = self.fleet {
            Mode::Fleet(Duration::from_secs(seconds))
        } else if self.transfer {
            Mode::Transfer
        } else {
            Mode::Suite
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn tiers(line: &[&str]) -> Vec<(Tier, Wanted)> {
        let words = std::iter::once("conformance").chain(line.iter().copied());
        Args::try_parse_from(words).unwrap().tiers()
    }

    #[test]
    fn without_a_name_the_fast_tiers_run() {
        let (named, if_here) = (Wanted::Named, Wanted::IfHere);
        let crun = Tier::Oci(Runtime::Crun);
        let want = vec![
            (Tier::Process, named),
            (Tier::Jail, named),
            (crun, if_here),
            (Tier::GVISOR, if_here),
        ];
        assert_eq!(tiers(&[]), want);
    }

    #[test]
    fn a_tier_that_is_named_must_run() {
        assert_eq!(
            tiers(&["--tier", "gvisor,microvm"]),
            vec![(Tier::GVISOR, Wanted::Named), (Tier::Microvm, Wanted::Named)]
        );
        let all = tiers(&["--tier", "all", "--tier", "microvm"]);
        assert_eq!(all.len(), Tier::ALL.len());
        assert!(all.contains(&(Tier::Microvm, Wanted::Named)));
        assert!(all.contains(&(Tier::Jail, Wanted::IfHere)));
    }
}
