//! What is done to the sandboxes of a fleet.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_domain::{Disk, EndReason, Limits, Spec, Tier, User};
use belljar_node::{Command, Sandbox};
use rustix::process::{Pid, Signal};

use super::{Fleet, Member};
use crate::random::Random;
use crate::verbs::{finish, until, until_printed};

type Run = for<'a> fn(
    &'a Fleet,
    &'a Member,
    u64,
) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;

/// One thing that is done to a new sandbox, which it does not outlive.
pub(super) struct Act {
    pub(super) name: &'static str,
    pub(super) fits: fn(Tier) -> bool,
    pub(super) run: Run,
}

macro_rules! act {
    ($name:ident) => {
        act!($name, |_| true)
    };
    ($name:ident, $fits:expr) => {
        Act {
            name: stringify!($name),
            fits: $fits,
            run: |fleet, member, seed| Box::pin($name(fleet, member, seed)),
        }
    };
}

pub(super) const ACTS: &[Act] = &[
    act!(done),
    act!(exit),
    act!(wall_time),
    act!(cpu_time),
    act!(output),
    act!(memory),
    act!(processes),
    act!(disk),
    act!(killed),
    act!(lost),
    act!(ended_under_a_call),
    act!(files),
    act!(pause),
    act!(given_up),
    act!(cells, |tier| tier != Tier::Microvm),
    act!(suspend, Tier::can_be_saved),
    act!(fork, Tier::can_be_saved),
];

impl Fleet {
    async fn sandbox(
        &self,
        member: &Member,
        change: impl FnOnce(&mut Limits),
    ) -> anyhow::Result<Sandbox> {
        let mut spec = member.spec.clone();
        change(&mut spec.limits);
        self.node.create(&spec).await.context("make a sandbox")
    }
}

/// Runs a script that must end for `reason`.
async fn ends(sandbox: Sandbox, script: &str, reason: EndReason) -> anyhow::Result<()> {
    let end = sandbox.execute(&Command::shell(script)).await?.end;
    ensure!(end.reason == reason, "`{script}` ended by {}, not {reason}", end.reason);
    Ok(sandbox.destroy().await?)
}

async fn done(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    ends(sandbox, "echo here; id -u >/dev/null", EndReason::Done).await
}

async fn exit(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let end = sandbox.execute(&Command::shell("exit 37")).await?.end;
    ensure!(end.reason == EndReason::Exit, "ended by {}", end.reason);
    ensure!(end.exit_code == Some(37), "status {:?}", end.exit_code);
    Ok(sandbox.destroy().await?)
}

async fn wall_time(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let wall = Duration::from_millis(300);
    let sandbox = fleet.sandbox(member, |limits| limits.wall = wall).await?;
    ends(sandbox, "setsid sleep 100 & sleep 100", EndReason::TimeoutWall).await
}

async fn cpu_time(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let cpu = Some(Duration::from_millis(300));
    let sandbox = fleet.sandbox(member, |limits| limits.cpu = cpu).await?;
    ends(sandbox, "while :; do :; done", EndReason::TimeoutCpu).await
}

async fn output(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |limits| limits.output_bytes = 100_000).await?;
    ends(sandbox, "yes", EndReason::Output).await
}

async fn memory(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |limits| limits.memory_bytes = 96 << 20).await?;
    // Collects one endless line.
    ends(sandbox, "exec tail /dev/zero", EndReason::Oom).await
}

async fn processes(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |limits| limits.pids = 16).await?;
    let script = "i=0; while [ $i -lt 40 ]; do sleep 9 & i=$((i + 1)); done; wait";
    ends(sandbox, script, EndReason::Pids).await
}

async fn disk(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |limits| limits.disk_bytes = 8 << 20).await?;
    ends(sandbox, "head -c 40000000 /dev/zero >big", EndReason::Disk).await
}

async fn killed(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let mut call = sandbox.start(&Command::shell("setsid sleep 100 & sleep 100")).await?;
    tokio::time::sleep(Duration::from_millis(seed % 100)).await;
    call.kill();
    let (_, _, end) = finish(&mut call).await;
    ensure!(end.reason == EndReason::Killed, "ended by {}", end.reason);
    Ok(sandbox.destroy().await?)
}

/// The sandbox's first process is killed from outside at a random moment.
async fn lost(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let mut call = sandbox.start(&Command::shell("echo up; sleep 100")).await?;
    until_printed(&mut call, "up").await?;
    tokio::time::sleep(Duration::from_millis(seed % 50)).await;
    let pid = i32::try_from(sandbox.pid()).ok().and_then(Pid::from_raw).context("its pid")?;
    rustix::process::kill_process(pid, Signal::KILL).context("kill its first process")?;
    let (_, _, end) = finish(&mut call).await;
    ensure!(end.reason == EndReason::Lost, "ended by {}", end.reason);
    ensure!(sandbox.execute(&Command::shell("true")).await.is_err(), "it still answers");
    Ok(sandbox.destroy().await?)
}

async fn ended_under_a_call(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let mut call = sandbox.start(&Command::shell("sleep 100")).await?;
    tokio::time::sleep(Duration::from_millis(seed % 50)).await;
    sandbox.destroy().await?;
    let (_, _, end) = finish(&mut call).await;
    ensure!(end.reason == EndReason::Lost, "ended by {}", end.reason);
    Ok(())
}

