//! Whoever counts what is charged for begins anew.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::platform::{begin, spread};
use crate::case::{Case, until};
use crate::evidence::Outcome;
use crate::rig::cluster::{Cluster, Shape};

/// What a node gathers before it speaks, and a busy machine besides.
const SLACK: i64 = 1500;

/// F-63: a node is killed and counts from nothing. What one that was on disk had
/// run before is not forgotten, and not counted again.
pub(crate) async fn meter_restarts(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let began = Instant::now();
    let made = spread(case, &clients[0]).await?;
    let (kept, rest) = made[0].split_first().context("the first node has nothing")?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let path = format!("/v1/sandboxes/{kept}");
    let (paused, _) = clients[0].post(&format!("{path}/pause"), &json!({ "keep": "files" })).await;
    ensure!(paused == Outcome::Done, "it was not paused: {paused:?}");
    becomes(case.cluster()?, kept, "paused").await?;
    let ran = began.elapsed();
    let before = ran_ms(case, kept)?;
    ensure!(before >= 2000, "it ran for 2 s at least, and {before} ms are on the books");
    case.history.may_break(true);
    let node = &mut case.cluster()?.nodes[0];
    node.kill();
    node.start()?;
    case.cluster()?.is_whole().await?;
    for id in rest {
        becomes(case.cluster()?, id, "ended").await?;
    }
    case.history.may_break(false);
    let again = Instant::now();
    let (resumed, _) = clients[1].post(&format!("{path}/resume"), &json!({})).await;
    ensure!(resumed == Outcome::Done, "it does not go on: {resumed:?}");
    becomes(case.cluster()?, kept, "running").await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(clients[0].delete(kept).await == Outcome::Done, "it does not end");
    becomes(case.cluster()?, kept, "ended").await?;
    let all = ran_ms(case, kept)?;
    let most = i64::try_from((ran + again.elapsed()).as_millis())? + SLACK;
    ensure!((before + 1000..=most).contains(&all), "{before} ms, then {all}; {most} at most");
    let charges = case.cluster()?.postgres.sql(&format!(
        "select count(*) from ledger where sandbox in ('{}')",
        made[0].join("','")
    ))?;
    let charges: usize = charges.trim().parse()?;
    ensure!(charges == made[0].len(), "{charges} charges for {} sandboxes", made[0].len());
    case.heal(&clients[0]).await?;
    Ok(format!("{before} ms before its node was killed, {all} ms in all; one charge each"))
}

async fn becomes(cluster: &Cluster, id: &str, want: &str) -> anyhow::Result<Duration> {
    until(&format!("{id} is {want}"), async || {
        cluster.state_of(id).is_ok_and(|(state, _)| state == want)
    })
    .await
}

fn ran_ms(case: &mut Case, id: &str) -> anyhow::Result<i64> {
    let said =
        case.cluster()?.postgres.sql(&format!("select ran_ms from sandbox where id = '{id}'"))?;
    Ok(said.trim().parse()?)
}
