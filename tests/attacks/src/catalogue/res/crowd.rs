//! Many sandboxes at once, and one after another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::EndReason;
use belljar_domain::limits::MIB;
use belljar_node::Sandbox;
use tokio::task::JoinSet;

use super::{by_memory, by_pids, starts_on};
use crate::attack::Seen;
use crate::harness::files::HANG_LIMIT;
use crate::harness::findings::Findings;
use crate::harness::host::{self, Groups};
use crate::harness::stage::{Running, Stage};

/// Starts one call in each of several sandboxes and waits until all hold what
/// they came for.
async fn holders(
    stage: &Stage,
    sandboxes: &[Arc<Sandbox>],
    file: &str,
    args: &[&str],
) -> anyhow::Result<Vec<Running>> {
    let mut holders = Vec::new();
    for sandbox in sandboxes {
        let command = stage.place(sandbox, file, args).await?;
        holders.push(stage.start(sandbox, &command).await?);
    }
    for holder in &mut holders {
        holder.until("NOTE holding").await?;
    }
    Ok(holders)
}

/// Seven sandboxes sit at their limit; the eighth goes over its own.
pub(super) async fn of_memory(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let limit = 128 * MIB;
    let mut sandboxes = Vec::new();
    for _ in 0..8 {
        sandboxes.push(stage.sandbox(|spec| spec.limits.memory_bytes = limit).await?);
    }
    let greedy = sandboxes.pop().context("there are eight")?;
    let holders = holders(&stage, &sandboxes, "res/res_03.c", &["hold", "100", "3"]).await?;
    let scores = sandboxes.iter().zip(&holders).map(|(sandbox, holder)| {
        let members = Groups::of(sandbox).members(holder.call.number());
        members.iter().map(|&pid| oom_score(pid)).min().unwrap_or(0)
    });
    let least = scores.min().unwrap_or(0);
    findings.expect(least >= 500, "the kernel would take sandboxes first", least);
    let ran = stage.run(&greedy, "res/res_03.c", &["one", "512"]).await?;
    findings.add(by_memory(&ran, limit)?);
    for holder in holders {
        let ran = holder.finish().await?;
        findings.verdict(&ran)?;
        findings.expect(ran.end.reason == EndReason::Done, "the others keep theirs", ran.ending());
    }
    Ok(findings.seen())
}

fn oom_score(pid: u32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap_or_default();
    text.trim().parse().unwrap_or(-1000)
}

/// Twelve sandboxes sit at their limit; one more tries a bomb.
pub(super) async fn of_processes(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let before = host::usual_start().await?;
    let mut sandboxes = Vec::new();
    for _ in 0..12 {
        sandboxes.push(stage.sandbox(|spec| spec.limits.pids = 64).await?);
    }
    let bomber = stage.sandbox(|spec| spec.limits.pids = 64).await?;
    let holders = holders(&stage, &sandboxes, "res/res_01.c", &["brim", "60", "3"]).await?;
    let ran = stage.run(&bomber, "res/res_01.c", &["stubborn", "200"]).await?;
    findings.add(by_pids(&ran)?);
    starts_on(&mut findings, before, host::usual_start().await?);
    for holder in holders {
        let ran = holder.finish().await?;
        findings.verdict(&ran)?;
        findings.expect(ran.end.reason == EndReason::Done, "the others keep theirs", ran.ending());
    }
    Ok(findings.seen())
}

const CYCLES: usize = 200;
const LANES: usize = 4;

pub(super) async fn one_after_another(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    cycles(&stage, CYCLES / 4).await?;
    stage.at_rest().await?;
    let before = Figures::now(&stage);
    cycles(&stage, CYCLES * 3 / 4).await?;
    // The last ones are still being put away when their lanes end.
    let begin = Instant::now();
    let mut after = Figures::now(&stage);
    while !after.within(&before) && begin.elapsed() < HANG_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
        after = Figures::now(&stage);
    }
    findings.expect(after.within(&before), "nothing grows", format!("{before:?} {after:?}"));
    findings.held(format!("{CYCLES} sandboxes came and went"));
    Ok(findings.seen())
}

async fn cycles(stage: &Stage, count: usize) -> anyhow::Result<()> {
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let stage = stage.clone();
        lanes.spawn(async move {
            for _ in 0..count.div_ceil(LANES) {
                let sandbox = stage.sandbox(|spec| spec.limits.memory_bytes = 32 * MIB).await?;
                let ran = stage.run(&sandbox, "res/res_20.c", &[""; 0]).await?;
                let left = String::from_utf8_lossy(&ran.stdout).contains("HELD left behind");
                anyhow::ensure!(left, "nothing was left: {}", ran.ending());
                stage.destroy(sandbox).await?;
            }
            Ok(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    Ok(())
}

/// What clean-up that forgets something would make grow.
#[derive(Debug)]
struct Figures {
    own_memory: u64,
    spawner_memory: u64,
    own_files: usize,
    spawner_files: usize,
    groups: usize,
    segments: usize,
}

impl Figures {
    fn now(stage: &Stage) -> Self {
        let spawner = stage.engines.spawner();
        Self {
            own_memory: host::own_resident(),
            spawner_memory: host::resident(spawner),
            own_files: host::open_files(std::process::id()),
            spawner_files: host::open_files(spawner),
            groups: stage.engines.count_groups(),
            segments: host::segments(),
        }
    }

    fn within(&self, before: &Self) -> bool {
        self.own_memory < before.own_memory + 4 * MIB
            && self.spawner_memory < before.spawner_memory + MIB
            && self.own_files <= before.own_files
            && self.spawner_files <= before.spawner_files
            && self.groups <= before.groups
            && self.segments <= before.segments
    }
}
