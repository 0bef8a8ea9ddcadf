//! The network of a build's sandboxes: as much as the operator gives builds, through the gateway.
//!
//! Package managers find the gateway by variables and by files that are put into the sandbox.
//! Neither becomes a part of the template: its sandboxes get their own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use belljar_domain::SandboxId;
use belljar_domain::network::Decision;
use belljar_node::{NetworkNeed, NetworkSigns};

use crate::network::{Network, RowQuery, Rows};

/// Files of the gateway in a sandbox, which no template may have.
const GATEWAY_FILES: [&str; 2] = ["/etc/belljar/authorities.pem", "/etc/belljar/proxy.cjs"];
/// Their directory.
const GATEWAY_DIRECTORY: &str = "/etc/belljar";

/// The most denied hosts that a build's log names for one step.
const MAX_DENIED: usize = 20;

/// The way out of one sandbox of a build.
#[derive(Debug)]
pub(super) struct StepNetwork {
    pub(super) network: Network,
    /// Connections of the sandbox, for the build's log.
    pub(super) rows: Arc<Rows>,
    signs: NetworkSigns,
}

impl StepNetwork {
    pub(super) fn new(network: Network) -> Self {
        // No client asks for these rows by the id of the sandbox.
        let rows = Rows::in_memory(SandboxId::from_random([0; 16]));
        Self { network, rows: Arc::new(rows), signs: NetworkSigns::default() }
    }

    /// Reads along with the output of the command.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.signs.push(bytes);
    }

    /// Hosts that the command asked for in vain, with the reason, once each.
    pub(super) fn denied(&self) -> Vec<String> {
        let query =
            RowQuery { decision: Some(Decision::Denied), limit: usize::MAX, ..RowQuery::default() };
        let rows = self.rows.find(&query).unwrap_or_default();
        let line = |host: &dyn std::fmt::Display, reason: &str| format!("{host}: {reason}");
        let denied = rows.iter().filter_map(|row| {
            let reason = serde_json::to_value(row.reason).ok()?;
            let reason = reason.as_str()?;
            match (&row.host, &row.address) {
                (Some(host), _) => Some(line(host, reason)),
                (None, Some(address)) => Some(line(address, reason)),
                (None, None) => None,
            }
        });
        let once: BTreeSet<String> = denied.collect();
        once.into_iter().take(MAX_DENIED).collect()
    }

    /// Advice for a command that failed and seems to have needed a network that it had not.
    pub(super) fn hint(&self) -> Option<&'static str> {
        let need = self.signs.need().filter(|_| !self.network.needs_gateway())?;
        Some(match need {
            NetworkNeed::Packages => {
                "builds have no network here; the operator opens package indexes to them with \
                 --build-network packages"
            }
            NetworkNeed::Hosts => {
                "builds have no network here; the operator gives them one with --build-network open"
            }
        })
    }

    /// Removes what was put into the writable layer for the way out. A file that the command has
    /// changed since stays: it is the template's now. Blocks.
    pub(super) fn remove_from(&self, upper: &Path) -> std::io::Result<()> {
        if !self.network.needs_gateway() {
            return Ok(());
        }
        for path in GATEWAY_FILES {
            planted::remove(upper, path, None)?;
        }
        planted::remove_directory(upper, GATEWAY_DIRECTORY)?;
        for (path, text) in &self.network.files {
            planted::remove(upper, path, Some(text.as_bytes()))?;
        }
        Ok(())
    }
}

/// Removing names from a directory in which hostile code wrote. No link is followed.
mod planted {
    use std::fs::File;
    use std::io::{self, Read as _};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, openat2, unlinkat};
    use rustix::io::Errno;

    /// Removes a file; with `content`, only a regular file with exactly these bytes.
    pub(super) fn remove(upper: &Path, path: &str, content: Option<&[u8]>) -> io::Result<()> {
        let Some((directory, name)) = parent(upper, path)? else { return Ok(()) };
        if let Some(content) = content
            && !has(&directory, name, content)?
        {
            return Ok(());
        }
        gone(unlinkat(&directory, name, AtFlags::empty()))
    }

    /// Removes a directory that is empty.
    pub(super) fn remove_directory(upper: &Path, path: &str) -> io::Result<()> {
        let Some((directory, name)) = parent(upper, path)? else { return Ok(()) };
        gone(unlinkat(&directory, name, AtFlags::REMOVEDIR))
    }

    fn parent<'a>(upper: &Path, path: &'a str) -> io::Result<Option<(OwnedFd, &'a str)>> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = directory.trim_start_matches('/');
        let root = rustix::fs::open(upper, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        if directory.is_empty() {
            return Ok(Some((root, name)));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat2(root, directory, flags, Mode::empty(), BENEATH) {
            Ok(found) => Ok(Some((found, name))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    const BENEATH: ResolveFlags =
        ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

    fn has(directory: &OwnedFd, name: &str, content: &[u8]) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat2(directory, name, flags, Mode::empty(), BENEATH) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        };
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        let mut found = Vec::new();
        let most = u64::try_from(content.len()).unwrap_or(u64::MAX).saturating_add(1);
        file.take(most).read_to_end(&mut found)?;
        Ok(found == content)
    }

    /// Ignores names that are gone, or are something else now.
    fn gone(removed: Result<(), Errno>) -> io::Result<()> {
        match removed {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn connected(file: &str, text: &str) -> StepNetwork {
        let mut network = Network::default();
        network.operations.push("llm".to_owned());
        network.files.insert(file.to_owned(), text.to_owned());
        StepNetwork::new(network)
    }

    #[test]
    fn files_of_the_gateway_do_not_get_into_a_template() {
        let upper = tempfile::tempdir().unwrap();
        let at = |path: &str| upper.path().join(path);
        fs::create_dir_all(at("etc/belljar")).unwrap();
        fs::create_dir_all(at("home/user/.cargo")).unwrap();
        for path in ["etc/belljar/authorities.pem", "etc/belljar/proxy.cjs", "etc/kept"] {
            fs::write(at(path), "x").unwrap();
        }
        fs::write(at("home/user/.cargo/config.toml"), "told").unwrap();
        connected("/home/user/.cargo/config.toml", "told").remove_from(upper.path()).unwrap();
        assert!(!at("etc/belljar").exists() && at("etc/kept").exists());
        assert!(!at("home/user/.cargo/config.toml").exists());
    }

    #[test]
    fn a_file_that_the_command_changed_stays() {
        let upper = tempfile::tempdir().unwrap();
        let path = upper.path().join("pip.conf");
        for text in ["other", "told and more", ""] {
            fs::write(&path, text).unwrap();
            connected("/pip.conf", "told").remove_from(upper.path()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn links_of_the_command_lead_nowhere() {
        let (upper, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("authorities.pem");
        fs::write(&victim, "told").unwrap();
        fs::create_dir(upper.path().join("etc")).unwrap();
        symlink(outside.path(), upper.path().join("etc/belljar")).unwrap();
        symlink(&victim, upper.path().join("pip.conf")).unwrap();
        connected("/pip.conf", "told").remove_from(upper.path()).unwrap();
        assert!(victim.exists());
    }
}
