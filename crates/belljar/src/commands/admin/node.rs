//! `belljar admin node`.

use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::{NodeNumber, Tier};
use belljar_identity::EnrolmentToken;
use belljar_store::{Change, Node, NodeEnrolment, Store};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::authority::STARTED;
use super::table::Table;
use super::{Office, explained};
use crate::cli::NodeAction;
use crate::output::{Hint as _, hinted};

/// Between two looks at what is still on a node.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn run(office: &Office, action: &NodeAction) -> anyhow::Result<u8> {
    match action {
        NodeAction::List => list(office).await,
        NodeAction::Add { name, lives, replace } => add(office, name, *lives, *replace).await,
        NodeAction::Revoke { name } => revoke(office, name).await,
        NodeAction::Undrain { name } => undrain(office, name).await,
        NodeAction::Forget { name } => forget(office, name).await,
        NodeAction::Drain { name, wait } => drain(office, name, *wait).await,
    }
}

async fn add(office: &Office, name: &str, lives: Duration, replace: bool) -> anyhow::Result<u8> {
    let added = office.store.add_node(name).await.map_err(explained)?;
    if added.is_enrolled && !replace {
        let error = anyhow::anyhow!("a host is already enrolled as `{name}`");
        let hint = "--replace enrols another host in its place; the current one is then refused";
        return Err(hinted(error, hint));
    }
    let token = make_token(&office.store, added.number, lives).await?;
    let detail = json!({ "lives_seconds": lives.as_secs(), "replace": replace });
    office.wrote(None, "node.add", name, &detail).await?;
    if office.printer.is_json() {
        let number = added.number.get();
        let document = json!({ "name": name, "number": number, "token": token.expose() });
        office.printer.document(&document)?;
        return Ok(0);
    }
    office.printer.data(token.expose())?;
    office.printer.note(format_args!(
        "valid once, for {} min; start the node with `belljar node --name {name} \
         --enrol-token-file FILE`",
        lives.as_secs().div_ceil(60)
    ));
    Ok(0)
}

/// Makes a one-time token that a machine enrols with as this node.
pub(crate) async fn make_token(
    store: &Store,
    number: NodeNumber,
    lives: Duration,
) -> anyhow::Result<EnrolmentToken> {
    let (authorities, _) = store.authorities().await.map_err(explained)?;
    let current = authorities.iter().find(|authority| authority.is_current);
    let current = current.context("the platform has no signing keys yet").hint(STARTED)?;
    let token = EnrolmentToken::generate(&current.certificate)?;
    store.add_enrolment_token(number, &token.digest(), lives).await.map_err(explained)?;
    Ok(token)
}

async fn revoke(office: &Office, name: &str) -> anyhow::Result<u8> {
    let lost = office.store.revoke_node(name).await.map_err(explained)?;
    let lost = lost.ok_or_else(|| unknown(name))?;
    office.wrote(None, "node.revoke", name, &json!({ "lost": lost.len() })).await?;
    office.say(
        format_args!("revoked node {name}; {} sandboxes on it ended as lost", lost.len()),
        &json!({ "name": name, "lost": lost.len() }),
    )?;
    Ok(0)
}

async fn undrain(office: &Office, name: &str) -> anyhow::Result<u8> {
    let change = office.store.undrain_named(name).await.map_err(explained)?;
    let said = match change.ok_or_else(|| unknown(name))? {
        Change::Done => {
            office.wrote(None, "node.undrain", name, &json!({})).await?;
            "takes new sandboxes again"
        }
        Change::Already => "was not draining",
        Change::Stale => {
            let error = anyhow::anyhow!("node {name} is lost");
            return Err(hinted(error, "start it again: it registers as up"));
        }
    };
    office.say(format_args!("node {name} {said}"), &json!({ "name": name, "state": "up" }))?;
    Ok(0)
}

async fn forget(office: &Office, name: &str) -> anyhow::Result<u8> {
    let forgotten = office.store.forget_node(name).await.map_err(explained)?;
    if !forgotten.ok_or_else(|| unknown(name))? {
        let error = anyhow::anyhow!("node {name} is connected, and only a lost node is forgotten");
        let hint = "stop it, or revoke it with `belljar admin node revoke`, then forget it";
        return Err(hinted(error, hint));
    }
    office.wrote(None, "node.forget", name, &json!({})).await?;
    office.say(
        format_args!("node {name} is forgotten; `belljar admin node add {name}` lets it come back"),
        &json!({ "name": name, "forgotten": true }),
    )?;
    Ok(0)
}

