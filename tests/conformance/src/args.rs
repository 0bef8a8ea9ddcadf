//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use belljar_model::Tier;
use belljar_model::spec::UnknownTier;

#[derive(Debug, clap::Parser)]
#[command(about = "What every Belljar tier must do, as a black box")]
pub(crate) struct Args {
    /// The tier to test: jail, process or all
    #[arg(long, default_value = "all")]
    pub(crate) tier: Tiers,
    /// Run only cases whose name contains this
    pub(crate) filter: Option<String>,
    /// Print a Markdown table of tiers and cases at the end
    #[arg(long)]
    pub(crate) table: bool,
    /// Leave out contexts where the warm template is not built; for a desk,
    /// not for CI
    #[arg(long)]
    pub(crate) skip_without_template: bool,
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
    /// Measure files of 1 GiB in and out against `cp`
    #[arg(long)]
    transfer: bool,
    #[arg(long, hide = true)]
    victim: Option<PathBuf>,
    #[arg(long, hide = true)]
    sweeper: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiers {
    All,
    One(Tier),
}

impl FromStr for Tiers {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}

impl Tiers {
    /// The tiers to run, strongest first.
    pub(crate) fn list(self) -> Vec<Tier> {
        match self {
            Self::All => Tier::ALL.into_iter().rev().collect(),
            Self::One(tier) => vec![tier],
        }
    }

    /// The tier of the modes that look at one at a time.
    pub(crate) fn first(self) -> Tier {
        match self {
            Self::All => Tier::Jail,
            Self::One(tier) => tier,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Suite,
    Churn(usize),
    KillTest(usize),
    Transfer,
    /// Started by the kill test, to be killed. Holds the template store.
    Victim(PathBuf),
    /// Started by the kill test, as the next command would be.
    Sweeper,
}

impl Args {
    pub(crate) fn mode(&self) -> Mode {
        if let Some(store) = &self.victim {
            Mode::Victim(store.clone())
        } else if self.sweeper {
            Mode::Sweeper
        } else if let Some(count) = self.churn {
            Mode::Churn(count)
        } else if let Some(count) = self.kill_test {
            Mode::KillTest(count)
        } else if self.transfer {
            Mode::Transfer
        } else {
            Mode::Suite
        }
    }
}
