//! Kills engines at random moments: no sandbox may outlive its engine, and the
//! next engine must find nothing that it does not clean up.
//!
//! The victim is this same program. This process is the subreaper of all that
//! the victim starts, so whatever outlives it becomes a descendant of ours and
//! cannot hide.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use belljar_domain::Tier;
use belljar_node::{Command, Event, Leftovers, Node};
use belljar_testkit::{OwnEngines, Process, Processes};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::Verdict;
use crate::args::Args;
use crate::fixture::Fixture;
use crate::random::Random;
use crate::residue::{Ours, descendants, orphans};
use crate::verbs::until;

/// How much CPU time code may still use after its engine: its victims never sleep, so
/// that this is how long they run on, on a host that gives them its cores.
const ALLOWED: Duration = Duration::from_secs(1);

/// How long to wait for the end; what is there after it hangs.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// The latest moment of a kill.
const LATEST_MICROS: u64 = 80_000;

pub(crate) async fn run(args: &Args, count: usize) -> anyhow::Result<Verdict> {
    let tier = args.first();
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let state = tempfile::tempdir().context("make a directory for the engines")?;
    belljar_template::host::prepare(store.path())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let engines = find_engines(state.path(), store.path(), tier).await?;
    sweep(state.path()).context("before the first kill")?;
    let mounts = engines.mounts().len();
    let mut random = Random::new(args.seed);
    let (mut times, mut late, mut dirty) = (Vec::new(), 0, 0);
    let mut with_sandbox = 0;
    let mut known = left_behind(&engines, &BTreeSet::new()).await?;
    for round in 1..=count {
        let moment = Duration::from_micros(random.below(LATEST_MICROS));
        let whom = if round % 5 == 0 { Whom::EngineAndSpawner } else { Whom::Engine };
        let seen = kill_one(tier, state.path(), store.path(), moment, whom).await?;
        with_sandbox += usize::from(seen.had_sandbox);
        if seen.ran_on > ALLOWED || !seen.left.is_empty() {
            late += 1;
            println!(
                "round {round} ({whom:?} at {moment:?}): ran on for {:?}, left {:?}",
                seen.ran_on, seen.left
            );
            end_all()?;
        }
        times.push(seen.outlived);
        sweep(state.path()).with_context(|| format!("round {round}"))?;
        let left = left_behind(&engines, &known).await?;
        if !left.is_empty() || engines.mounts().len() > mounts {
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
    println!("{late} ran on for over {ALLOWED:?}, {dirty} left something after the next start");
    Ok(if late + dirty == 0 { Verdict::Passed } else { Verdict::Failed })
}

/// Finds the traces of engines in a state directory by one that ends as it should.
async fn find_engines(state: &Path, store: &Path, tier: Tier) -> anyhow::Result<OwnEngines> {
    let fixture = Fixture::start(state, tier, store).await?;
    let ours = Ours::find(&fixture).await?;
    fixture.node.stop().await;
    Ok(ours.engines)
}

/// What is left of dead engines and was not known before.
async fn left_behind(
    engines: &OwnEngines,
    known: &BTreeSet<PathBuf>,
) -> anyhow::Result<BTreeSet<PathBuf>> {
    let find = || -> BTreeSet<PathBuf> { orphans(engines).difference(known).cloned().collect() };
    let none = until("nothing left", Duration::from_secs(30), async || {
        Ok(find().is_empty().then_some(()))
    });
    Ok(if none.await.is_ok() { BTreeSet::new() } else { find() })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whom {
    Engine,
    EngineAndSpawner,
}

struct Seen {
    /// Until the last process was gone.
    outlived: Duration,
    /// The CPU time that processes used after the kill, together.
    ran_on: Duration,
    had_sandbox: bool,
    /// What was still there at the end of all patience.
    left: Vec<Process>,
}

async fn kill_one(
    tier: Tier,
    state: &Path,
    store: &Path,
    moment: Duration,
    whom: Whom,
) -> anyhow::Result<Seen> {
    let victim = Program::new("/proc/self/exe")
        .args(["--tier", tier.as_str(), "--victim"])
        .arg(store)
        .arg("--state")
        .arg(state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start a victim")?;
    // The one place where time itself is the condition.
    tokio::time::sleep(moment).await;
    let all = Processes::now();
    let spawners = all.iter().filter(|process| process.parent == victim.id());
    let spawners: Vec<_> = spawners.map(|process| process.pid).collect();
    // The victim itself, its spawner, and something below that.
    let had_sandbox = spawners.iter().any(|spawner| !all.below(*spawner).is_empty());
    kill(victim.id());
    if whom == Whom::EngineAndSpawner {
        spawners.into_iter().for_each(kill);
    }
    let killed = Instant::now();
    let own = std::process::id();
    // By process: what it had used when it was first seen, and what it has used by now.
    let mut used: BTreeMap<u32, (Duration, Duration)> = BTreeMap::new();
    loop {
        reap();
        let alive = descendants(own);
        for process in &alive {
            if let Some(now) = process.cpu() {
                used.entry(process.pid).or_insert((now, now)).1 = now;
            }
        }
        if alive.is_empty() || killed.elapsed() > HANG_LIMIT {
            let ran_on = used.values().map(|(first, last)| last.saturating_sub(*first)).sum();
            return Ok(Seen { outlived: killed.elapsed(), ran_on, had_sandbox, left: alive });
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
        ensure!(started.elapsed() < HANG_LIMIT, "cannot end {alive:?}");
    }
}

/// Starts and ends an engine, as the next command would.
fn sweep(state: &Path) -> anyhow::Result<()> {
    let status = Program::new("/proc/self/exe")
        .args(["--sweeper", "--state"])
        .arg(state)
        .stdin(Stdio::null())
        .status()
        .context("start the sweeper")?;
    ensure!(status.success(), "the next engine does not start: {status}");
    reap();
    Ok(())
}

pub(crate) async fn be_sweeper(args: &Args) -> anyhow::Result<Verdict> {
    Node::start(args.state.as_deref()).await.context("start the engine")?.stop().await;
    Ok(Verdict::Passed)
}

/// Makes a sandbox with code that never stops by itself, and waits for death.
pub(crate) async fn be_victim(args: &Args, store: &Path) -> anyhow::Result<Verdict> {
    let state = args.state.as_deref().context("no directory for the engine was named")?;
    let fixture = Fixture::start(state, args.first(), store).await?;
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
