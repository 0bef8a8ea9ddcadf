//! `belljar runs cost`: what runs used.

use belljar_journal::{Directory, Journal as _, ListQuery, RunView};
use belljar_model::RunId;

use super::teller::{dollars, seconds};
use super::{TENANT, events};
use crate::output::{Hint as _, Printer};

/// Runs that are counted when none is named.
const NEWEST: usize = 100;

pub(super) async fn cost(
    journal: &Directory,
    runs: &[RunId],
    printer: &Printer,
) -> anyhow::Result<()> {
    let runs = match runs {
        [] => {
            let query = ListQuery { tenant: TENANT, state: None, after: None, most: NEWEST };
            let listed = journal.list(query).await.hint("cannot list runs")?;
            listed.rows.into_iter().map(|row| row.address.run).collect()
        }
        named => named.to_vec(),
    };
    let (mut documents, mut whole) = (Vec::new(), 0);
    for run in runs {
        let view = RunView::of(&events(journal, &run).await?);
        let spent = &view.spent;
        whole += spent.nano_dollars;
        if printer.is_json() {
            let tokens = spent.tokens;
            documents.push(serde_json::json!({
                "run": run, "model": view.model, "turns": view.turns, "calls": spent.calls,
                "tokens": tokens, "nano_dollars": spent.nano_dollars,
                "model_micros": spent.model_micros, "call_micros": spent.call_micros,
                "cpu_micros": spent.cpu_micros, "output_bytes": spent.output_bytes,
                "peak_bytes": spent.peak_bytes, "network_bytes": spent.network_bytes,
            }));
            continue;
        }
        printer.data(format_args!(
            "{run}  {:>9}  {:>3} turns  {:>9} tokens  model {}  CPU {}  {}",
            dollars(spent.nano_dollars),
            view.turns,
            spent.tokens.total(),
            seconds(spent.model_micros),
            seconds(spent.cpu_micros),
            view.model,
        ))?;
    }
    if printer.is_json() {
        return printer.document(&documents);
    }
    printer.data(format_args!("total {}", dollars(whole)))?;
    Ok(())
}
