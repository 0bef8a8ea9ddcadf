//! Keys are replaced and taken away while everybody works.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::platform::begin;
use crate::case::{Case, until};
use crate::load;
use crate::rig::cluster::{Cluster, Shape};

/// How long certificates live here. They are renewed when a third is left.
const LIFE: Duration = Duration::from_secs(15);

/// The certificate that a node has.
fn certificate(cluster: &Cluster, node: usize) -> anyhow::Result<Value> {
    let file = cluster.nodes[node].data.join("identity/certificate.json");
    Ok(serde_json::from_slice(&std::fs::read(file)?)?)
}

/// F-65: certificates that live for seconds, and another authority: nobody notices.
pub(crate) async fn rotated(case: &mut Case) -> anyhow::Result<String> {
    let control_more = ["--certificate-lifetime", "15s"].map(str::to_owned).into();
    let clients = begin(case, Shape { control_more, ..Shape::default() }).await?;
    let oracle = case.cluster()?.oracle.address;
    let kept = clients[0].make().await?;
    let load = load::Load::begin(&clients, oracle, 3);
    let expiry = |cluster: &Cluster, node| -> anyhow::Result<u64> {
        certificate(cluster, node)?["expires_at"].as_u64().context("no expiry")
    };
    let first = [expiry(case.cluster()?, 0)?, expiry(case.cluster()?, 1)?];
    let secret = case.rig.dir.join("control.key").display().to_string();
    let rotate = ["authority", "rotate", "--control-key", &secret, "--after", "3s"];
    case.cluster()?.admin(&rotate)?;
    until("every node has a certificate of the new authority", async || {
        let Some(cluster) = &case.cluster else { return false };
        (0..2).all(|node| certificate(cluster, node).is_ok_and(|it| it["generation"] == 2))
    })
    .await?;
    case.cluster()?.admin(&["authority", "drop", "1"])?;
    until("only the new authority is trusted", async || {
        let Some(cluster) = &case.cluster else { return false };
        let trusted =
            |node| certificate(cluster, node).map(|it| it["trust"]["authorities"].clone());
        (0..2).all(|node| trusted(node).is_ok_and(|it| it.as_array().map(Vec::len) == Some(1)))
    })
    .await?;
    // Everybody has to shake hands again, with the new certificates only.
    case.history.may_break(true);
    for number in 0..2 {
        let control = &mut case.cluster()?.controls[number];
        control.stop().await?;
        control.start()?;
        case.cluster()?.is_whole().await?;
    }
    case.history.may_break(false);
    // Every certificate of the beginning has expired twice over.
    let long_after = first.iter().max().context("no node")? + 2 * u64::try_from(LIFE.as_millis())?;
    until("every node has renewed again and again", async || {
        let Some(cluster) = &case.cluster else { return false };
        (0..2).all(|node| expiry(cluster, node).is_ok_and(|expiry| expiry > long_after))
    })
    .await?;
    let did = load.end().await?;
    ensure!(did.refused == 0 && did.made > 5, "{did}");
    let (state, reason) = case.cluster()?.state_of(&kept)?;
    ensure!(state == "running", "what ran before is {state} {reason}");
    clients[1].run(&kept, "true").await?;
    case.heal(&clients[0]).await?;
    Ok(format!("one rotation, certificates of {} s renewed: {did}", LIFE.as_secs()))
}

/// F-66: a node is revoked; the other goes on, and the first comes back with a new token.
pub(crate) async fn revoked(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let oracle = case.cluster()?.oracle.address;
    let mut made = Vec::new();
    for _ in 0..8 {
        made.push(clients[0].make().await?);
    }
    let cluster = case.cluster()?;
    let of = |cluster: &Cluster, node| -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        for id in &made {
            if cluster.node_of(id)? == Some(node) {
                all.push(id.clone());
            }
        }
        Ok(all)
    };
    let (gone, left) = (of(cluster, 0)?, of(cluster, 1)?);
    ensure!(!gone.is_empty() && !left.is_empty(), "{gone:?}, {left:?}");
    case.history.may_break(true);
    let load = load::Load::begin(&clients, oracle, 2);
    let name = case.cluster()?.nodes[0].name.clone();
    case.cluster()?.admin(&["node", "revoke", &name])?;
    let took = until("the revoked node has ended everything", async || {
        case.cluster.as_ref().is_some_and(|it| it.nodes[0].inhabitants().is_empty())
    })
    .await?;
    for (ids, wanted) in [(&gone, "ended"), (&left, "running")] {
        for id in ids {
            let (state, reason) = case.cluster()?.state_of(id)?;
            ensure!(state == wanted, "{id} is {state} {reason}, not {wanted}");
        }
    }
    for id in &left {
        clients[1].run(id, "true").await?;
    }
    // It has asked to register since, and was refused.
    let said = case.cluster()?.nodes[0].program.said();
    let up = case.cluster()?.postgres.sql("select count(*) from node where state = 'up'")?;
    ensure!(up.trim() == "1", "{up} nodes are up: {said}");
    let cluster = case.cluster()?;
    cluster.write_token(&name, &[])?;
    cluster.nodes[0].stop().await?;
    cluster.nodes[0].start()?;
    cluster.is_whole().await?;
    case.history.may_break(false);
    let did = load.end().await?;
    ensure!(did.made > 3, "{did}");
    case.heal(&clients[0]).await?;
    Ok(format!(
        "everything on it ended after {:.1} s; the other went on: {did}",
        took.as_secs_f64()
    ))
}