fn unknown(name: &str) -> anyhow::Error {
    let error = anyhow::anyhow!("there is no node `{name}`");
    hinted(error, "`belljar admin node list` shows nodes")
}

/// A node's state, or why it has none.
fn state(node: &Node) -> &'static str {
    match node.enrolment {
        NodeEnrolment::Awaited => "awaited",
        NodeEnrolment::Revoked => "revoked",
        NodeEnrolment::Enrolled { .. } => node.state.as_str(),
    }
}

fn certificate_left(node: &Node) -> Option<time::Duration> {
    match node.enrolment {
        NodeEnrolment::Enrolled { certificate_left, .. } => Some(certificate_left),
        _ => None,
    }
}

async fn list(office: &Office) -> anyhow::Result<u8> {
    let nodes = office.store.nodes().await.map_err(explained)?;
    if office.printer.is_json() {
        let document = nodes.iter().map(|node| {
            json!({
                "name": node.name, "number": node.number, "epoch": node.epoch,
                "state": state(node), "address": node.address, "slots": node.slots,
                "taken": node.taken, "tiers": tiers(node),
                "lease_left_seconds": node.lease_left.as_seconds_f64(),
                "certificate_left_seconds":
                    certificate_left(node).map(time::Duration::as_seconds_f64),
            })
        });
        office.printer.document(&document.collect::<Vec<_>>())?;
        return Ok(0);
    }
    if nodes.is_empty() {
        office.printer.note("there are no nodes yet");
        office.printer.note("hint: `belljar admin node add NAME` prints a token to enrol one");
        return Ok(0);
    }
    let mut table = Table::new([
        "NODE",
        "NUMBER",
        "STATE",
        "USED",
        "SLOTS",
        "LEASE",
        "CERTIFICATE",
        "ADDRESS",
        "TIERS",
    ]);
    for node in nodes {
        table.row([
            node.name.clone(),
            node.number.to_string(),
            state(&node).to_owned(),
            node.taken.to_string(),
            node.slots.to_string(),
            lease(node.lease_left),
            certificate_left(&node).map_or_else(|| "-".to_owned(), certificate),
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

fn certificate(left: time::Duration) -> String {
    let hours = left.as_seconds_f64() / 3600.0;
    if hours < 0.0 { "expired".to_owned() } else { format!("{hours:.0} h left") }
}

fn lease(left: time::Duration) -> String {
    let seconds = left.as_seconds_f64();
    match seconds.abs() {
        whole if whole >= 3600.0 => format!("expired {:.0} h ago", whole / 3600.0),
        whole if whole >= 120.0 && seconds < 0.0 => format!("expired {:.0} min ago", whole / 60.0),
        whole if seconds < 0.0 => format!("expired {whole:.0} s ago"),
        whole => format!("{whole:.1} s left"),
    }
}

async fn drain(office: &Office, name: &str, wait: Option<Duration>) -> anyhow::Result<u8> {
    let unknown = || unknown(name);
    let change = office.store.drain_named(name).await.map_err(explained)?.ok_or_else(unknown)?;
    let said = match change {
        Change::Done => {
            office.wrote(None, "node.drain", name, &json!({})).await?;
            "takes no new sandboxes"
        }
        Change::Already => "was already draining",
        Change::Stale => {
            let error = anyhow::anyhow!("node {name} is lost and has no sandboxes");
            return Err(hinted(error, "start it again; it registers as up"));
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
                format_args!("node {name} {said}; {} sandboxes left", node.taken),
                &document,
            )?;
            // Asked to wait for nothing, and something is still there.
            return Ok(u8::from(wait.is_some() && node.taken > 0));
        }
        if said_so != Some(node.taken) {
            office.printer.note(format_args!("waiting: {} sandboxes left", node.taken));
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
            (-3.0, "expired 3 s ago"),
            (-300.0, "expired 5 min ago"),
            (-7200.0, "expired 2 h ago"),
        ] {
            assert_eq!(lease(time::Duration::seconds_f64(seconds)), text);
        }
    }
}
