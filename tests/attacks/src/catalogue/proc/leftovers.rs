//! Processes that want to be there when their call is over.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_model::EndReason;
use belljar_node::{Command, Leftovers};

use crate::attack::{Seen, verdict};
use crate::harness::findings::Findings;
use crate::harness::host;
use crate::harness::stage::Stage;

pub(super) async fn daemon(stage: Stage) -> anyhow::Result<Seen> {
    plant_and_check(&stage, "proc/proc_01.c").await
}

pub(super) async fn reapers(stage: Stage) -> anyhow::Result<Seen> {
    plant_and_check(&stage, "proc/proc_17.c").await
}

/// Two calls of one sandbox: the second looks for what the first left.
async fn plant_and_check(stage: &Stage, file: &str) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    let mut command = stage.place(&sandbox, file, &["plant"]).await?;
    verdict(&stage.exec(&sandbox, &command).await?)?;
    command.argv.pop();
    command.argv.push(b"check".to_vec());
    verdict(&stage.exec(&sandbox, &command).await?)
}

pub(super) async fn comets(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|spec| spec.limits.pids = 1024).await?;
    let fly = stage.place(&sandbox, "proc/proc_03.c", &["fly", "4", "4"]).await?;
    let with = |arg: &str| {
        let mut command = fly.clone();
        command.argv[1] = arg.into();
        command
    };
    verdict(&stage.exec(&sandbox, &with("leave")).await?)?;
    findings.verdict(&stage.exec(&sandbox, &with("check")).await?)?;
    if findings.is_breached() {
        return Ok(findings.seen());
    }
    let mut running = stage.start(&sandbox, &fly).await?;
    running.until("NOTE 4 comets").await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.call.kill();
    let begin = Instant::now();
    let ran = running.finish().await?;
    let took = begin.elapsed();
    // Their zombies may reach the limit of processes before the kill comes.
    let ended = matches!(ran.end.reason, EndReason::Killed | EndReason::Pids);
    findings.expect(ended, "the kill ended it", ran.ending());
    findings.in_time(took, "at once");
    findings.verdict(&stage.exec(&sandbox, &with("check")).await?)?;
    Ok(findings.seen())
}

pub(super) async fn later_call(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let sandbox = stage.sandbox(|_| {}).await?;
    let plant = stage.place(&sandbox, "proc/proc_14.c", &["plant", "4"]).await?;
    let mut victim = plant.clone();
    victim.argv[1] = b"victim".to_vec();
    verdict(&stage.exec(&sandbox, &plant).await?)?;
    let ran = stage.exec(&sandbox, &victim).await?;
    findings.verdict(&ran)?;
    if findings.is_breached() {
        return Ok(findings.seen());
    }
    // Where they may stay, they stay the first call's.
    let keep = Command { leftovers: Leftovers::Keep, ..plant };
    let running = stage.start(&sandbox, &keep).await?;
    let group = format!("{}/c{}", sandbox.id(), running.call.number());
    verdict(&running.finish().await?)?;
    let survivor =
        host::named(&stage.engines, "bj-proc14").first().copied().context("nothing was left")?;
    let groups = host::groups_of_process(survivor);
    let ours: Vec<_> = groups.lines().filter(|line| line.contains(sandbox.id().as_str())).collect();
    let counted = ours.iter().filter(|line| line.ends_with(&group)).count();
    findings.expect(counted > 0, "a survivor stays in its call's group", &groups);
    let ran = stage.exec(&sandbox, &victim).await?;
    let own: u64 = ran.after("NOTE CPU_MS=").concat().parse().context("no CPU_MS")?;
    let billed = ran.end.usage.cpu;
    let fair = billed <= Duration::from_millis(own + 150);
    findings.expect(fair, "the later call pays for itself only", format!("{billed:?}, own {own}"));
    Ok(findings.seen())
}

pub(super) async fn late_output(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    for leftovers in [Leftovers::Kill, Leftovers::Keep] {
        let sandbox = stage.sandbox(|_| {}).await?;
        let mut command = stage.place(&sandbox, "proc/proc_16.c", &["60"]).await?;
        command.leftovers = leftovers;
        let begin = Instant::now();
        let ran = stage.exec(&sandbox, &command).await?;
        let took = begin.elapsed();
        findings.verdict(&ran)?;
        findings.expect(ran.end.reason == EndReason::Done, "it is done", ran.ending());
        findings.in_time(took, "the end does not wait");
    }
    Ok(findings.seen())
}

/// The same program, while its call still runs: then its line must come.
pub(super) async fn output_in_time(stage: Stage) -> anyhow::Result<Seen> {
    let sandbox = stage.sandbox(|_| {}).await?;
    stage.place(&sandbox, "proc/proc_16.c", &[""; 0]).await?;
    let script = Command::shell("/tmp/proc_16 1; /bin/sleep 2");
    verdict(&stage.exec(&sandbox, &script).await?)
}
