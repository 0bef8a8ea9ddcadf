//! More than the engine could hold, or messages that cannot be read.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::User;
use belljar_node::{Changes, Sandbox, WatchKind};

use super::guest::{Hostile, Scenario};
use super::{call, is_own, neighbour_serves, told};
use crate::attack::Seen;
use crate::harness::files::HANG_LIMIT;
use crate::harness::findings::Findings;
use crate::harness::host::resident;
use crate::harness::stage::Stage;

/// What this process may grow by while a guest floods it: each flood is 300 MB and more.
const GROWTH: u64 = 64 << 20;

/// Frames that no guest would send, and more of them than anybody reads.
pub(super) async fn frames(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    if !stage.is_control() {
        unreadable(&stage, &hostile, &mut findings).await?;
    }
    for scenario in [Scenario::FloodOfEvents, Scenario::FloodOfAnswers] {
        let sandbox = hostile.sandbox(scenario).await?;
        let (grown, _) = flooded(&stage, &sandbox).await?;
        let instead = format!("{scenario:?}: {} MiB more", grown >> 20);
        findings.expect(grown < GROWTH, "a flood is not held in memory", instead);
    }
    findings.expect(neighbour_serves(&stage).await?, "others are served", "they are not");
    hostile.stop().await?;
    Ok(findings.seen())
}

async fn unreadable(
    stage: &Stage,
    hostile: &Hostile,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    for scenario in [
        Scenario::EndlessFrame,
        Scenario::UnknownKind,
        Scenario::BadBody,
        Scenario::BadEnum,
        Scenario::AnswersTwice,
    ] {
        let sandbox = hostile.sandbox(scenario).await?;
        for _ in 0..2 {
            let ran = call(stage, &sandbox).await?;
            let is_lost = match &ran {
                Err(_) => true,
                Ok(ran) => ran.end.exit_code.is_none() && ran.stdout.is_empty(),
            };
            let instead = format!("{scenario:?}: {}", told(&ran));
            findings.expect(is_lost, "what breaks the protocol ends the link", instead);
        }
    }
    // Channels that were never opened are not heard.
    let sandbox = hostile.sandbox(Scenario::NeverAsked).await?;
    let ran = call(stage, &sandbox).await?;
    findings.expect(is_own(&ran), "answers to nothing are dropped", told(&ran));
    Ok(())
}

/// By how much this process has grown when the guest is done with its flood on a watch that is
/// not read, and the watch.
async fn flooded(stage: &Stage, sandbox: &Sandbox) -> anyhow::Result<(u64, Option<Changes>)> {
    let before = resident(std::process::id());
    let watch = tokio::time::timeout(HANG_LIMIT, sandbox.watch(User::User, b"/tmp", false)).await;
    // One whose guest broke the protocol at once is gone.
    let watch = watch.context("a watch is not answered")?.ok();
    // It answers when it is done, or is gone.
    let _ = call(stage, sandbox).await?;
    Ok((resident(std::process::id()).saturating_sub(before), watch))
}

/// 400,000 counts and as many events at once, of which none is read.
pub(super) async fn events(stage: Stage) -> anyhow::Result<Seen> {
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    let sandbox = hostile.sandbox(Scenario::FloodOfCounters).await?;
    let (flood, serves) = tokio::join!(flooded(&stage, &sandbox), neighbour_serves(&stage));
    let (grown, watch) = flood?;
    findings.expect(serves?, "others are served meanwhile", "they are not");
    findings.expect(grown < GROWTH, "they are not held in memory", format!("{} MiB", grown >> 20));
    let mut watch = watch.context("the watch was refused")?;
    let (mut read, mut is_lost) = (0, false);
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(1), watch.next()).await {
        read += 1;
        is_lost |= event?.kind == WatchKind::Overflow;
    }
    findings.expect(is_lost, "whoever reads is told of what was lost", format!("all {read} came"));
    drop(watch);
    drop(sandbox);
    hostile.stop().await?;
    Ok(findings.seen())
}

/// Descriptors that a guest sends beside its frames.
pub(super) async fn descriptors(stage: Stage) -> anyhow::Result<Seen> {
    sent(stage, 0).await
}

/// The same beside as many descriptors as one message of it brings.
pub(super) async fn descriptors_kept(stage: Stage) -> anyhow::Result<Seen> {
    sent(stage, 200).await
}

async fn sent(stage: Stage, kept: usize) -> anyhow::Result<Seen> {
    /// What a call of an obedient guest needs, and more.
    const MOST: usize = 100;
    let mut findings = Findings::default();
    let hostile = Hostile::start(&stage).await?;
    let sandbox = hostile.sandbox(Scenario::SendsDescriptors).await?;
    let before = open_descriptors();
    let (mut most, mut own) = (0, Vec::new());
    let ran = {
        let mut ran = std::pin::pin!(call(&stage, &sandbox));
        loop {
            tokio::select! {
                ran = &mut ran => break ran?,
                () = tokio::time::sleep(Duration::from_millis(5)) => {
                    most = most.max(open_descriptors());
                    if own.len() < kept {
                        let null = || fs::File::open("/dev/null");
                        own = (0..kept).map(|_| null()).collect::<Result<_, _>>()?;
                    }
                }
            }
        }
    };
    drop(own);
    findings.expect(is_own(&ran), "frames are read, descriptors are not taken", told(&ran));
    let grown = most.saturating_sub(before);
    let instead = format!("{grown} more are open");
    findings.expect(grown < MOST, "none of 400,000 descriptors is kept", instead);
    findings.expect(neighbour_serves(&stage).await?, "others are served", "they are not");
    drop(sandbox);
    hostile.stop().await?;
    Ok(findings.seen())
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
