//! The layers that sandboxes share, as the host sees them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use belljar_template::Template;
use sha2::{Digest as _, Sha256};

/// Files that probes write to.
const FILES: [&str; 3] = ["usr/bin/env", "etc/passwd", "etc/os-release"];

/// What some shared files hold.
#[derive(Debug)]
pub(crate) struct Lower(Vec<(PathBuf, Vec<u8>)>);

impl Lower {
    pub(crate) fn look(template: &Template) -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for layer in &template.root.layers {
            let mut wanted: Vec<_> = FILES.iter().map(|file| layer.join(file)).collect();
            wanted.extend(numpy(layer));
            for path in wanted.into_iter().filter(|path| path.is_file()) {
                found.push((path.clone(), Sha256::digest(fs::read(&path)?).to_vec()));
            }
        }
        ensure!(found.len() >= 3, "only {} shared files were found", found.len());
        Ok(Self(found))
    }

    /// Fails if one has changed, in the page cache or on the disk.
    pub(crate) fn is_unchanged(&self) -> anyhow::Result<()> {
        for (path, before) in &self.0 {
            let cached = fs::read(path)?;
            ensure!(Sha256::digest(&cached)[..] == before[..], "{} changed", path.display());
            let input = format!("if={}", path.display());
            let direct = Command::new("dd")
                .args([&*input, "iflag=direct", "bs=1M", "status=none"])
                .output()
                .context("cannot run dd")?;
            // Some file systems have no direct reads; there this says nothing.
            let same = !direct.status.success() || direct.stdout == cached;
            ensure!(same, "{} differs between page cache and disk", path.display());
        }
        Ok(())
    }

    /// Whether a changed byte would be noticed.
    pub(crate) fn notices(&self) -> bool {
        self.0.iter().all(|(path, before)| {
            let mut bytes = fs::read(path).unwrap_or_default();
            bytes.push(b'x');
            Sha256::digest(&bytes)[..] != before[..]
        })
    }
}

/// A source file of numpy, wherever the layer has it.
fn numpy(layer: &std::path::Path) -> Option<PathBuf> {
    let roots = ["usr/local/lib", "usr/lib"].map(|root| layer.join(root));
    let pythons = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let packages = pythons
        .flat_map(|python| ["dist-packages", "site-packages"].map(|name| python.path().join(name)));
    packages.map(|packages| packages.join("numpy/version.py")).find(|path| path.is_file())
}
