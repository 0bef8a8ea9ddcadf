//! Files that an image or an archive could bring along: setuid programs,
//! programs with capabilities, device nodes, links in `/`.
//!
//! Sandboxes get them both as a layer and as a bind, since the two reach a
//! sandbox through different mounts. Links are a layer alone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use belljar_domain::{Bind, Owners, Spec};
use tempfile::TempDir;

use crate::harness::programs::Programs;

#[derive(Debug)]
pub(crate) struct Smuggled {
    dir: TempDir,
    links: TempDir,
}

/// What stands in a file that only its owner may read.
pub(crate) const ROOTS_OWN: &str = "for root of the host alone";

/// Links of a template in `/`, and where they lead.
const LINKS: [(&str, &str); 6] = [
    ("all", "/"),
    ("here", "."),
    ("kernel", "/proc"),
    ("kernel-too", "proc/self/.."),
    ("devices", "/dev"),
    ("settings", "/proc/self/comm"),
];

/// Where they are inside, by bind and by layer.
pub(crate) const PLACES: [&str; 2] = ["/smuggled-bind", "/smuggled"];

impl Smuggled {
    pub(crate) fn pack(programs: &Programs) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("belljar-smuggled-").tempdir()?;
        let goods = dir.path().join("smuggled");
        fs::create_dir(&goods)?;
        for open in [dir.path(), &goods] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o755))?;
        }
        copy(programs.path("krn/krn_19.c")?, &goods.join("setuid"), 0o4755)?;
        copy(programs.path("krn/krn_19.c")?, &goods.join("setgid"), 0o2755)?;
        copy(programs.path("krn/krn_20.c")?, &goods.join("capable"), 0o755)?;
        run(Command::new("setcap").arg("cap_net_raw+ep").arg(goods.join("capable")))?;
        run(Command::new("mknod")
            .args(["-m", "666"])
            .arg(goods.join("node"))
            .args(["c", "1", "3"]))?;
        // What only the host's root may read.
        fs::write(goods.join("secret"), ROOTS_OWN)?;
        fs::set_permissions(goods.join("secret"), fs::Permissions::from_mode(0o600))?;
        let links = tempfile::Builder::new().prefix("belljar-smuggled-").tempdir()?;
        fs::set_permissions(links.path(), fs::Permissions::from_mode(0o755))?;
        for (name, target) in LINKS {
            std::os::unix::fs::symlink(target, links.path().join(name))?;
        }
        Ok(Self { dir, links })
    }

    /// Gives a sandbox's template links in `/` that lead to the kernel's directories.
    pub(crate) fn link_in_root(&self, spec: &mut Spec) {
        spec.root.layers.insert(0, self.links.path().to_owned());
    }

    /// Brings them into a sandbox, by a bind whose files belong to its users: the most that
    /// they could do.
    pub(crate) fn add_to(&self, spec: &mut Spec) {
        self.add_owned_to(spec, Owners::Sandbox);
    }

    /// The same, with these owners of the bind's files.
    pub(crate) fn add_owned_to(&self, spec: &mut Spec, owners: Owners) {
        let source = self.dir.path().join("smuggled");
        spec.root.binds.push(Bind { source, target: PLACES[0].into(), owners });
        spec.root.layers.insert(0, self.dir.path().to_owned());
    }
}

fn copy(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    fs::copy(from, to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
