//! Nodes that are lost, cut off, frozen, starved.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use super::daemon::{show, token_of};
use crate::case::{Case, until};
use crate::client::Client;
use crate::evidence::Outcome;
use crate::load::Load;
use crate::rig::cluster::{Cluster, Shape};
use crate::rig::host;

/// Starts a platform; a client for each control.
pub(crate) async fn begin(case: &mut Case, shape: Shape) -> anyhow::Result<Vec<Client>> {
    let cluster = Cluster::start(&case.rig, &shape).await?;
    let clients = (0..2).map(|number| cluster.client(number, &case.history)).collect();
    case.cluster = Some(cluster);
    Ok(clients)
}

/// Sandboxes until each node has some; by node.
pub(crate) async fn spread(case: &mut Case, client: &Client) -> anyhow::Result<Vec<Vec<String>>> {
    let count = case.cluster()?.nodes.len();
    let mut made = vec![Vec::new(); count];
    for _ in 0..40 {
        let id = client.make().await?;
        client.leave(&id, "sleep 1000").await;
        let node = case.cluster()?.node_of(&id)?.context("no node has it")?;
        made[node].push(id);
        if made.iter().all(|of| of.len() >= 3) {
            return Ok(made);
        }
    }
    anyhow::bail!("one node has everything: {made:?}")
}

async fn ends_as(case: &Case, ids: &[String], want: &str) -> anyhow::Result<Duration> {
    let cluster = case.cluster.as_ref().context("no cluster")?;
    until(&format!("they end as {want}"), async || {
        ids.iter().all(|id| cluster.state_of(id).is_ok_and(|(_, reason)| reason == want))
    })
    .await
}

fn all_run(cluster: &Cluster, ids: &[String]) -> anyhow::Result<()> {
    for id in ids {
        let (state, reason) = cluster.state_of(id)?;
        ensure!(state == "running", "{id} on a healthy node is {state} {reason}");
    }
    Ok(())
}

/// F-02: a node dies and never comes back.
pub(crate) async fn lost(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[0]).await?;
    // Made over the other surface, so that there is a token to show.
    let mut shown = None;
    for _ in 0..20 {
        let (token, id) = token_of(&clients[0]).await?;
        if case.cluster()?.node_of(&id)? == Some(0) {
            shown = Some((token, id));
            break;
        }
    }
    let (token, id) = shown.context("nothing was placed on the first node")?;
    case.tokens.push(show(&clients[1], &id, &token, false).await?);
    let cluster = case.cluster()?;
    let below = host::below(cluster.nodes[0].pid());
    cluster.nodes[0].kill();
    case.history.may_break(true);
    let began = Instant::now();
    until("nothing of it runs", async || {
        below.iter().all(|&(pid, start)| host::start_of(pid) != Some(start))
    })
    .await?;
    let gone = began.elapsed();
    let took = ends_as(case, &made[0], "lost").await?;
    case.tokens.push(show(&clients[1], &id, &token, true).await?);
    all_run(case.cluster()?, &made[1])?;
    // Its places are not given away.
    for turn in 0..4 {
        let id = clients[turn % 2].make().await?;
        let node = case.cluster()?.node_of(&id)?;
        ensure!(node == Some(1), "it was placed on {node:?}");
    }
    case.history.may_break(false);
    case.heal(&clients[0]).await?;
    // Cgroups of a daemon that is gone stay until the next one.
    let node = &mut case.cluster()?.nodes[0];
    node.start()?;
    case.cluster()?.is_whole().await?;
    let (gone, took) = (gone.as_millis(), took.as_secs_f64());
    Ok(format!("its processes were gone after {gone} ms, its rows lost after {took:.1} s"))
}

