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
# Authorization: which key may call which route

`just tenants API-08/platform --bless` writes this page from the responses of a platform, and every run compares it. Do
not edit it. `yes`: the request succeeds. A number: the status that refuses it. A key has one or more scopes; the column
of a scope stands for a key with only that scope.

- `401`: the key is missing, unknown, expired or revoked. Its open streams are cut within 2 s.
- `403`: the key lacks the scope. `404`: the resource belongs to another tenant, or does not exist.
- A key with neither `sandboxes` nor `admin` sees no token of a sandbox or a volume: the fields are empty.
- A cap on operations of a tenant or of a key (`belljar admin tenant put --operations`, `key add --operations`) bounds
  which gateway operations `POST /v1/sandboxes`, `POST /v1/runs` and `POST /v1/sandboxes/{sandbox}/tokens` may name, for
  every scope: 422, `operation_not_allowed`. It also bounds which runs a key may retry and steer: all operations of the run
  and of its model must be allowed. A pause and a cancellation need none. `renew_seconds` of a token needs
  all operations of the sandbox.
- Files, processes and ports of a sandbox need the sandbox's own token, unless the sandbox is public. Signed links and
  upload links carry their own permission. They are not in this table.
- A sandbox's own token (`X-Access-Token`, without a key) also opens `calls`, `contexts` and `files` of that sandbox
  below `/v1`, by control and on its node, and nothing else. It expires when the sandbox ends, even if the API key was
  revoked earlier.
- The [console](console.md) is files without any tenant's data. Its pages get their data by these routes, with the key of
  their user.
- Nodes accept all other requests only from control.

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
