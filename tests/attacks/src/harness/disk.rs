//! Is a file in the page cache what it is on disk?

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Reads the file both ways. Attacks on the page cache change what everybody
/// reads without ever writing to the disk.
pub(crate) fn is_unchanged(path: &Path) -> anyhow::Result<()> {
    let cached = fs::read(path)?;
    let input = format!("if={}", path.display());
    let direct = Command::new("dd")
        .args([&*input, "iflag=direct", "bs=1M", "status=none"])
        .output()
        .context("cannot run dd")?;
    // Some file systems have no direct reads; there this check says nothing.
    if direct.status.success() && direct.stdout != cached {
        bail!("{} differs between page cache and disk", path.display());
    }
    Ok(())
}
