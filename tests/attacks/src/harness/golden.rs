//! Golden files: what was seen and agreed to once.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use crate::attack::Seen;

/// Compares `lines` with `golden/<name>`, or rewrites it.
pub(crate) fn compare(name: &str, lines: &[String], bless: bool) -> anyhow::Result<Seen> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if bless {
        fs::write(&path, lines.join("\n") + "\n")?;
    }
    let golden = fs::read_to_string(&path)
        .with_context(|| format!("golden/{name} is missing; --bless writes it"))?;
    let golden: Vec<&str> = golden.lines().collect();
    let more: Vec<_> = lines.iter().filter(|line| !golden.contains(&line.as_str())).collect();
    let fewer: Vec<_> = golden.iter().filter(|line| !lines.iter().any(|l| l == *line)).collect();
    if more.is_empty() && fewer.is_empty() {
        Ok(Seen::Held(format!("{} lines as in golden/{name}", lines.len())))
    } else {
        Ok(Seen::Breach(format!("golden/{name}: more {more:?}, fewer {fewer:?}")))
    }
}
