//! Makes and ends many sandboxes, and counts what is left of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::EndReason;
use belljar_node::Command;
use tokio::task::JoinSet;

use crate::Verdict;
use crate::args::Args;
use crate::fixture::Fixture;
use crate::residue::{self, Footprint, Ours};
use crate::verbs::until;

/// Everything of our own engine that could grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counts {
    processes: usize,
    mounts: usize,
    groups: usize,
    namespaces: usize,
    state_files: usize,
    descriptors: usize,
    spawner_descriptors: usize,
}

impl Counts {
    pub(crate) fn take(ours: &Ours) -> anyhow::Result<Self> {
        let footprint = Footprint::of_this_process(ours.engines.state())?;
        Ok(Self {
            processes: ours.processes().len(),
            mounts: footprint.mounts,
            groups: ours.sandbox_groups(),
            namespaces: ours.namespaces().len(),
            state_files: ours.engines.count_state(),
            descriptors: footprint.descriptors.len(),
            spawner_descriptors: residue::descriptor_count(ours.engines.spawner()),
        })
    }

    pub(crate) fn rows<'a>(&'a self, after: &'a Self) -> [(&'static str, usize, usize); 7] {
        [
            ("processes", self.processes, after.processes),
            ("mounts", self.mounts, after.mounts),
            ("cgroup directories", self.groups, after.groups),
            ("namespaces", self.namespaces, after.namespaces),
            ("entries of the state directory", self.state_files, after.state_files),
            ("own descriptors", self.descriptors, after.descriptors),
            ("the spawner's descriptors", self.spawner_descriptors, after.spawner_descriptors),
        ]
    }
}

pub(crate) async fn run(args: &Args, count: usize) -> anyhow::Result<Verdict> {
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let state = tempfile::tempdir().context("make a directory for the engine")?;
    let fixture = Arc::new(Fixture::start(state.path(), args.first(), store.path()).await?);
    let ours = Ours::find(&fixture).await?;
    // One round first: what the engine keeps for good is not growth.
    rounds(&fixture, args.parallel, args.parallel).await?;
    ours.sandboxes_gone(fixture.spec().limits.wall).await?;
    let before = Counts::take(&ours)?;
    let resident =
        [residue::resident_kib(std::process::id()), residue::resident_kib(ours.engines.spawner())];
    let started = Instant::now();
    let mut times = rounds(&fixture, count, args.parallel).await?;
    let took = started.elapsed();
    // The last ones are still being put away when their calls have ended.
    let settled = until("no growth", Duration::from_secs(60), async || {
        let after = Counts::take(&ours)?;
        Ok(residue::no_growth(&before.rows(&after)).is_ok().then_some(after))
    })
    .await;
    let after = match &settled {
        Ok(after) => after.clone(),
        Err(_) => Counts::take(&ours)?,
    };
    times.sort();
    let at = |part: usize| times.get((times.len() - 1) * part / 100).copied().unwrap_or_default();
    println!(
        "{}: {count} sandboxes, {} at a time: {:.1} s, {:.1} a second",
        fixture.tier,
        args.parallel,
        took.as_secs_f64(),
        count as f64 / took.as_secs_f64(),
    );
    println!("create + run + destroy: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100));
    for (name, before, after) in before.rows(&after) {
        println!("{name:32} {before:6} before {after:6} after");
    }
    let now =
        [residue::resident_kib(std::process::id()), residue::resident_kib(ours.engines.spawner())];
    println!("resident KiB, own and spawner's: {resident:?} before, {now:?} after");
    if let Some(fixture) = Arc::into_inner(fixture) {
        fixture.node.stop().await;
    }
    match residue::no_growth(&before.rows(&after)) {
        Ok(()) => {
            println!("nothing is left");
            Ok(Verdict::Passed)
        }
        Err(error) => {
            println!("FAILED: {error:#}");
            Ok(Verdict::Failed)
        }
    }
}

/// Makes, uses and ends `count` sandboxes, `parallel` at a time.
async fn rounds(
    fixture: &Arc<Fixture>,
    count: usize,
    parallel: usize,
) -> anyhow::Result<Vec<Duration>> {
    let mut running = JoinSet::new();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        if running.len() >= parallel.max(1)
            && let Some(done) = running.join_next().await
        {
            times.push(done??);
        }
        let fixture = fixture.clone();
        running.spawn(async move {
            let started = Instant::now();
            let sandbox = fixture.sandbox().await?;
            let end = sandbox.execute(&Command::new(["/bin/true"])).await?.end;
            ensure!(end.reason == EndReason::Done, "`true` ended by {}", end.reason);
            sandbox.destroy().await?;
            anyhow::Ok(started.elapsed())
        });
    }
    while let Some(done) = running.join_next().await {
        times.push(done??);
    }
    Ok(times)
}
