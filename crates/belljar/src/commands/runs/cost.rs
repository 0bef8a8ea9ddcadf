//! `belljar runs cost`: what runs used.

use belljar_domain::RunId;
use belljar_journal::{Directory, Journal as _, ListQuery, RunView};

use super::teller::{dollars, millis, seconds};
use super::{TENANT, events, short_ids};
use crate::output::{Hint as _, Printer, printable};
use crate::page::{Align, Grid, Page, separated};

/// Runs that are counted when none is named.
const NEWEST: usize = 100;

pub(super) async fn cost(
    journal: &Directory,
    runs: &[RunId],
    page: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let runs: Vec<RunId> = match runs {
        [] => {
            let query = ListQuery { tenant: TENANT, state: None, after: None, most: NEWEST };
            let listed = journal.list(query).await.hint("cannot list runs")?;
            listed.rows.into_iter().map(|row| row.address.run).collect()
        }
        named => named.to_vec(),
    };
    let (mut documents, mut whole) = (Vec::new(), 0);
    let mut grid = Grid::new(&[
        ("RUN", Align::Left),
        ("COST", Align::Right),
        ("TURNS", Align::Right),
        ("TOKENS", Align::Right),
        ("MODEL TIME", Align::Right),
        ("CPU", Align::Right),
        ("MODEL", Align::Left),
    ]);
    let ids = short_ids(&runs.iter().collect::<Vec<_>>());
    for (run, id) in runs.iter().zip(ids) {
        let view = RunView::of(&events(journal, run).await?);
        let spent = &view.spent;
        whole += spent.nano_dollars;
        if printer.is_json() {
            let tokens = spent.tokens;
            documents.push(serde_json::json!({
                "id": run, "run": run, "model": view.model, "turns": view.turns, "calls": spent.calls,
                "tokens": tokens, "nano_dollars": spent.nano_dollars,
                "model_ms": millis(spent.model_micros), "call_ms": millis(spent.call_micros),
                "cpu_ms": millis(spent.cpu_micros), "output_bytes": spent.output_bytes,
                "peak_memory_bytes": spent.peak_bytes, "network_bytes": spent.network_bytes,
            }));
            continue;
        }
        grid.row(vec![
            id,
            dollars(spent.nano_dollars),
            view.turns.to_string(),
            separated(spent.tokens.total()),
            seconds(spent.model_micros),
            seconds(spent.cpu_micros),
            printable(&view.model),
        ]);
    }
    if printer.is_json() {
        return printer.document(&documents);
    }
    let (width, has_colour) =
        page.map_or((None, false), |page| (Some(page.width), page.has_colour));
    if !runs.is_empty() {
        printer.data(grid.to_text(width, has_colour).trim_end())?;
    }
    printer.data(format_args!("total {}", dollars(whole)))?;
    Ok(())
}
