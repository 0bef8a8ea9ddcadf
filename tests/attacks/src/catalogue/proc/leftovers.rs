//! Processes that want to be there when their call is over.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::EndReason;
use belljar_node::{Command, Defence, Leftovers};

use crate::attack::{Seen, verdict};
use crate::harness::files::HANG_LIMIT;
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

/// The name of the payload's processes, and their least number.
const LOOSE: (&str, usize) = ("bj-proc19", 6);

/// Leaves processes in a sandbox of the process tier without a cgroup; then the sandbox is ended,
/// and of another one only the guest.
pub(super) async fn without_a_cgroup(stage: Stage) -> anyhow::Result<Seen> {
    // Leftovers of a control end soon by themselves; others live for longer than is waited for.
    let seconds = if stage.is_control() { "5" } else { "60" };
    let off: &[Defence] = match stage.is_control() {
        true => &[Defence::Cgroups, Defence::TreeKill],
        false => &[Defence::Cgroups],
    };
    let mut findings = Findings::default();
    let loose = stage.without(off);
    for end in [LooseEnd::Sandbox, LooseEnd::Guest] {
        let sandbox = loose.sandbox(|spec| spec.limits.pids = 256).await?;
        let command = loose.place(&sandbox, "proc/proc_19.c", &[seconds]).await?;
        let command = Command { leftovers: Leftovers::Keep, ..command };
        verdict(&loose.exec(&sandbox, &command).await?)?;
        let guest = sandbox.pid();
        wait_until(|| host::named(&loose.engines, LOOSE.0).len() >= LOOSE.1)
            .await
            .context("nothing was left behind")?;
        let begin = Instant::now();
        match end {
            LooseEnd::Sandbox => {
                loose.destroy(sandbox).await?;
            }
            LooseEnd::Guest => host::kill(guest)?,
        }
        let patience = if stage.is_control() { Duration::from_millis(500) } else { HANG_LIMIT };
        let gone = wait_within(patience, || host::named(&loose.engines, LOOSE.0).is_empty()).await;
        let took = begin.elapsed();
        let left = host::named(&loose.engines, LOOSE.0);
        findings.expect(
            gone,
            &format!("nothing outlives the end of the {end:?}"),
            format!("{left:?}"),
        );
        findings.in_time(took, "at once");
        end_all(&loose).await?;
    }
    Ok(findings.seen())
}

#[derive(Debug, Clone, Copy)]
enum LooseEnd {
    Sandbox,
    Guest,
}

/// Ends what a control has left. Some of it moves from process to process, for some seconds.
async fn end_all(stage: &Stage) -> anyhow::Result<()> {
    wait_until(|| {
        let left = host::named(&stage.engines, LOOSE.0);
        // One that is gone by now is no failure.
        left.iter().for_each(|&pid| drop(host::kill(pid)));
        left.is_empty()
    })
    .await
    .context("processes of a control stay")
}

async fn wait_until(is_so: impl FnMut() -> bool) -> anyhow::Result<()> {
    anyhow::ensure!(wait_within(HANG_LIMIT, is_so).await, "waited for {HANG_LIMIT:?}");
    Ok(())
}

async fn wait_within(longest: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > longest {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}
