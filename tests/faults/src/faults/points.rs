//! A role dies at a chosen moment. What is said twice must be one thing.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::platform::begin;
use crate::case::{Case, until};
use crate::client::{Client, reaching};
use crate::evidence::Outcome;
use crate::load;
use crate::rig::cluster::Shape;

/// Arms one control, has a request die there, and has the client ask the other.
async fn dies_at(case: &mut Case, point: &str, times: usize) -> anyhow::Result<usize> {
    let clients = begin(case, Shape::default()).await?;
    // Whoever hears nothing of a create that broke off looks after a while.
    case.patience = Duration::from_secs(120);
    let oracle = case.cluster()?.oracle.address;
    let mut died = 0;
    for number in 0..times {
        case.history.may_break(true);
        let control = &mut case.cluster()?.controls[0];
        control.arm(&format!("{point}:die"))?;
        let key = format!("{}-{number}", point.replace('.', "-"));
        until("the armed control listens", async || {
            clients[0].plain("GET", "/v1/sandboxes", None).await.is_ok()
        })
        .await
        .ok();
        let id = load::create(&clients, &key, oracle).await.context("nobody made it")?;
        // Asked again: the same.
        let again = load::create(&clients[1..], &key, oracle).await.context("not again")?;
        ensure!(id == again, "{key} is {id} and {again}");
        let control = &mut case.cluster()?.controls[0];
        let within = Duration::from_secs(5);
        died += usize::from(control.program.ended(within).await.is_ok());
        control.kill();
        let done = clients[1].effect(&id, oracle).await;
        ensure!(done == Outcome::Done, "it is there and cannot be used: {done:?}");
        control.start()?;
        case.cluster()?.is_whole().await?;
        case.history.may_break(false);
    }
    case.heal(&clients[0]).await?;
    Ok(died)
}

/// F-08: between the row and the node.
pub(crate) async fn after_admit(case: &mut Case) -> anyhow::Result<String> {
    let died = dies_at(case, "control.admitted", 3).await?;
    ensure!(died == 3, "control died {died} of 3 times");
    Ok("3 deaths between the row and the node; the same key found the same row".to_owned())
}

/// F-09: the node has made it, and nobody knows yet.
pub(crate) async fn after_answer(case: &mut Case) -> anyhow::Result<String> {
    let died = dies_at(case, "control.answered", 3).await?;
    ensure!(died == 3, "control died {died} of 3 times");
    Ok("3 deaths between the node's answer and the client's; one sandbox each".to_owned())
}

