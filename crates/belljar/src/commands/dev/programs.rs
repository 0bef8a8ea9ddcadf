//! What the platform is made of, found on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rustix::fs::{Access, access};

use crate::config::Config;
use crate::output::hinted;

/// Where Debian keeps each version of PostgreSQL, away from the search path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Where servers are, on hosts that keep them from other users' search paths.
const ALSO: [&str; 3] = ["/usr/local/bin", "/usr/local/sbin", "/usr/sbin"];

#[derive(Debug)]
pub(in crate::commands) struct Programs {
    pub(in crate::commands) initdb: PathBuf,
    pub(in crate::commands) postgres: PathBuf,
    pub(in crate::commands) nats: PathBuf,
    belljar: PathBuf,
}

impl Programs {
    pub(in crate::commands) fn find(config: &Config) -> anyhow::Result<Self> {
        let places = places(config);
        let postgres = [debian(Path::new(DEBIAN)), places.clone()].concat();
        // Of one place: versions must not be mixed.
        let home = postgres.iter().find(|dir| is_program(&dir.join("initdb")));
        let home = home.filter(|dir| is_program(&dir.join("postgres")));
        let home = home.ok_or_else(|| {
            let error = anyhow::anyhow!("PostgreSQL is not installed (initdb and postgres)");
            hinted(error, install("postgresql"))
        })?;
        let nats = places.iter().map(|dir| dir.join("nats-server")).find(|path| is_program(path));
        let nats = nats.ok_or_else(|| {
            hinted(anyhow::anyhow!("nats-server is not installed"), install("nats-server"))
        })?;
        Ok(Self {
            initdb: home.join("initdb"),
            postgres: home.join("postgres"),
            nats,
            belljar: std::env::current_exe().context("cannot find this executable")?,
        })
    }

    pub(in crate::commands) fn belljar(&self) -> Command {
        // What we are told by the environment, flags tell the children.
        let mut command = with_us(&self.belljar, "TERM");
        command.env_remove("BELLJAR_DATABASE");
        command
    }
}

/// A command that the kernel ends with this process, by this signal.
pub(in crate::commands) fn with_us(program: &Path, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--pdeathsig={signal}")).arg("--").arg(program);
    command
}

fn install(package: &str) -> String {
    format!(
        "on Debian: apt install {package}; elsewhere put it on the PATH. `belljar serve` needs \
         neither PostgreSQL nor NATS"
    )
}

fn places(config: &Config) -> Vec<PathBuf> {
    let path = config.environment.0.iter().find(|(name, _)| name == "PATH");
    let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
    std::env::split_paths(path).chain(ALSO.map(PathBuf::from)).collect()
}

/// The newest version first.
fn debian(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_debian_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["9", "15", "17", "common"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let found = debian(dir.path());
        assert_eq!(found, ["17", "15", "9"].map(|name| dir.path().join(name).join("bin")));
    }
}
