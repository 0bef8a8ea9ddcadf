//! Prints how large the guest is: it is mapped into every sandbox.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

const NAME: &str = "belljar-guest";

pub(crate) fn print(target: &Path) -> Result<()> {
    let mut found = Vec::new();
    let mut folders = vec![target.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {folder:?}"))?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name();
            if kind.is_dir() {
                if !["deps", "incremental", ".fingerprint"].iter().any(|skip| name == *skip) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && name == NAME {
                found.push((entry.path(), entry.metadata()?.len()));
            }
        }
    }
    if found.is_empty() {
        bail!(
            "there is no {NAME} below {}; build it with `cargo build --release`",
            target.display()
        );
    }
    found.sort();
    for (path, bytes) in found {
        println!("{bytes:>10} bytes  {}", path.strip_prefix(target).unwrap_or(&path).display());
    }
    Ok(())
}
