//! `belljar runs turn`: one turn of a run, of this machine or of a server.

use anyhow::{Context as _, anyhow};
use belljar_agent::Turn;
use belljar_journal::{Directory, RowDirectory};

use super::named;
use super::teller::{dollars, seconds};
use crate::cli::{RunName, RunsServer};
use crate::commands::ask;
use crate::config::Config;
use crate::output::{Hint as _, Printer, hinted, printable};

pub(super) async fn turn(
    journal: &Directory,
    rows: &RowDirectory,
    (run, number): (&RunName, u32),
    server: &RunsServer,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<()> {
    let turn = match &server.server {
        Some(url) => {
            let client = ask::dial(url, server.server_key.as_deref(), config)?;
            let turn = client.turn(run.as_str(), number).await;
            turn.context("cannot read the turn").hint("a server needs the whole id of a run")?
        }
        None => {
            let address = named(journal, run).await?;
            let found = belljar_agent::turn(journal, rows, &address, number).await;
            found.context("cannot read the turn")?.ok_or_else(|| {
                let error = anyhow!("the run has no turn {number}");
                hinted(error, "`belljar runs show` lists its turns")
            })?
        }
    };
    if printer.is_json() {
        return printer.document(&serde_json::to_value(&turn)?);
    }
    for line in lines(&turn) {
        printer.data(printable(&line))?;
    }
    Ok(())
}

fn lines(turn: &Turn) -> Vec<String> {
    let mut lines = vec![format!("turn {} of {}", turn.turn, turn.run)];
    for request in &turn.requests {
        let outcome = request.outcome.as_deref().unwrap_or("no answer yet");
        let (model, attempt) = (&request.model, request.attempt);
        lines.push(format!("model {model}, attempt {attempt}: {outcome}"));
    }
    lines.extend(turn.text.clone());
    for call in &turn.calls {
        lines.push(String::new());
        lines.push(format!("call {} ({})", call.call.as_deref().unwrap_or(&call.id), call.name));
        let code = ["code", "command"].into_iter().find_map(|name| call.input.get(name)?.as_str());
        lines.push(code.map_or_else(|| call.input.to_string(), str::to_owned));
        if let Some(end) = &call.end {
            lines.push(format!("ended: {} after {}", end.reason, seconds(end.ms * 1000)));
            lines.push(end.output.clone());
        }
        for change in &call.changes {
            let bytes = change.bytes.map(|bytes| format!(" ({bytes} B)")).unwrap_or_default();
            lines.push(format!("{} {}{bytes}", change.change, change.path));
        }
    }
    lines.push(String::new());
    for connection in &turn.connections {
        let decision = serde_json::to_value(connection.decision).unwrap_or_default();
        let host = connection.host.as_deref().or(connection.operation.as_deref()).unwrap_or("?");
        let port = connection.port.map(|port| format!(":{port}")).unwrap_or_default();
        let decision = decision.as_str().unwrap_or_default();
        lines.push(format!(
            "{decision} {host}{port} ({}), {} B out, {} B in",
            connection.reason, connection.bytes.out, connection.bytes.into
        ));
    }
    for file in &turn.files {
        lines.push(format!("file {} ({} B)", file.name, file.bytes));
    }
    let used = &turn.used;
    lines.push(format!(
        "{} tokens, {}, model {}, code {}, CPU {}",
        used.tokens,
        dollars(used.nano_dollars),
        seconds(used.model_ms * 1000),
        seconds(used.call_ms * 1000),
        seconds(used.cpu_ms * 1000),
    ));
    lines
}
