//! Three nodes; one is killed. What was on it ends as lost, and nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::SandboxId;
use serde::Serialize;
use tokio::task::JoinSet;

use super::super::machine;
use super::client::Client;
use super::rig::{Rig, Shape, name_of};
use crate::cli::BenchPlatform;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
pub(super) struct Loss {
    pub(super) alive: usize,
    /// Fewer are alive than were asked for: this many would have fitted.
    pub(super) asked_for: u32,
    pub(super) bytes_each: u64,
    pub(super) created_in_s: f64,
    pub(super) on_the_killed: usize,
    /// Until the database said so of all of them.
    pub(super) lost_after_s: f64,
    /// Of the other nodes' sandboxes.
    pub(super) untouched: u64,
    pub(super) others: usize,
    pub(super) asked: usize,
    pub(super) answered: usize,
    /// Places that the tenant has in use, and should.
    pub(super) used: u32,
    pub(super) used_rightly: usize,
    /// After the kill, of a sandbox that another node makes.
    pub(super) created_after: bool,
}

const TENANT: &str = "loss";
const NODES: u16 = 3;
const LIFE: Duration = Duration::from_secs(3600);
/// To learn what one costs.
const SAMPLE: usize = 60;
/// That stay free, for everybody else.
const SPARE: u64 = 3 << 30;
/// Created at a time.
const AT_ONCE: usize = 8;
const ASKED: usize = 200;
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(
    options: &BenchPlatform,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<Loss> {
    let wanted = if options.quick { 60 } else { options.alive };
    let shape = Shape { nodes: NODES, slots: wanted, pool: 0, at_once: options.at_once };
    let mut rig = Rig::start(shape, options, config).await?;
    let client = rig.tenant(TENANT).await?;
    let began = Instant::now();
    let free = machine::available()?;
    let mut ids = create(&client, &options.template, SAMPLE.min(wanted as usize)).await?;
    let each = free.saturating_sub(machine::available()?) / ids.len().max(1) as u64;
    let fitting = (free.saturating_sub(SPARE) / each.max(1)).min(wanted.into());
    let fitting = usize::try_from(fitting)?.max(ids.len());
    printer.note(format_args!(
        "{fitting} sandboxes on {NODES} nodes, {:.1} MiB each",
        each as f64 / f64::from(1 << 20)
    ));
    while ids.len() < fitting {
        let more = (fitting - ids.len()).min(200);
        ids.extend(create(&client, &options.template, more).await?);
        rig.look()?;
    }
    let created_in = began.elapsed();
    let bytes_each = free.saturating_sub(machine::available()?) / ids.len() as u64;
    let victim = name_of(1);
    let nodes = rig.store.nodes().await?;
    let number = nodes.iter().find(|node| node.name == victim).context("the node is not there")?;
    let number = number.number;
    let is_there = |id: &&SandboxId| id.node().is_some_and(|node| node.get() == number);
    let doomed = ids.iter().filter(is_there).count();
    let others: Vec<_> = ids.iter().filter(|id| !is_there(id)).cloned().collect();
    await_written(&rig, ids.len() as u64).await?;
    let killed = Instant::now();
    rig.kill(&victim).await?;
    let lost_after = loop {
        let nodes = rig.store.on_nodes().await?;
        let there = nodes.iter().find(|node| node.number == number);
        if there
            .is_none_or(|there| there.lost == doomed as u64 && there.alive + there.starting == 0)
        {
            break killed.elapsed();
        }
        ensure!(killed.elapsed() < PATIENCE, "the sandboxes are not marked lost: {there:?}");
        tokio::time::sleep(LOOK).await;
    };
    printer.note(format_args!("{doomed} lost after {:.1} s", lost_after.as_secs_f64()));
    let nodes = rig.store.on_nodes().await?;
    let untouched = nodes.iter().filter(|node| node.number != number).map(|node| node.alive).sum();
    let step = (others.len() / ASKED).max(1);
    let asked: Vec<_> = others.iter().step_by(step).take(ASKED).cloned().collect();
    let mut answered = 0;
    for id in &asked {
        answered += usize::from(client.call(id).await.is_ok());
    }
    let used = rig.store.tenant(TENANT).await?.used;
    let created_after = client.create(&options.template, LIFE).await.is_ok();
    rig.stop().await;
    Ok(Loss {
        alive: ids.len(),
        asked_for: wanted,
        bytes_each,
        created_in_s: created_in.as_secs_f64(),
        on_the_killed: doomed,
        lost_after_s: lost_after.as_secs_f64(),
        untouched,
        others: others.len(),
        asked: asked.len(),
        answered,
        used,
        used_rightly: others.len(),
        created_after,
    })
}

async fn create(client: &Client, template: &str, count: usize) -> anyhow::Result<Vec<SandboxId>> {
    let mut running = JoinSet::new();
    let mut made = Vec::new();
    for _ in 0..count {
        if running.len() >= AT_ONCE
            && let Some(one) = running.join_next().await
        {
            made.push(one??);
        }
        let (client, template) = (client.clone(), template.to_owned());
        running.spawn(async move { client.create(&template, LIFE).await });
    }
    while let Some(one) = running.join_next().await {
        made.push(one??);
    }
    Ok(made)
}

/// Until nodes have said of all sandboxes that they run.
async fn await_written(rig: &Rig, count: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let nodes = rig.store.on_nodes().await?;
        if nodes.iter().map(|node| node.alive).sum::<u64>() == count {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "not all sandboxes are running: {nodes:?}");
        tokio::time::sleep(LOOK).await;
    }
}
