//! Work of a tenant whose home node is away: templates are read from another node.
//!
//! Requirements: P2

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::platform::begin;
use super::runs::{LINES, create, end_of, shape};
use crate::case::Case;

/// F-76/home: the home node of a tenant is dead when a run and a sandbox are created.
pub(crate) async fn away(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(LINES)).await?;
    case.patience = Duration::from_secs(120);
    // The first request for templates chooses the home.
    let (status, _) = clients[0].plain("GET", "/v1/templates", None).await?;
    ensure!(status == 200, "templates are answered {status}");
    let cluster = case.cluster()?;
    let sql = "select n.name from tenant t join node n on n.number = t.home limit 1";
    let name = cluster.postgres.sql(sql)?.trim().to_owned();
    let home = cluster.nodes.iter().position(|node| node.name == name);
    let home = home.with_context(|| format!("no node is `{name}`"))?;
    case.history.may_break(true);
    case.cluster()?.nodes[home].kill();
    let killed = Instant::now();
    let id = create(&clients, "home-away").await?;
    let created = killed.elapsed();
    let ended = end_of(&clients, &id).await?;
    ended.is_answered(&clients[1]).await?;
    for client in &clients {
        let (status, listed) = client.plain("GET", "/v1/templates", None).await?;
        let has_some = listed["items"].as_array().is_some_and(|items| !items.is_empty());
        ensure!(status == 200 && has_some, "templates are answered {status}: {listed}");
        let (status, _) = client.plain("GET", "/v1/templates/nowhere", None).await?;
        ensure!(status == 404, "a template that no node has is answered {status}");
        client.make().await?;
    }
    case.cluster()?.nodes[home].start()?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    case.heal(&clients[0]).await?;
    let seconds = created.as_secs_f64();
    Ok(format!("{} without {name}; created {seconds:.1} s after its death", ended.outcome()))
}
