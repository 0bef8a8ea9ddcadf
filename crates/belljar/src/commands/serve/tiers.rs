//! What the operator says about tiers: flags, and a file.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use belljar_actions::{Actions, Tiers};
use belljar_model::Tier;
use serde::Deserialize;

use crate::cli::Serve;
use crate::output::{Hint as _, Printer};

/// The file of `--config`. A key that is not known is refused: a misspelled floor
/// must not be none.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tier: Option<Tier>,
    floor: Option<Tier>,
    tiers: Option<Vec<Tier>>,
}

/// A flag wins over the file, the file over the default.
pub(super) fn read(options: &Serve) -> anyhow::Result<Tiers> {
    let file = options.config.as_deref().map(load).transpose()?.unwrap_or_default();
    let offer = (!options.offer.is_empty()).then(|| options.offer.clone());
    let said = File {
        tier: options.tier.or(file.tier),
        floor: options.floor.or(file.floor),
        tiers: offer.or(file.tiers),
    };
    check(said)
}

/// A server whose every sandbox would be refused need not start. What sandboxes
/// and templates name besides is looked at when they are made.
pub(super) async fn try_default(actions: &Actions, printer: &Printer) -> anyhow::Result<()> {
    let Tier::Oci(runtime) = actions.config().tiers.default_tier() else { return Ok(()) };
    let found = actions.node().engine().runtime(runtime).await;
    let found = found.hint("`belljar doctor` says what this host can run")?;
    if let Some(flaw) = found.forgiven {
        printer.always(format_args!("WARNING: {flaw}"));
    }
    Ok(())
}

fn load(path: &Path) -> anyhow::Result<File> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read `{}`", path.display()))?;
    let file = toml::from_str(&text);
    file.with_context(|| format!("`{}` is not valid", path.display()))
        .hint("it may have `tier`, `floor` and `tiers`, such as floor = \"gvisor\"")
}

fn check(said: File) -> anyhow::Result<Tiers> {
    let (tier, floor) = (said.tier.unwrap_or(Tier::Jail), said.floor.unwrap_or(Tier::Jail));
    Tiers::new(tier, floor, said.tiers).hint("see the flags --tier, --floor and --offer")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn serve(flags: &[&str]) -> Serve {
        let line = ["belljar", "serve"].iter().chain(flags);
        let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
        serve
    }

    fn tiers(tier: Tier, floor: Tier, offered: Option<Vec<Tier>>) -> Tiers {
        Tiers::new(tier, floor, offered).unwrap()
    }

    #[test]
    fn a_flag_wins_over_the_file_and_that_over_the_default() {
        assert_eq!(read(&serve(&[])).unwrap(), Tiers::default());
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = "tier = \"gvisor\"\nfloor = \"jail\"\ntiers = [\"gvisor\", \"microvm\"]\n";
        fs::write(file.path(), said).unwrap();
        let config = ["--config", file.path().to_str().unwrap()];
        let offered = Some(vec![Tier::GVISOR, Tier::Microvm]);
        let want = tiers(Tier::GVISOR, Tier::Jail, offered.clone());
        assert_eq!(read(&serve(&config)).unwrap(), want);
        let flags = [&config[..], &["--tier", "microvm", "--floor", "gvisor"]].concat();
        let want = tiers(Tier::Microvm, Tier::GVISOR, offered);
        assert_eq!(read(&serve(&flags)).unwrap(), want);
        let flags = ["--offer", "jail", "--offer", "gvisor"];
        let want = tiers(Tier::Jail, Tier::Jail, Some(vec![Tier::Jail, Tier::GVISOR]));
        assert_eq!(read(&serve(&flags)).unwrap(), want);
    }

    #[test]
    fn a_key_that_nobody_knows_and_a_tier_that_there_is_not_are_refused() {
        for text in ["flor = \"gvisor\"", "floor = \"strong\"", "tier = \"process\""] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            let read = read(&serve(&["--config", file.path().to_str().unwrap()]));
            assert!(read.is_err(), "{text}");
        }
    }
}
