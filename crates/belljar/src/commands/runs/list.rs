//! `belljar runs list`: newest first, and what came of each.

use anyhow::Context as _;
use belljar_domain::RunId;
use belljar_journal::event::{Body, Outcome};
use belljar_journal::{Directory, Journal as _, ListQuery, RunRow, State};
use serde::Serialize;
use time::format_description::well_known::Rfc3339;

use super::{TENANT, is_left, short_ids};
use crate::output::{Printer, printable};
use crate::page::{Align, Grid, Page};

#[derive(Debug, Serialize)]
struct Listed {
    id: RunId,
    #[serde(flatten)]
    row: RunRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

pub(super) async fn list(
    journal: &Directory,
    most: usize,
    page: Option<Page>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let query = ListQuery { tenant: TENANT, state: None, after: None, most };
    let found = journal.list(query).await.context("cannot list runs")?;
    let mut all = Vec::new();
    for row in found.rows {
        let id = row.address.run.clone();
        all.push(Listed { id, outcome: outcome(journal, &row).await?, row });
    }
    if printer.is_json() {
        return printer.document(&all);
    }
    if all.is_empty() {
        printer.note("there are no runs\nhint: `belljar ask` starts one");
        return Ok(());
    }
    let ids: Vec<_> = all.iter().map(|listed| &listed.row.address.run).collect();
    let mut grid = Grid::new(&[
        ("RUN", Align::Left),
        ("MADE", Align::Left),
        ("STATE", Align::Left),
        ("QUESTION", Align::Left),
    ]);
    for (Listed { row, outcome, .. }, id) in all.iter().zip(short_ids(&ids)) {
        let made = row.made_at.replace_nanosecond(0)?.format(&Rfc3339)?;
        let state = match outcome {
            Some(outcome) => outcome.as_str(),
            None if is_left(row) => "interrupted",
            None => row.state.as_str(),
        };
        let title = printable(&row.title).replace(['\n', '\t'], " ");
        grid.row(vec![id, made, state.to_owned(), title]);
    }
    let (width, has_colour) =
        page.map_or((None, false), |page| (Some(page.width), page.has_colour));
    Ok(printer.data(grid.to_text(width, has_colour).trim_end())?)
}

/// How a run ended: its last event says so.
async fn outcome(journal: &Directory, row: &RunRow) -> anyhow::Result<Option<Outcome>> {
    if row.state != State::Finished {
        return Ok(None);
    }
    let last = journal.read(&row.address, row.head, 1).await.context("cannot read a run")?;
    Ok(last.into_iter().find_map(|event| match event.body {
        Body::Finished(finished) => Some(finished.outcome),
        _ => None,
    }))
}
