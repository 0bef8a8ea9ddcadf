//! `belljar report`: the report of a run of this machine, or of a server.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;
use belljar_objects::Digest;
use serde_json::json;

use super::{brand, runs, server};
use crate::cli::{Open, Report};
use crate::config::Config;
use crate::output::{Hint as _, Printer};

/// The largest report that is taken from a server.
const MAX_REPORT_BYTES: usize = 64 << 20;

pub(crate) async fn run(
    options: &Report,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let (run, html) = match &options.server {
        Some(url) => {
            let client = server::client(url, options.server_key.as_deref(), config)?;
            let run = runs::named_at(&client, &options.run, printer).await?;
            let body = client.run_report(&run).await;
            let body = body.context("cannot get the report").hint(
                "a report is there when the run has ended; `belljar runs list --server URL` shows \
                 runs and their states",
            )?;
            (run, body.bytes(MAX_REPORT_BYTES).await.context("cannot get the report")?.to_vec())
        }
        None => {
            let brand = brand::read(options.brand.as_deref())?;
            let journal = runs::open(config)?;
            let run = runs::named(&journal, &options.run).await?;
            let report = belljar_agent::report(&journal, &run).await;
            let report = report.context("cannot make a report").hint(
                "`belljar runs list` shows runs and their states; `belljar ask --resume RUN` \
                 resumes one that has not ended",
            )?;
            (run.run.to_string(), belljar_report::render(&report, &brand).html.into_bytes())
        }
    };
    if options.out.as_deref() == Some(Path::new("-")) {
        std::io::stdout().write_all(&html).context("cannot write the report")?;
        return Ok(0);
    }
    let path = options.out.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("report-{}.html", &run[..8])));
    std::fs::write(&path, &html)
        .with_context(|| format!("cannot write `{}`", path.display()))
        .hint("choose another file with --out")?;
    if printer.is_json() {
        let sha256 = Digest::of(&html).to_string();
        let path = path.display().to_string();
        printer.document(
            &json!({ "run": run, "path": path, "bytes": html.len(), "sha256": sha256 }),
        )?;
    } else {
        printer.data(path.display())?;
    }
    if is_opened(options.open, printer) {
        open(&path, printer);
    }
    Ok(0)
}

fn is_opened(wish: Option<Open>, printer: &Printer) -> bool {
    let has_display = || {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
    };
    match wish {
        Some(wish) => wish == Open::Yes,
        None => !printer.is_json() && std::io::stdout().is_terminal() && has_display(),
    }
}

/// Asks the desktop to show a file. The report is written, so what fails here is only said.
fn open(path: &Path, printer: &Printer) {
    let mut opener = Command::new("xdg-open");
    opener.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match opener.status() {
        Ok(status) if status.success() => {}
        _ => printer.note(format_args!(
            "cannot open a browser\nhint: open `{}` in one yourself",
            path.display()
        )),
    }
}