async fn files(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let sent = Random::bytes(seed, 100_000 + usize::try_from(seed % 100_000)?);
    let (user, path) = (User::User, b"/home/user/data");
    sandbox.upload(user, path, 0o644, &mut &sent[..]).await?;
    let mut got = Vec::new();
    sandbox.download(user, path, 1 << 20, &mut got).await?;
    ensure!(sent == got, "a file came back different");
    Ok(sandbox.destroy().await?)
}

async fn pause(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let mut call = sandbox.start(&Command::shell("echo up; sleep 0.1; echo over")).await?;
    until_printed(&mut call, "up").await?;
    sandbox.pause().await.context("pause")?;
    tokio::time::sleep(Duration::from_millis(50 + seed % 200)).await;
    sandbox.resume().await.context("resume")?;
    let (stdout, stderr, end) = finish(&mut call).await;
    let said = String::from_utf8_lossy(&stderr);
    ensure!(end.reason == EndReason::Done, "ended by {} ({}): {said}", end.reason, end.status());
    ensure!(stdout.ends_with(b"over\n"), "it printed {:?}", String::from_utf8_lossy(&stdout));
    Ok(sandbox.destroy().await?)
}

/// Whoever asked for a sandbox loses interest at a random moment.
async fn given_up(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let patience = Duration::from_micros(seed % 200_000);
    if let Ok(made) = tokio::time::timeout(patience, fleet.node.create(&member.spec)).await {
        made.context("make a sandbox")?.destroy().await?;
    }
    Ok(())
}

/// The interpreter must not be warm: this is about what is executed.
async fn cells(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    let context = sandbox.context(fleet.python.clone()).await?;
    let value = seed % 1_000_000;
    context.execute(format!("x = {value}"), None).await;
    let ran = context.execute("print(x)", None).await;
    ensure!(ran.end.reason == EndReason::Done, "the cell ended by {}", ran.end.reason);
    let printed = String::from_utf8_lossy(&ran.stdout);
    ensure!(printed.trim() == value.to_string(), "it printed {printed:?}");
    Ok(sandbox.destroy().await?)
}

/// The process that a saved sandbox goes on with, and a file of it.
const COUNTER: &str = "(while :; do echo $$ >>ticks; sleep 0.05; done) >/dev/null 2>&1 &";

async fn counting(sandbox: &Sandbox) -> anyhow::Result<()> {
    let command = Command { leftovers: belljar_node::Leftovers::Keep, ..Command::shell(COUNTER) };
    let end = sandbox.execute(&command).await?.end;
    ensure!(end.reason == EndReason::Done, "the counter ended by {}", end.reason);
    ticks_on(sandbox).await
}

/// Fails unless the counter counts.
async fn ticks_on(sandbox: &Sandbox) -> anyhow::Result<()> {
    let before = ticks(sandbox).await?;
    until("ticks", Duration::from_secs(30), async || {
        Ok((ticks(sandbox).await? > before).then_some(()))
    })
    .await
}

async fn ticks(sandbox: &Sandbox) -> anyhow::Result<u64> {
    let said = sandbox.execute(&Command::shell("cat ticks 2>/dev/null | wc -l")).await?;
    ensure!(said.end.reason == EndReason::Done, "`wc` ended by {}", said.end.reason);
    Ok(said.stdout.text().trim().parse()?)
}

async fn suspend(fleet: &Fleet, member: &Member, seed: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    counting(&sandbox).await?;
    let dir = fleet.shelf.path().join(format!("{seed:016x}"));
    sandbox.suspend(&dir).await.context("suspend")?;
    drop(sandbox);
    let spec = Spec { disk: Disk::Memory, ..member.spec.clone() };
    let back = fleet.node.resume_from(&dir, spec).await.context("resume")?;
    std::fs::remove_dir_all(&dir)?;
    ticks_on(&back).await.context("after the resume")?;
    Ok(back.destroy().await?)
}

async fn fork(fleet: &Fleet, member: &Member, _: u64) -> anyhow::Result<()> {
    let sandbox = fleet.sandbox(member, |_| {}).await?;
    counting(&sandbox).await?;
    let checkpoint = sandbox.checkpoint().await.context("checkpoint")?;
    let one = fleet.node.fork(&checkpoint).await.context("fork")?;
    let two = fleet.node.fork(&checkpoint).await.context("fork again")?;
    drop(checkpoint);
    let mut seen = Vec::new();
    for (name, copy) in [("one", &one), ("two", &two), ("the original", &sandbox)] {
        ticks_on(copy).await.with_context(|| format!("in {name}"))?;
        let drawn = "head -c 16 /dev/urandom | od -An -tx1; echo mine >mine";
        let said = copy.execute(&Command::shell(drawn)).await?;
        seen.push(said.stdout.text());
    }
    seen.sort();
    seen.dedup();
    ensure!(seen.len() == 3, "copies drew the same random bytes");
    for sandbox in [one, two, sandbox] {
        sandbox.destroy().await?;
    }
    Ok(())
}
