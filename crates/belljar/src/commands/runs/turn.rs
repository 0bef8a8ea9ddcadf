//! `belljar runs turn`: one turn of a run, of this machine or of a server.

use anyhow::{Context as _, anyhow};
use belljar_agent::Turn;
use belljar_journal::{Address, Directory, RowDirectory};

use super::teller::{dollars, seconds};
use crate::output::{Printer, hinted, printable};

pub(super) async fn turn(
    journal: &Directory,
    rows: &RowDirectory,
    run: &Address,
    number: u32,
    printer: &Printer,
) -> anyhow::Result<()> {
    let found = belljar_agent::turn(journal, rows, run, number).await;
    let turn = found.context("cannot read the turn")?.ok_or_else(|| {
        let error = anyhow!("the run has no turn {number}");
        hinted(error, "`belljar runs show` lists its turns")
    })?;
    print(&turn, printer)
}

pub(super) fn print(turn: &Turn, printer: &Printer) -> anyhow::Result<()> {
    if printer.is_json() {
        return printer.document(&serde_json::to_value(turn)?);
    }
    for line in lines(turn) {
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
