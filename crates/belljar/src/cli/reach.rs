//! The network access of a run: the part of the command line of `belljar ask` that says so.

use belljar_domain::network::{Policy, Reach, Rule};
use belljar_journal::event::NetworkAccess;
use clap::Args;

use super::Preset;
use super::network::parse_rule;

/// The network access of the run's code. A resumed run keeps its own.
#[derive(Debug, Clone, Args)]
pub(crate) struct Reaches {
    /// Network access of the code [default: none]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Network")]
    pub(crate) network: Option<Preset>,
    /// Allow a host: NAME, *.NAME or an address, with :PORT if it is neither 80 nor 443; may be
    /// repeated
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_rule, help_heading = "Network")]
    pub(crate) allow: Vec<Rule>,
    /// Gateway operations that the code may call, with commas between them; the model is told how
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Network")]
    pub(crate) operations: Vec<String>,
}

impl Reaches {
    /// As a run has it.
    pub(crate) fn access(&self) -> NetworkAccess {
        let reach = match self.network {
            Some(Preset::Open) => Reach::Open,
            None | Some(Preset::None | Preset::Packages) if self.allow.is_empty() => Reach::None,
            None | Some(Preset::None | Preset::Packages) => Reach::Allow(self.allow.clone()),
        };
        NetworkAccess {
            policy: Policy { reach, ..Policy::default() },
            packages: self.network == Some(Preset::Packages),
            operations: self.operations.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        reaches: Reaches,
    }

    fn access(words: &[&str]) -> NetworkAccess {
        Line::parse_from(["ask"].iter().chain(words)).reaches.access()
    }

    #[test]
    fn nothing_is_reached_unless_it_is_named() {
        assert!(access(&[]).is_default());
        assert!(access(&["--network", "none"]).is_default());
        assert!(access(&["--network", "packages"]).packages);
        assert_eq!(access(&["--network", "open"]).policy.reach, Reach::Open);
        let some = access(&["--allow", "a.example:8080", "--operations", "search,mail"]);
        assert!(matches!(&some.policy.reach, Reach::Allow(rules) if rules.len() == 1));
        assert_eq!(some.operations, ["search", "mail"]);
    }
}
