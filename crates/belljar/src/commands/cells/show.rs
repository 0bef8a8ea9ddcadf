//! What a cell shows: on a terminal, and as JSON lines.

use std::io::Write as _;

use belljar_node::{Bundle, CellEvent, Origin};
use serde_json::{Value, json};

use super::super::call;

/// Prints streams as they are, and results by their plain text.
pub(super) fn show(event: &CellEvent) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match event {
        CellEvent::Stdout(bytes) => out.write_all(bytes)?,
        CellEvent::Stderr(bytes) => std::io::stderr().lock().write_all(bytes)?,
        CellEvent::Display(display) => writeln!(out, "{}", plain(&display.data))?,
        CellEvent::Result { data, .. } => writeln!(out, "{}", plain(data))?,
        CellEvent::Error(error) => {
            let mut err = std::io::stderr().lock();
            writeln!(err, "{}", error.traceback.join("\n"))?;
        }
        CellEvent::End(_) => {}
    }
    Ok(out.flush()?)
}

fn plain(data: &Bundle) -> String {
    let text = data.get("text/plain").and_then(Value::as_str).map(str::to_owned);
    let kinds = || data.keys().cloned().collect::<Vec<_>>().join(", ");
    text.unwrap_or_else(|| format!("<{}>", kinds()))
}

/// One line of `--json`.
pub(super) fn as_json(event: &CellEvent, origin: Origin) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        CellEvent::Stdout(bytes) => json!({"stdout": text(bytes)}),
        CellEvent::Stderr(bytes) => json!({"stderr": text(bytes)}),
        CellEvent::Display(display) => json!({"display": display.data}),
        CellEvent::Result { data, .. } => json!({"result": data}),
        CellEvent::Error(error) => json!({
            "error": {"name": error.name, "value": error.value, "traceback": error.traceback}
        }),
        CellEvent::End(end) => json!({
            "end": end.reason.as_str(),
            "ok": end.ok,
            "count": end.count,
            "usage": call::usage(&end.usage),
            "state": "kept",
            "origin": origin.as_str(),
            "interpreter": origin.as_str(),
        }),
    }
}
