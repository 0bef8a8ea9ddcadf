//! A sandbox that waits in the pool is given to one claimant, however many claim at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_node::Sandbox;

use crate::relation::Maker;
use crate::report::Outcome;

pub(crate) const ATTACK: &str = "BLD-06";

/// More than wait, so that the last ones find the pool empty.
const CLAIMANTS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(60);

/// Claims at once, and compares the processes that the claimants got. The pool is on.
pub(crate) async fn are_exclusive(maker: &Maker) -> anyhow::Result<Outcome> {
    let figures = || maker.node.pools().first().map(|(_, figures)| *figures);
    let begin = Instant::now();
    while figures().context("there is no pool")?.waiting < 2 {
        ensure!(begin.elapsed() < PATIENCE, "the pool stays empty");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let hits = figures().map_or(0, |figures| figures.hits);
    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..CLAIMANTS {
        let (node, spec) = (maker.node.clone(), maker.spec().clone());
        claims.spawn(async move { node.create(&spec).await });
    }
    let claimed = claims.join_all().await.into_iter().collect::<Result<Vec<Sandbox>, _>>()?;
    let from_pool = figures().map_or(0, |figures| figures.hits) - hits;
    let pids: Vec<u32> = claimed.iter().map(Sandbox::pid).collect();
    for sandbox in claimed {
        sandbox.destroy().await?;
    }
    ensure!(from_pool >= 2, "only {from_pool} of {CLAIMANTS} came from the pool");
    // The control: the same sandbox twice is noticed.
    let twice: Vec<u32> = pids.iter().chain(pids.first()).copied().collect();
    if shared(&twice).is_none() {
        return Ok(Outcome::Blind("a sandbox that two have is not noticed".to_owned()));
    }
    Ok(match shared(&pids) {
        None => Outcome::Clean,
        Some(pid) => Outcome::Bleed(format!("{ATTACK}: two claimants have process {pid}")),
    })
}

/// Returns a process that occurs twice.
fn shared(pids: &[u32]) -> Option<u32> {
    let mut counts = BTreeMap::<u32, usize>::new();
    for pid in pids {
        *counts.entry(*pid).or_default() += 1;
    }
    counts.into_iter().find_map(|(pid, count)| (count > 1).then_some(pid))
}