/// F-10: written down, and nobody was told: ends that are said again, and messages
/// that were published and not marked.
pub(crate) async fn after_record(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    // A create that broke off, and that nobody repeats, is given up after a while.
    case.patience = Duration::from_secs(120);
    let mut died = Vec::new();
    for point in ["control.synced", "control.published"] {
        let id = clients[1].make().await?;
        case.history.may_break(true);
        // Both, so that it is whoever comes first.
        for control in &mut case.cluster()?.controls {
            control.arm(&format!("{point}:die:3"))?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut deleted = Outcome::Silence;
        for turn in 0..40 {
            deleted = clients[turn % 2].delete(&id).await;
            if matches!(deleted, Outcome::Done | Outcome::Refused { status: 404, .. }) {
                break;
            }
            for control in &mut case.cluster()?.controls {
                if !control.program.is_alive() {
                    died.push(point);
                    control.start()?;
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        // More ends, so that whoever publishes has something to publish.
        for turn in 0..6 {
            if let Outcome::Made(id) = clients[turn % 2].create(None).await {
                clients[turn % 2].delete(&id).await;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for control in &mut case.cluster()?.controls {
            if !control.program.is_alive() {
                died.push(point);
                control.start()?;
            } else {
                control.kill();
                control.start()?;
            }
        }
        case.cluster()?.is_whole().await?;
        case.history.may_break(false);
        let gone = matches!(deleted, Outcome::Done | Outcome::Refused { status: 404, .. });
        ensure!(gone, "{point}: {deleted:?}");
    }
    for point in ["control.synced", "control.published"] {
        ensure!(died.contains(&point), "nobody died at {point}: {died:?}");
    }
    case.heal(&clients[0]).await?;
    Ok(format!("{} deaths: {died:?}", died.len()))
}

/// F-03 and F-04 on a platform: the node dies while it makes, and while it ends.
pub(crate) async fn node_dies(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let oracle = case.cluster()?.oracle.address;
    let mut died = 0;
    let points = ["node.creating", "node.made", "node.created", "node.ending", "node.removed"];
    for point in points {
        case.history.may_break(true);
        for node in &mut case.cluster()?.nodes {
            node.arm(&format!("{point}:die"))?;
        }
        case.cluster()?.is_whole().await?;
        let wish = reaching(oracle);
        let (outcome, _) = clients[0].create_with(Some(&point.replace('.', "-")), &wish).await;
        if let Outcome::Made(id) = &outcome {
            clients[1].delete(id).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        for node in &mut case.cluster()?.nodes {
            if !node.program.is_alive() {
                died += 1;
            }
            node.kill();
            node.start()?;
        }
        case.cluster()?.is_whole().await?;
        case.history.may_break(false);
    }
    ensure!(died >= points.len(), "only {died} nodes died at {} points", points.len());
    case.heal(&clients[0]).await?;
    Ok(format!("{died} deaths at {} points", points.len()))
}

/// F-12: control killed at random under load, every client asking again.
pub(crate) async fn control_killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let oracle = case.cluster()?.oracle.address;
    case.history.may_break(true);
    let load = load::Load::begin(&clients, oracle, 4);
    for number in 0..8_u64 {
        tokio::time::sleep(Duration::from_millis(700 + number * 130)).await;
        let control = &mut case.cluster()?.controls[usize::try_from(number % 2)?];
        control.kill();
        control.start()?;
    }
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    let did = load.end().await?;
    ensure!(did.made > 10, "hardly anything was asked for: {did}");
    ensure!(did.refused == 0, "some gave up: {did}");
    case.heal(&clients[0]).await?;
    Ok(format!("8 kills: {did}"))
}

/// F-53: both controls are away for a while, everybody comes back at once.
pub(crate) async fn storm(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    let oracle = case.cluster()?.oracle.address;
    let kept = clients[0].make().await?;
    case.history.may_break(true);
    let load = load::Load::begin(&clients, oracle, 16);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for control in &mut case.cluster()?.controls {
        control.kill();
    }
    // Shorter than a lease: nothing need be lost.
    tokio::time::sleep(Duration::from_secs(3)).await;
    for control in &mut case.cluster()?.controls {
        control.start()?;
    }
    let whole = case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let did = load.end().await?;
    let (state, reason) = case.cluster()?.state_of(&kept)?;
    ensure!(state == "running", "what ran before is {state} {reason}");
    clients[1].run(&kept, "true").await?;
    case.heal(&clients[0]).await?;
    Ok(format!("16 clients; whole again after {:.1} s; {did}", whole.as_secs_f64()))
}

/// F-59: one role after the other is stopped and started, under load.
pub(crate) async fn rolling(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape { nodes: 3, ..Shape::default() }).await?;
    case.patience = Duration::from_secs(120);
    let oracle = case.cluster()?.oracle.address;
    // A connection that is open when its server stops is cut when its time is over.
    case.history.may_break(true);
    let load = load::Load::begin(&clients, oracle, 3);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..2 {
        let control = &mut case.cluster()?.controls[number];
        control.stop().await?;
        control.start()?;
        case.cluster()?.is_whole().await?;
    }
    for number in 0..3 {
        let node = &mut case.cluster()?.nodes[number];
        node.stop().await?;
        node.start()?;
        case.cluster()?.is_whole().await?;
    }
    case.history.may_break(false);
    let did = load.end().await?;
    ensure!(did.refused == 0, "some gave up: {did}");
    case.heal(&clients[0]).await?;
    Ok(format!("2 controls and 3 nodes restarted: {did}"))
}

/// F-58: what traces are sent to is not there.
pub(crate) async fn no_traces(case: &mut Case) -> anyhow::Result<String> {
    // Nobody listens there; and one that listens and never answers.
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let _ = silent.local_addr()?;
    let more = ["--otlp", "http://10.213.255.254:4318"].map(str::to_owned).into();
    let clients = begin(case, Shape { more, ..Shape::default() }).await?;
    let oracle = case.cluster()?.oracle.address;
    let load = load::Load::begin(&clients, oracle, 2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let did = load.end().await?;
    ensure!(did.refused == 0 && did.unknown == 0 && did.made > 5, "{did}");
    case.heal(&clients[0]).await?;
    Ok(did.to_string())
}

/// F-54: a row has ended and its code runs; a row runs and its code is gone.
pub(crate) async fn leaks(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let (ghost, corpse, whole) =
        (clients[0].make().await?, clients[0].make().await?, clients[0].make().await?);
    clients[0].leave(&ghost, "sleep 1000").await;
    let cluster = case.cluster()?;
    let node = cluster.node_of(&ghost)?.context("no node has it")?;
    let before = cluster.nodes[node].inhabitants().len();
    cluster.postgres.sql(&format!(
        "with e as (update sandbox set state = 'ended', ended_at = now(), reason = 'lost' \
         where id = '{ghost}' returning tenant) \
         update quota set used = used - 1 from e where quota.tenant = e.tenant"
    ))?;
    let took = until("the ghost is gone", async || {
        case.cluster.as_ref().is_some_and(|it| it.nodes[node].inhabitants().len() < before)
    })
    .await?;
    // A record of the node's is gone, as after a bad restore: it has it no more.
    let cluster = case.cluster()?;
    let node = cluster.node_of(&corpse)?.context("no node has it")?;
    for pid in victims(cluster, node) {
        crate::rig::host::signal(pid, rustix::process::Signal::KILL);
    }
    let dead = until("the corpse is on the books", async || {
        case.cluster
            .as_ref()
            .is_some_and(|it| it.state_of(&corpse).is_ok_and(|(state, _)| state == "ended"))
    })
    .await?;
    let other = clients[1].call(&whole, "true").await.0;
    case.heal(&clients[0]).await?;
    let (took, dead) = (took.as_secs_f64(), dead.as_secs_f64());
    Ok(format!(
        "the ghost was gone after {took:.1} s, the corpse on the books after {dead:.1} s; \
                the third: {other:?}"
    ))
}

/// Every guest of a node.
fn victims(cluster: &crate::rig::cluster::Cluster, node: usize) -> Vec<u32> {
    let all = cluster.nodes[node].inhabitants();
    let guests = all.into_iter();
    guests.filter(|&pid| crate::rig::host::command(pid).contains("belljar-guest")).collect()
}

/// A key that is used on both replicas at the same moment.
pub(crate) async fn both_replicas(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    case.patience = Duration::from_secs(120);
    for round in 0..10 {
        let key = format!("both-{round}");
        let mut asked = Vec::new();
        for number in 0..10 {
            let (client, key) = (clients[number % 2].clone(), key.clone());
            asked.push(tokio::spawn(async move { stubborn(&client, &key).await }));
        }
        for one in asked {
            let outcome = one.await?;
            ensure!(matches!(outcome, Outcome::Made(_)), "{outcome:?}");
        }
    }
    Ok("10 keys, 10 requests each at two replicas".to_owned())
}

async fn stubborn(client: &Client, key: &str) -> Outcome {
    loop {
        let outcome = client.create(Some(key)).await;
        if !matches!(outcome, Outcome::Refused { status: 409 | 503, .. }) {
            return outcome;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
