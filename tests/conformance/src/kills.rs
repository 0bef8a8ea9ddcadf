//! Kills engines at random moments: no sandbox may outlive its engine, and the
//! next engine must find nothing that it does not clean up.
//!
//! The victim is this same program. This process is the subreaper of all that
//! the victim starts, so whatever outlives it becomes a descendant of ours and
//! cannot hide.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_model::Tier;
use belljar_node::{Command, Event, Leftovers, Node};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::Verdict;
use crate::args::Args;
use crate::fixture::Fixture;
use crate::random::Random;
use crate::residue::{self, Orphans, Process, descendants};
use crate::verbs::until;

/// How long anything may run on after its engine.
const ALLOWED: Duration = Duration::from_secs(1);

/// How long to wait for the end at all, to tell how late it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// The latest moment of a kill.
const LATEST_MICROS: u64 = 80_000;

pub(crate) async fn run(args: &Args, count: usize) -> anyhow::Result<Verdict> {
    let tier = args.first();
    let store = tempfile::tempdir().context("make a directory for the template")?;
    belljar_template::host::prepare(store.path())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    sweep().context("before the first kill")?;
    let mounts = residue::mounts()?;
    let mut random = Random::new(args.seed);
    let (mut times, mut late, mut dirty) = (Vec::new(), 0, 0);
    let mut with_sandbox = 0;
    let mut known = left_behind(&BTreeSet::new()).await?;
    for round in 1..=count {
        let moment = Duration::from_micros(random.below(LATEST_MICROS));
        let whom = if round % 5 == 0 { Whom::EngineAndSpawner } else { Whom::Engine };
        let seen = kill_one(tier, store.path(), moment, whom).await?;
        with_sandbox += usize::from(seen.had_sandbox);
        if seen.outlived > ALLOWED {
            late += 1;
            println!(
                "round {round} ({whom:?} at {moment:?}): {:?} late: {:?}",
                seen.outlived, seen.left
            );
            end_all()?;
        }
        times.push(seen.outlived);
        sweep().with_context(|| format!("round {round}"))?;
        let left = left_behind(&known).await?;
        if !left.is_empty() || residue::mounts()? > mounts {
            dirty += 1;
            println!("round {round} ({whom:?} at {moment:?}): left {left:?}");
            known.extend(left);
        }
    }
    times.sort();
    let at = |part: usize| times.get((times.len() - 1) * part / 100).copied().unwrap_or_default();
    println!(
        "{tier}: {count} kills, {with_sandbox} with a sandbox alive: its last process lived on \
         for p50 {:?}, p90 {:?}, max {:?}",
        at(50),
        at(90),
        at(100)
    );
    println!("{late} over {ALLOWED:?}, {dirty} with something left after the next start");
    Ok(if late + dirty == 0 { Verdict::Passed } else { Verdict::Failed })
}

/// What is left of dead engines and was not known before. Others may be
/// half-way through a start or an end of their own, which passes.
async fn left_behind(known: &BTreeSet<PathBuf>) -> anyhow::Result<BTreeSet<PathBuf>> {
    let find = || -> anyhow::Result<BTreeSet<PathBuf>> {
        let orphans = Orphans::find()?;
        Ok(orphans.paths().filter(|path| !known.contains(*path)).cloned().collect())
    };
    let none = until("nothing left", Duration::from_secs(3), async || {
        Ok(find()?.is_empty().then_some(()))
    });
    if none.await.is_ok() { Ok(BTreeSet::new()) } else { find() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    Engine,
    EngineAndSpawner,
}

struct Seen {
    outlived: Duration,
    had_sandbox: bool,
    /// What was still there when the allowed time was over.
    left: Vec<Process>,
}

async fn kill_one(tier: Tier, store: &Path, moment: Duration, whom: Whom) -> anyhow::Result<Seen> {
    let victim = Program::new("/proc/self/exe")
        .args(["--tier", tier.as_str(), "--victim"])
        .arg(store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start a victim")?;
    // The one place where time itself is the condition.
    tokio::time::sleep(moment).await;
    let spawners: Vec<_> = Process::all()
        .into_iter()
        .filter(|process| process.parent == victim.id())
        .map(|process| process.pid)
        .collect();
    // The victim itself, its spawner, and something below that.
    let had_sandbox = spawners.iter().any(|spawner| !descendants(*spawner).is_empty());
    kill(victim.id());
    if whom == Whom::EngineAndSpawner {
        spawners.into_iter().for_each(kill);
    }
    let killed = Instant::now();
    let own = std::process::id();
    let mut left = Vec::new();
    loop {
        reap();
        let alive = descendants(own);
        if alive.is_empty() || killed.elapsed() > PATIENCE {
            return Ok(Seen { outlived: killed.elapsed(), had_sandbox, left });
        }
        if killed.elapsed() > ALLOWED {
            left = alive;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // One that is gone already needs no kill.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
}

/// Takes the dead off our hands; all of them are ours.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Ends what a failed round left, so that the next one starts clean.
fn end_all() -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let alive = descendants(std::process::id());
        if alive.is_empty() {
            return Ok(());
        }
        alive.iter().for_each(|process| kill(process.pid));
        reap();
        ensure!(started.elapsed() < PATIENCE, "cannot end {alive:?}");
    }
}

/// Starts and ends an engine, as the next command would.
fn sweep() -> anyhow::Result<()> {
    let status = Program::new("/proc/self/exe")
        .arg("--sweeper")
        .stdin(Stdio::null())
        .status()
        .context("start the sweeper")?;
    ensure!(status.success(), "the next engine does not start: {status}");
    reap();
    Ok(())
}

pub(crate) async fn be_sweeper() -> anyhow::Result<Verdict> {
    Node::start(None).await.context("start the engine")?.stop().await;
    Ok(Verdict::Passed)
}

/// Makes a sandbox with code that never stops by itself, and waits for death.
pub(crate) async fn be_victim(args: &Args, store: &Path) -> anyhow::Result<Verdict> {
    let node = Node::start(None).await.context("start the engine")?;
    let fixture = Fixture::new(node, args.first(), store)?;
    let sandbox = fixture.sandbox().await?;
    let script = "trap '' TERM HUP INT; setsid sh -c 'while :; do :; done' & while :; do :; done";
    let command = Command { leftovers: Leftovers::Keep, ..Command::shell(script) };
    let mut call = sandbox.start(&command).await?;
    loop {
        if let Event::End(end) = call.next().await {
            bail!("the endless call ended by {}", end.reason);
        }
    }
}
