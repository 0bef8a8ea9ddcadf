//! A mixed fleet: sandboxes of random tiers, random acts in them, random kills.
//!
//! Every act knows the one end that is right for it. A wrong end, an error or
//! something left behind fails the run; the seed repeats the choices, though not
//! how they meet.

mod acts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::{RootFs, Spec, Tier};
use belljar_node::Node;
use tokio::task::JoinSet;

use crate::Verdict;
use crate::args::{Args, Wanted};
use crate::churn::Counts;
use crate::fixture::Fixture;
use crate::pace::Pace;
use crate::random::Random;
use crate::residue::{self, Ours};
use crate::verbs::until;
use acts::{ACTS, Act};

/// One tier of the fleet.
#[derive(Debug, Clone)]
struct Member {
    spec: Spec,
    /// How many of the others are started for one of these.
    weight: u64,
}

/// What the acts share.
#[derive(Debug)]
struct Fleet {
    node: Node,
    python: belljar_node::ContextOptions,
    /// Where sandboxes are put away to.
    shelf: tempfile::TempDir,
}

/// How often what went on is told.
const TELL: Duration = Duration::from_secs(60);

/// After this many failures there is no use in going on.
const ENOUGH: usize = 20;

pub(crate) async fn run(args: &Args, length: Duration) -> anyhow::Result<Verdict> {
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let state = tempfile::tempdir().context("make a directory for the engine")?;
    let fixture = Fixture::start(state.path(), Tier::Jail, store.path()).await?;
    let node = fixture.node.clone();
    let template = belljar_warmed::template()?;
    let members = members(args, &node, &template.root).await?;
    let ours = Ours::find(&fixture).await?;
    let shelf = tempfile::tempdir().context("make a directory for saved sandboxes")?;
    let fleet = Arc::new(Fleet { node, python: belljar_warmed::python(&template)?, shelf });
    shake_down(&fleet, &members).await?;
    ours.sandboxes_gone(Duration::from_secs(10)).await?;
    let before = Counts::take(&ours)?;
    let log = sail(args, &fleet, &members, length).await;
    log.print();
    let settled = until("no growth", Duration::from_secs(60), async || {
        let after = Counts::take(&ours)?;
        Ok(residue::no_growth(&before.rows(&after)).is_ok().then_some(()))
    });
    let settled = settled.await;
    for (name, before, after) in before.rows(&Counts::take(&ours)?) {
        println!("{name:32} {before:6} before {after:6} after");
    }
    let left = std::fs::read_dir(fleet.shelf.path())?.count();
    println!("{:32} {left:6} left", "saved sandboxes");
    drop(fixture);
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.node.stop().await;
    }
    let clean = settled.is_ok() && left == 0;
    println!("{}", if clean { "nothing is left" } else { "FAILED: something is left" });
    Ok(if clean && log.failures == 0 { Verdict::Passed } else { Verdict::Failed })
}

/// The tiers that take part: all that were named, or all that run here.
async fn members(args: &Args, node: &Node, root: &RootFs) -> anyhow::Result<Vec<Member>> {
    let mut members = Vec::new();
    for (tier, wanted) in args.tiers() {
        // Nothing of its own to stand on: it cannot have the same root.
        if tier == Tier::Process {
            continue;
        }
        let mut spec = Spec::new(tier, root.clone());
        spec.limits.memory_bytes = 256 << 20;
        spec.limits.disk_bytes = 64 << 20;
        spec.limits.cpu_millis = 2000;
        let sandbox = match node.create(&spec).await {
            Ok(sandbox) => sandbox,
            Err(error) if wanted == Wanted::IfHere => {
                println!("{tier}: not here: {error}");
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("start {tier}")),
        };
        let pace = Pace::find(tier, &sandbox).await?;
        pace.print(tier);
        sandbox.destroy().await?;
        let weight = if tier == Tier::Microvm { 8 } else { 1 };
        spec.limits.wall = pace.within(Duration::from_secs(20));
        members.push(Member { spec, weight });
    }
    Ok(members)
}

/// What an engine keeps for good, one for each range of user ids, is no growth.
const RANGES: usize = 16;

/// Uses every range of user ids once, with the quickest tier that keeps something.
async fn shake_down(fleet: &Arc<Fleet>, members: &[Member]) -> anyhow::Result<()> {
    let containers = |member: &&Member| matches!(member.spec.tier, Tier::Oci(_));
    if let Some(member) = members.iter().find(containers) {
        for _ in 0..RANGES {
            fleet.node.create(&member.spec).await?.destroy().await?;
        }
    }
    Ok(())
}

/// What was done, and what went wrong.
#[derive(Debug, Default)]
struct Log {
    done: BTreeMap<(&'static str, &'static str), usize>,
    failures: usize,
}

impl Log {
    fn take(&mut self, tier: Tier, act: &Act, number: u64, result: anyhow::Result<()>) {
        *self.done.entry((tier.as_str(), act.name)).or_default() += 1;
        if let Err(error) = result {
            self.failures += 1;
            println!("FAILED {tier} {} (number {number}): {error:#}", act.name);
        }
    }

    fn print(&self) {
        let total: usize = self.done.values().sum();
        println!("{total} acts, {} failed", self.failures);
        for ((tier, act), count) in &self.done {
            println!("  {tier:10} {act:24} {count:6}");
        }
    }
}

async fn sail(args: &Args, fleet: &Arc<Fleet>, members: &[Member], length: Duration) -> Log {
    let mut random = Random::new(args.seed);
    let wanted = args.filter.as_deref().unwrap_or_default();
    let (started, mut told) = (Instant::now(), Instant::now());
    let (mut log, mut number) = (Log::default(), 0);
    let mut running = JoinSet::new();
    while started.elapsed() < length && log.failures < ENOUGH {
        while running.len() < args.parallel.max(1) {
            number += 1;
            let (member, act) = choose(&mut random, members, wanted);
            let (fleet, seed) = (fleet.clone(), random.next());
            let number = number;
            running.spawn(async move {
                let result = (act.run)(&fleet, &member, seed).await;
                (member.spec.tier, act, number, result)
            });
        }
        if let Some(Ok((tier, act, number, result))) = running.join_next().await {
            log.take(tier, act, number, result);
        }
        if told.elapsed() >= TELL {
            told = Instant::now();
            let total: usize = log.done.values().sum();
            println!(
                "{:5.0} s: {total} acts, {} failed",
                started.elapsed().as_secs_f64(),
                log.failures
            );
        }
    }
    while let Some(done) = running.join_next().await {
        match done {
            Ok((tier, act, number, result)) => log.take(tier, act, number, result),
            Err(error) => {
                log.failures += 1;
                println!("FAILED: an act panicked: {error}");
            }
        }
    }
    log
}

/// A tier that takes its turn, and an act that it can do.
fn choose(random: &mut Random, members: &[Member], wanted: &str) -> (Member, &'static Act) {
    loop {
        let member = &members[index(random, members.len())];
        let act = &ACTS[index(random, ACTS.len())];
        let fits = (act.fits)(member.spec.tier) && act.name.contains(wanted);
        if fits && random.below(member.weight) == 0 {
            return (member.clone(), act);
        }
    }
}

fn index(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap_or(0)
}
