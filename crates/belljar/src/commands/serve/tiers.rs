//! What the operator says about tiers: flags, and a file.

use belljar_domain::Tier;
use belljar_sandboxes::{Actions, Tiers};

use super::file::File;
use crate::cli::Hosting;
use crate::output::{Hint as _, Printer};

/// A flag wins over the file, the file over the default.
pub(super) fn read(options: &Hosting, file: &File) -> anyhow::Result<Tiers> {
    let offer = (!options.offer.is_empty()).then(|| options.offer.clone());
    let tier = options.tier.or(file.tier).unwrap_or(Tier::Jail);
    let floor = options.floor.or(file.floor).unwrap_or(Tier::Jail);
    let builds = options.build_tier.or(file.build_tier);
    let tiers = Tiers::new(tier, floor, offer.or_else(|| file.tiers.clone()));
    let tiers = tiers.and_then(|tiers| tiers.with_builds(builds));
    tiers.hint("see the flags --tier, --floor, --offer and --build-tier")
}

/// A server whose every sandbox would be refused need not start. What sandboxes
/// and templates name besides is looked at when they are made.
pub(crate) async fn try_default(actions: &Actions, printer: &Printer) -> anyhow::Result<()> {
    let Tier::Oci(runtime) = actions.config().tiers.default_tier() else { return Ok(()) };
    let found = actions.node().engine().runtime(runtime).await;
    let found = found.hint("`belljar doctor` shows what this host can run")?;
    if let Some(flaw) = found.forgiven {
        printer.always(format_args!("WARNING: {flaw}"));
    }
    Ok(())
}

/// Has the node advertise only tiers that this host can run, and says which it leaves out.
pub(crate) async fn check_offered(actions: &Actions, printer: &Printer) {
    for (tier, error) in actions.check_tiers().await {
        let why = match error {
            belljar_engine::StartError::Unsupported { why, .. } => why,
            other => other.to_string(),
        };
        printer.note(format_args!("{tier} is not offered: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn serve(flags: &[&str]) -> Hosting {
        let line = ["belljar", "serve"].iter().chain(flags);
        let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
        serve.hosting
    }

    fn read(serve: &Hosting) -> anyhow::Result<Tiers> {
        super::read(serve, &File::read(serve)?)
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
        let want = Tiers::default().with_builds(Some(Tier::GVISOR)).unwrap();
        assert_eq!(read(&serve(&["--build-tier", "gvisor"])).unwrap(), want);
    }

    #[test]
    fn a_key_that_nobody_knows_and_a_tier_that_there_is_not_are_refused() {
        for text in [
            "flor = \"gvisor\"",
            "floor = \"strong\"",
            "tier = \"process\"",
            "build_tier = \"microvm\"",
            "floor = \"gvisor\"\nbuild_tier = \"jail\"",
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            let read = read(&serve(&["--config", file.path().to_str().unwrap()]));
            assert!(read.is_err(), "{text}");
        }
    }
}
