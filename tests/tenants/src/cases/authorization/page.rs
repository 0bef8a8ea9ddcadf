//! The table as a page of the docs.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};

use super::table::{ALL, Cell};
use crate::routes::Sample;

/// Whether the page is written instead of compared.
pub(crate) static BLESS: AtomicBool = AtomicBool::new(false);

const HEAD: &str = "\
# Who may do what

Written by `just tenants API-08/platform --bless` from what a platform answered to every request below,
and compared on every run; do not edit. `yes`: it is done. A number: the status that it is refused with.
A key has one or more scopes; each column of a scope is a key that has only that one.

- `401`: no key, one that was never given out, has expired, or was revoked. Streams that it opened are cut within 2 s.
- `403`: the key lacks the scope. `404`: it belongs to somebody else, and is the same as what does not exist.
- Whoever has neither `sandboxes` nor `admin` sees no token of a sandbox or a volume: the fields are empty.
- The way into a sandbox (files, processes, ports) needs the sandbox's own token, or is open if it was made so; links
  that are signed, and links to upload with, are keys of their own. None of them is in this table.
- A sandbox's own token (`X-Access-Token`, without a key) also opens `calls`, `contexts` and `files` of that sandbox below
  `/v1`, by control and on its node; to everything else it is no key. It dies with the sandbox, not with a key.
- Besides that, nodes answer none of this to anybody but control.

";

pub(super) fn check(rows: &[(Sample, Vec<Cell>)]) -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/authorization.md");
    let page = page(rows)?;
    if BLESS.load(Ordering::Relaxed) {
        return std::fs::write(&path, page).context("cannot write the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(written == page, "docs/authorization.md says something else; --bless writes it");
    Ok(())
}

fn page(rows: &[(Sample, Vec<Cell>)]) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    let names: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
    writeln!(page, "| | {} |", names.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(names.len()))?;
    for (sample, cells) in rows {
        let cells = cells.iter().map(|cell| match cell {
            Cell::Yes => "yes".to_owned(),
            Cell::No(status) => status.to_string(),
        });
        let cells: Vec<_> = cells.collect();
        let path = super::pattern(sample);
        writeln!(page, "| `{} {path}` | {} |", sample.method, cells.join(" | "))?;
    }
    Ok(page)
}
