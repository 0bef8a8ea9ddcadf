//! What the operator says about the network: flags, and a file.

use anyhow::{Context as _, bail};
use belljar_domain::network::{Policy, Reach};
use belljar_sandboxes::{Actions, Ceiling, NetworkWish, Networks};
use clap::ValueEnum as _;

use super::file::File;
use crate::cli::{Hosting, Preset};
use crate::config::Config;
use crate::output::{Hint as _, hinted};

/// A flag wins over the file, the file over the default.
pub(super) fn read(options: &Hosting, file: &File, config: &Config) -> anyhow::Result<Networks> {
    let read = |key: &str, text: &str| {
        let preset = Preset::from_str(text, false);
        preset.map_err(|_| anyhow::anyhow!("{key}: `{text}` is not none, packages or open"))
    };
    let most = |text: &String| text.parse::<Ceiling>().context("network_most");
    let preset = match options.network {
        Some(preset) => preset,
        None => match &file.network {
            Some(text) => read("network", text)?,
            None => Preset::None,
        },
    };
    let builds = match (options.build_network, &file.build_network) {
        (Some(preset), _) => preset,
        (None, Some(text)) => read("build_network", text)?,
        (None, None) => preset,
    };
    let most = match options.network_most {
        Some(most) => most,
        None => file.network_most.as_ref().map(most).transpose()?.unwrap_or(Ceiling::Open),
    };
    let (default, builds) = (wish(preset), wish(builds));
    for (of, given) in [("the default network access", &default), ("that of builds", &builds)] {
        if given.height() > most {
            let (given, most) = (given.height().as_str(), most.as_str());
            let error = anyhow::anyhow!("{of}, `{given}`, exceeds the maximum `{most}`");
            bail!(hinted(error, "see the flags --network, --build-network and --max-network"));
        }
    }
    let gateway = options.gateway.clone().or_else(|| file.gateway.clone());
    let environment = config.environment.clone();
    Ok(Networks { gateway, default, builds, most, environment, budgets: None, charges: None })
}

fn wish(preset: Preset) -> NetworkWish {
    let reach = match preset {
        Preset::None | Preset::Packages => Reach::None,
        Preset::Open => Reach::Open,
    };
    let policy = Policy { reach, ..Policy::default() };
    NetworkWish { policy, packages: preset == Preset::Packages }
}

/// A server whose gateway cannot be started with what it was given need not start.
pub(crate) async fn try_gateway(actions: &Actions) -> anyhow::Result<()> {
    if actions.config().networks.gateway.is_none() {
        return Ok(());
    }
    let started = actions.start_gateway().await;
    started.hint("pass the gateway configuration with --gateway; docs/network.md has an example")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::path::PathBuf;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn networks(flags: &[&str]) -> anyhow::Result<Networks> {
        let line = ["belljar", "serve"].iter().chain(flags).map(OsString::from);
        let Command::Serve(serve) = Cli::parse_from(line).command else { panic!() };
        read(&serve.hosting, &File::read(&serve.hosting)?, &Config::read(None, None))
    }

    #[test]
    fn a_flag_wins_over_the_file_and_that_over_the_default() {
        let usual = networks(&[]).unwrap();
        assert_eq!((usual.default, usual.most), (NetworkWish::default(), Ceiling::Open));
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = "network = \"packages\"\nnetwork_most = \"allow\"\ngateway = \"/g.toml\"\n";
        fs::write(file.path(), said).unwrap();
        let config = ["--config", file.path().to_str().unwrap()];
        let read = networks(&config).unwrap();
        assert!(read.default.packages);
        assert_eq!((read.most, read.gateway), (Ceiling::Allow, Some(PathBuf::from("/g.toml"))));
        assert!(read.builds.packages);
        let flags = [&config[..], &["--network", "open", "--max-network", "open"]].concat();
        assert_eq!(networks(&flags).unwrap().default.height(), Ceiling::Open);
        let builds = networks(&["--build-network", "packages"]).unwrap();
        assert!(builds.builds.packages && !builds.default.packages);
    }

    #[test]
    fn a_default_that_nobody_may_have_is_refused() {
        assert!(networks(&["--network", "open", "--max-network", "allow"]).is_err());
        assert!(networks(&["--network", "packages", "--max-network", "none"]).is_err());
        assert!(networks(&["--build-network", "open", "--max-network", "packages"]).is_err());
        for text in ["network = \"some\"", "network_most = \"all\""] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), text).unwrap();
            assert!(networks(&["--config", file.path().to_str().unwrap()]).is_err(), "{text}");
        }
    }
}
