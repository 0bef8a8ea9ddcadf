//! Figures of another tenant's runs.

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::authorization::EVERYTHING;
use crate::client::Client;
use crate::platform::Platform;
use crate::world::World;

/// API-04/stats: a tenant's figures count its own runs alone.
pub(crate) async fn are_ones_own(world: &World) -> anyhow::Result<String> {
    count(&world.a, &world.b).await
}

/// API-04/stats/platform: the same, by control and from the database.
pub(crate) async fn are_ones_own_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let seen = Box::pin(count(&a, &b)).await;
    platform.stop().await?;
    seen
}

async fn count(a: &Client, b: &Client) -> anyhow::Result<String> {
    const RUNS: u64 = 3;
    let before = (waiting(a, "").await?, waiting(b, "").await?);
    for _ in 0..RUNS {
        let run = json!({ "question": "How much is it?" });
        a.json("POST", "/v1/runs", &run).await?.expect(201)?;
    }
    // The control: their owner sees them.
    let (mine, theirs) = (waiting(a, "").await?, waiting(b, "").await?);
    ensure!(mine == before.0 + RUNS, "{mine} runs after {}", before.0);
    ensure!(theirs == before.1, "{theirs} runs of another tenant after {}", before.1);
    for query in ["?tenant=a", "?tenant=%25", "?tenant="] {
        let theirs = waiting(b, query).await?;
        ensure!(theirs == before.1, "{query}: {theirs} runs of another tenant");
    }
    Ok(format!("{RUNS} runs, seen by their owner alone"))
}

/// Runs that wait, as a tenant's figures say. No worker works on any.
async fn waiting(who: &Client, query: &str) -> anyhow::Result<u64> {
    let stats = who.get(&format!("/v1/stats{query}")).await?.expect(200)?.value()?;
    let alive = &stats["alive"];
    ensure!(alive["waiting"] == alive["total"] && stats["day"]["started"] == 0, "{stats}");
    alive["waiting"].as_u64().context("no number of runs")
}
