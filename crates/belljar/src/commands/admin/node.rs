//! `belljar admin node`.

use std::time::Duration;

use belljar_model::Tier;
use belljar_store::{Change, Node};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::table::Table;
use super::{Office, explained};
use crate::cli::NodeAction;
use crate::output::hinted;

/// Between two looks at what is still on a node.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn run(office: &Office, action: &NodeAction) -> anyhow::Result<u8> {
    match action {
        NodeAction::List => list(office).await,
        NodeAction::Drain { name, wait } => drain(office, name, *wait).await,
    }
}

async fn list(office: &Office) -> anyhow::Result<u8> {
    let nodes = office.store.nodes().await.map_err(explained)?;
    if office.printer.is_json() {
        let document = nodes.iter().map(|node| {
            json!({
                "name": node.name, "number": node.number, "epoch": node.epoch,
                "state": node.state.as_str(), "address": node.address, "slots": node.slots,
                "taken": node.taken, "tiers": tiers(node),
                "lease_left_seconds": node.lease_left.as_seconds_f64(),
            })
        });
        office.printer.document(&document.collect::<Vec<_>>())?;
        return Ok(0);
    }
    if nodes.is_empty() {
        office.printer.note("no node has come yet");
        office.printer.note("hint: `belljar node --help` shows how one is started");
        return Ok(0);
    }
    let mut table =
        Table::new(["NODE", "NO", "STATE", "TAKEN", "SLOTS", "LEASE", "ADDRESS", "TIERS"]);
    for node in nodes {
        table.row([
            node.name.clone(),
            node.number.to_string(),
            node.state.as_str().to_owned(),
            node.taken.to_string(),
            node.slots.to_string(),
            lease(node.lease_left),
            node.address.clone(),
            tiers(&node).join(","),
        ]);
    }
    office.printer.data(table)?;
    Ok(0)
}

fn tiers(node: &Node) -> Vec<&'static str> {
    node.tiers.iter().copied().map(Tier::as_str).collect()
}

fn lease(left: time::Duration) -> String {
    let seconds = left.as_seconds_f64();
    match seconds.abs() {
        whole if whole >= 3600.0 => format!("out for {:.0} h", whole / 3600.0),
        whole if whole >= 120.0 && seconds < 0.0 => format!("out for {:.0} min", whole / 60.0),
        whole if seconds < 0.0 => format!("out for {whole:.0} s"),
        whole => format!("{whole:.1} s left"),
    }
}

async fn drain(office: &Office, name: &str, wait: Option<Duration>) -> anyhow::Result<u8> {
    let unknown = || {
        let error = anyhow::anyhow!("there is no node `{name}`");
        hinted(error, "`belljar admin node list` shows them")
    };
    let change = office.store.drain_named(name).await.map_err(explained)?.ok_or_else(unknown)?;
    let said = match change {
        Change::Done => {
            office.wrote(None, "node.drain", name, &json!({})).await?;
            "takes nothing new"
        }
        Change::Already => "was draining before",
        Change::Stale => {
            let error = anyhow::anyhow!("node {name} is lost: it takes nothing, and has nothing");
            return Err(hinted(error, "start it again; it registers anew and is up then"));
        }
    };
    let began = Instant::now();
    let mut said_so = None;
    loop {
        let nodes = office.store.nodes().await.map_err(explained)?;
        let node = nodes.into_iter().find(|node| node.name == name).ok_or_else(unknown)?;
        let is_last = wait.is_none_or(|wait| began.elapsed() >= wait);
        if node.taken == 0 || is_last {
            let document = json!({
                "name": name, "state": node.state.as_str(), "taken": node.taken,
            });
            office.say(
                format_args!("node {name} {said}; {} sandboxes are on it", node.taken),
                &document,
            )?;
            // Asked to wait for nothing, and something is still there.
            return Ok(u8::from(wait.is_some() && node.taken > 0));
        }
        if said_so != Some(node.taken) {
            office.printer.note(format_args!("waiting: {} sandboxes are on it", node.taken));
            said_so = Some(node.taken);
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_says_how_long_it_is_out() {
        for (seconds, text) in [
            (4.25, "4.2 s left"),
            (-3.0, "out for 3 s"),
            (-300.0, "out for 5 min"),
            (-7200.0, "out for 2 h"),
        ] {
            assert_eq!(lease(time::Duration::seconds_f64(seconds)), text);
        }
    }
}
