//! `belljar runs stats`: how runs went, over many of them.

use std::collections::BTreeMap;

use anyhow::Context as _;
use belljar_agent::{Figures, Spread, Tally};
use belljar_journal::{Directory, Journal as _, ListQuery};

use super::teller::dollars;
use super::{TENANT, events};
use crate::output::Printer;

/// What is asked for at once.
const PAGE: usize = 200;

pub(super) async fn stats(
    journal: &Directory,
    most: usize,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut tally = Tally::default();
    let (mut after, mut left) = (None, most);
    loop {
        let query =
            ListQuery { tenant: TENANT, state: None, after: after.as_ref(), most: left.min(PAGE) };
        let listed = journal.list(query).await.context("cannot list runs")?;
        left -= listed.rows.len();
        for row in listed.rows {
            let run = row.address.run;
            let events = events(journal, &run).await?;
            tally.add(run, &events);
        }
        after = listed.next;
        if after.is_none() || left == 0 {
            break;
        }
    }
    let figures = tally.figures();
    if printer.is_json() {
        return printer.document(&document(&figures)?);
    }
    for (name, value) in lines(&figures) {
        printer.data(format_args!("{name:<26}{value}"))?;
    }
    for line in &figures.advice {
        printer.data(format_args!("{:<26}{line}", "advice"))?;
    }
    Ok(())
}

/// The figures with their time in milliseconds, as everywhere in `--json`.
fn document(figures: &Figures) -> anyhow::Result<serde_json::Value> {
    let mut document = serde_json::to_value(figures)?;
    if let Some(fields) = document.as_object_mut() {
        fields.remove("seconds");
        let millis = |spread: Spread| Spread {
            p50: spread.p50 * 1000.0,
            p95: spread.p95 * 1000.0,
            mean: spread.mean * 1000.0,
        };
        fields.insert("wall_ms".to_owned(), serde_json::to_value(figures.seconds.map(millis))?);
    }
    Ok(document)
}

fn lines(figures: &Figures) -> Vec<(&'static str, String)> {
    let outcomes: Vec<String> =
        figures.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let per_answer =
        figures.nano_dollars_per_answer.map(|nano| format!(", {} each", dollars(nano)));
    vec![
        ("runs", format!("{}, {} unfinished", figures.runs, figures.unfinished)),
        ("outcomes", listed(outcomes)),
        ("answered", percent(figures.success_share)),
        ("attempts per answer", figures.attempts_per_success.map_or_else(none, plain)),
        ("turns", figures.turns.map_or_else(none, |turns| spread(turns, ""))),
        ("time", figures.seconds.map_or_else(none, |time| spread(time, " s"))),
        ("cost", format!("{}{}", dollars(figures.nano_dollars), per_answer.unwrap_or_default())),
        ("tokens", figures.tokens.total().to_string()),
        ("prompt tokens cached", percent(figures.cached_token_share)),
        ("prompts sharing a prefix", percent(figures.shared_prefix_share)),
        ("calls", figures.calls.to_string()),
        ("calls truncated", percent(figures.cut_share)),
        ("failed calls", by_kind(&figures.faults)),
        ("failed runs", by_kind(&figures.errors)),
        ("guards", by_kind(&figures.guards)),
        ("runs with wrong dates", percent(figures.temporal_error_share)),
        ("runs with failed joins", percent(figures.join_error_share)),
        ("runs with refusals", percent(figures.refusal_share)),
        ("max concurrent runs", figures.most_at_once.to_string()),
    ]
}

fn none() -> String {
    "–".to_owned()
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn spread(spread: Spread, unit: &str) -> String {
    let Spread { p50, p95, mean } = spread;
    format!("p50 {}{unit}, p95 {}{unit}, mean {}{unit}", plain(p50), plain(p95), plain(mean))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(none, |share| format!("{:.1} %", share * 100.0))
}

fn by_kind(counts: &BTreeMap<String, u64>) -> String {
    listed(counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect())
}

fn listed(parts: Vec<String>) -> String {
    if parts.is_empty() { none() } else { parts.join(", ") }
}
