//! `belljar admin sandbox`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use belljar_domain::Tier;
use belljar_store::SandboxRow;
use serde_json::json;
use time::OffsetDateTime;

use super::table::Table;
use super::{Office, explained, stamp};
use crate::cli::SandboxAction;
use crate::output::hinted;

pub(super) async fn run(office: &Office, action: &SandboxAction) -> anyhow::Result<()> {
    let SandboxAction::List { node, tenant, limit } = action;
    let nodes = office.store.nodes().await.map_err(explained)?;
    if let Some(name) = node.as_deref().filter(|name| nodes.iter().all(|it| it.name != **name)) {
        let error = anyhow::anyhow!("there is no node `{name}`");
        return Err(hinted(error, "`belljar admin node list` shows them"));
    }
    if let Some(tenant) = tenant {
        office.store.tenant(tenant).await.map_err(explained)?;
    }
    let rows = office.store.all_sandboxes(node.as_deref(), tenant.as_deref(), *limit).await;
    let rows = rows.map_err(explained).context("cannot list the sandboxes")?;
    let names: BTreeMap<u16, String> =
        nodes.into_iter().map(|node| (node.number, node.name)).collect();
    let node_of = |row: &SandboxRow| row.node.and_then(|node| names.get(&node).cloned());
    if office.printer.is_json() {
        let document = rows.iter().map(|row| {
            json!({
                "id": row.id.as_str(), "tenant": row.tenant, "node": node_of(row),
                "state": row.state.as_str(), "tier": row.tier.map(Tier::as_str),
                "template": row.template, "made_at": stamp(row.made_at),
                "deadline_at": row.deadline_at.map(stamp),
            })
        });
        return office.printer.document(&document.collect::<Vec<_>>());
    }
    if rows.is_empty() {
        office.printer.note("no sandbox is running or paused");
        return Ok(());
    }
    let none = || "-".to_owned();
    let mut table =
        Table::new(["SANDBOX", "TENANT", "NODE", "STATE", "TIER", "AGE", "ENDS IN", "TEMPLATE"]);
    let now = OffsetDateTime::now_utc();
    for row in &rows {
        table.row([
            row.id.as_str().to_owned(),
            row.tenant.clone(),
            node_of(row).unwrap_or_else(none),
            row.state.as_str().to_owned(),
            row.tier.map_or_else(none, |tier| tier.as_str().to_owned()),
            span(now - row.made_at),
            row.deadline_at.map_or_else(none, |deadline| span(deadline - now)),
            row.template.clone(),
        ]);
    }
    office.printer.data(table)?;
    if rows.len() == usize::try_from(*limit)? {
        office.printer.note(format_args!("only the newest {limit}; -n shows more"));
    }
    Ok(())
}

/// A time in its largest unit; nothing that is over is shown as less than none.
fn span(time: time::Duration) -> String {
    match time.whole_seconds().max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_one_unit() {
        for (seconds, text) in [(-5, "0 s"), (90, "90 s"), (600, "10 min"), (9000, "2 h")] {
            assert_eq!(span(time::Duration::seconds(seconds)), text);
        }
    }
}