/// F-11 and F-35: a node that stands still for longer than its lease goes on.
async fn zombie(case: &mut Case, whole_tree: bool) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[0]).await?;
    let cluster = case.cluster()?;
    let node = cluster.nodes[0].pid();
    let mut frozen = vec![node];
    if whole_tree {
        frozen.extend(host::below(node).into_iter().map(|(pid, _)| pid));
        frozen.extend(cluster.nodes[0].inhabitants());
    }
    case.history.may_break(true);
    frozen.iter().for_each(|&pid| host::signal(pid, Signal::STOP));
    let took = ends_as(case, &made[0], "lost").await?;
    tokio::time::sleep(Duration::from_secs(14).saturating_sub(took)).await;
    frozen.iter().for_each(|&pid| host::signal(pid, Signal::CONT));
    // Whoever asks it at once, before it knows, hears no.
    for id in &made[0] {
        let outcome = clients[1].call(id, "true").await.0;
        case.probe(format!("a call to {id}, which was given up"), outcome == Outcome::Done);
    }
    let woke = Instant::now();
    let state = case.cluster()?.nodes[0].state.clone();
    let clean = until("the zombie lets go", async || host::inhabited(&state).is_empty()).await?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    all_run(case.cluster()?, &made[1])?;
    case.heal(&clients[0]).await?;
    let (took, clean) = (took.as_secs_f64(), clean.as_millis());
    let back = woke.elapsed().as_secs_f64();
    Ok(format!(
        "lost after {took:.1} s; awake, it let go after {clean} ms, was back after {back:.1} s"
    ))
}

pub(crate) async fn stopped(case: &mut Case) -> anyhow::Result<String> {
    zombie(case, false).await
}

pub(crate) async fn slept(case: &mut Case) -> anyhow::Result<String> {
    zombie(case, true).await
}

/// F-32: a node's daemon gets a twentieth of a processor.
pub(crate) async fn starved(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[0]).await?;
    let group = PathBuf::from(format!("/sys/fs/cgroup/cpu/bjf-{}", std::process::id()));
    std::fs::create_dir_all(&group)?;
    let node = case.cluster()?.nodes[0].pid();
    let starve = || -> anyhow::Result<()> {
        std::fs::write(group.join("cpu.cfs_period_us"), "100000")?;
        std::fs::write(group.join("cpu.cfs_quota_us"), "5000")?;
        std::fs::write(group.join("cgroup.procs"), node.to_string())?;
        Ok(())
    };
    case.history.may_break(true);
    let starving = starve();
    let oracle = case.cluster()?.oracle.address;
    let load = Load::begin(&clients, oracle, 3);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let epoch = case.cluster()?.postgres.sql("select epoch from node where name = 'n1'")?;
    let fed = std::fs::write("/sys/fs/cgroup/cpu/cgroup.procs", node.to_string());
    let did = load.end().await?;
    let _ = std::fs::remove_dir(&group);
    starving?;
    fed?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    all_run(case.cluster()?, &made[1])?;
    let kept = if epoch.trim() == "1" { "kept its lease" } else { "gave itself up" };
    case.heal(&clients[0]).await?;
    Ok(format!("it {kept}; {did}"))
}

/// F-37: nothing goes between a node and control, in either direction.
pub(crate) async fn cut_off(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[0]).await?;
    case.history.may_break(true);
    let cluster = case.cluster()?;
    for control in &cluster.controls {
        cluster.net.cut_both(&cluster.nodes[0].place, &control.place)?;
    }
    let began = Instant::now();
    // The node must have let go before anybody else may believe so.
    let state = cluster.nodes[0].state.clone();
    let cluster = case.cluster.as_ref().context("no cluster")?;
    // When code was last seen there, and when the node was first seen as lost: of the one
    // the moment before the look, of the other the one after, so that it does not matter
    // how long a look takes.
    let (mut let_go, mut given_up) = (Duration::ZERO, None);
    until("both sides know", async || {
        let looked = began.elapsed();
        let lives = host::inhabited(&state).iter().any(|(_, pids)| !pids.is_empty());
        if lives {
            let_go = looked;
        }
        let lost = |id: &String| cluster.state_of(id).is_ok_and(|(_, reason)| reason == "lost");
        if given_up.is_none() && made[0].iter().all(lost) {
            given_up = Some(began.elapsed());
        }
        !lives && given_up.is_some()
    })
    .await?;
    let given_up = given_up.unwrap_or_default();
    let slack = Duration::from_millis(500);
    case.probe("code on a node that was given up", let_go > given_up + slack);
    for id in &made[1] {
        ensure!(clients[0].call(id, "true").await.0 == Outcome::Done, "a healthy node suffers");
    }
    let cluster = case.cluster()?;
    for control in &cluster.controls {
        cluster.net.mend(&cluster.nodes[0].place, &control.place);
    }
    let back = case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    case.heal(&clients[0]).await?;
    Ok(format!(
        "the node let go after {:.1} s, control gave it up after {:.1} s, back {:.1} s after the mend",
        let_go.as_secs_f64(),
        given_up.as_secs_f64(),
        back.as_secs_f64()
    ))
}

/// F-38: links that are cut in one direction, or to one replica, or to the bus.
pub(crate) async fn one_way(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[1]).await?;
    let mut said = Vec::new();
    const BOTH_WAYS: [&str; 2] = ["node and bus", "one control and the database"];
    for what in ["node to one control", "one control to the node"].iter().chain(&BOTH_WAYS) {
        let what = *what;
        let cluster = case.cluster()?;
        let (node, control) = (&cluster.nodes[0].place, &cluster.controls[0].place);
        let (one, other) = match what {
            "node to one control" => (node.clone(), control.clone()),
            "one control to the node" => (control.clone(), node.clone()),
            "node and bus" => (node.clone(), cluster.net.host()),
            _ => (control.clone(), cluster.database.clone()),
        };
        case.history.may_break(true);
        let cluster = case.cluster()?;
        if BOTH_WAYS.contains(&what) {
            cluster.net.cut_both(&one, &other)?;
        } else {
            cluster.net.cut(&one, &other)?;
        }
        // Longer than a lease: the other replica keeps the node.
        let began = Instant::now();
        let mut worked = 0;
        while began.elapsed() < Duration::from_secs(12) {
            for id in &made[0] {
                worked += usize::from(clients[1].call(id, "true").await.0 == Outcome::Done);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let cluster = case.cluster()?;
        cluster.net.mend(&one, &other);
        case.history.may_break(false);
        all_run(case.cluster()?, &made[0]).context(what)?;
        ensure!(worked > 0, "{what}: no call got through the other replica");
        said.push(format!("{what}: {worked} calls"));
        case.cluster()?.is_whole().await?;
    }
    case.heal(&clients[0]).await?;
    Ok(said.join("; "))
}

/// F-40: the other side vanishes in the middle, without a word.
pub(crate) async fn half_open(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let made = spread(case, &clients[0]).await?;
    let pid = case.cluster()?.controls[0].pid();
    let before = Case::settled(pid).await;
    case.history.may_break(true);
    let mut calls = Vec::new();
    for id in &made[0] {
        let (client, id) = (clients[0].within(Duration::from_secs(90)), id.clone());
        calls.push(tokio::spawn(async move { client.call(&id, "sleep 4; echo done").await.0 }));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cluster = case.cluster()?;
    let control = &cluster.controls[0].place;
    cluster.net.cut_both(&cluster.nodes[0].place, control)?;
    let began = Instant::now();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await?);
    }
    let took = began.elapsed();
    let cluster = case.cluster()?;
    cluster.net.mend(&cluster.nodes[0].place, &cluster.controls[0].place);
    case.history.may_break(false);
    let odd = outcomes.iter().find(|it| matches!(it, Outcome::Silence | Outcome::Done));
    ensure!(odd.is_none(), "after {took:?}: {outcomes:?}");
    case.cluster()?.is_whole().await?;
    case.heal(&clients[0]).await?;
    let after = Case::settled(pid).await;
    case.compare(before, after, 30 << 10);
    Ok(format!(
        "{} calls ended after {:.1} s: {:?}",
        outcomes.len(),
        took.as_secs_f64(),
        outcomes[0]
    ))
}
