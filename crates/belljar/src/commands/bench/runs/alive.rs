//! The measurement: runs come, are all alive, lose a replica and a node, and end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::SandboxId;
use belljar_journal::{Journal, State};
use belljar_store::{Activity, Runs};
use serde::Serialize;
use tokio::task::JoinHandle;

use super::super::machine;
use super::TENANT;
use super::load::{self, Client, CreatedRun};
use super::meter::{Meter, RoleCpu};
use super::model::Model;
use super::patience::Patience;
use super::rig::{CONTROLS, Rig, node_name};
use super::script::Script;
use super::verify::{Expected, Verdict, verify};
use crate::cli::BenchRuns;
use crate::config::Config;
use crate::output::Printer;

/// PostgreSQL writes its own statistics down about once a second.
const SETTLE: Duration = Duration::from_secs(2);
/// Time for which the idle platform is watched, to learn what it commits by itself.
const IDLE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);
/// Time for which a killed process is away.
const AWAY: Duration = Duration::from_secs(2);

/// The number of runs that there were at once.
#[derive(Debug, Serialize)]
pub(super) struct Alive {
    pub(super) peak: u64,
    /// Sandboxes at once, when the kills began.
    pub(super) sandboxes: u64,
    /// Of those that were created, until all were worked on.
    pub(super) per_second: f64,
    pub(super) created_in_s: f64,
    /// Runs that ended per second, after the model gave the answers that it held back.
    pub(super) ended_per_second: f64,
    pub(super) all_ended_after_s: f64,
    /// Replicas and nodes.
    pub(super) killed: Vec<String>,
}

/// Memory of both replicas with their gateways, and of the host.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Memory {
    /// Of everything on this host: the rest of what is available.
    pub(super) available_idle: u64,
    pub(super) available_peak: u64,
    pub(super) control_idle: u64,
    pub(super) control_peak: u64,
    pub(super) gateways_idle: u64,
    pub(super) gateways_peak: u64,
}

/// Work of PostgreSQL for runs alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActivityOfRuns {
    pub(super) writes: f64,
    pub(super) commits: f64,
    pub(super) wal_bytes: f64,
}

#[derive(Debug)]
pub(super) struct Measured {
    pub(super) alive: Alive,
    pub(super) verdict: Verdict,
    pub(super) cpu: RoleCpu,
    pub(super) memory: Memory,
    pub(super) creates: Vec<Duration>,
    pub(super) activity: ActivityOfRuns,
}

/// The database as this benchmark sees it, which counts its own questions.
#[derive(Debug)]
struct Observer {
    runs: Runs,
    asked: u64,
}

impl Observer {
    async fn count(&mut self, state: State) -> anyhow::Result<u64> {
        self.asked += 1;
        Ok(self.runs.count(TENANT, state).await?)
    }
}

pub(super) async fn measure(
    options: &BenchRuns,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<Measured> {
    let mut model = Model::start(options)?;
    let mut rig = Rig::start(options, model.address, config, printer).await?;
    let key = rig.tenant(TENANT).await?;
    let client = Client::new(&rig.addresses(), key);
    let mut observer = Observer { runs: rig.store.runs(), asked: 0 };
    let (idle, before) = idle(&rig).await?;
    let (mut meter, mut memory) = (Meter::default(), Memory::idle(&rig));
    let cpu = meter.read(&rig, &model);
    printer.note(format_args!("{} runs a second until {}", options.rate, options.alive));
    let began = Instant::now();
    let (count, rate) = (options.alive, options.rate);
    let creating = tokio::spawn(async move { load::create(&client, count, rate).await });
    let peak = come(&mut rig, &mut observer, &creating, options, printer).await?;
    let all_after = began.elapsed();
    let (created, creating_took) = creating.await.context("the load generator panicked")??;
    let held = have_sandboxes(&mut rig, &mut observer, options, printer).await?;
    memory.peak(&rig);
    let Kills { names: killed, sandboxes } = match options.no_kills {
        true => Kills::default(),
        false => kill(&mut rig, &mut meter, printer).await?,
    };
    model.release()?;
    let released = Instant::now();
    go(&mut rig, &mut observer, options, printer).await?;
    let (ending, all_ended) = (released.elapsed(), began.elapsed());
    let cpu = meter.read(&rig, &model).minus(cpu);
    tokio::time::sleep(SETTLE).await;
    let after = rig.store.activity().await?;
    let activity = idle.less(&before, &after, began.elapsed(), observer.asked);
    let times = model.finish()?;
    let expected = Expected { script: Script::of(options), lost: sandboxes };
    let verdict = verify(&observer.runs, TENANT, &created, &times, &expected).await?;
    rig.look()?;
    rig.stop().await;
    let alive = Alive {
        peak,
        sandboxes: held,
        per_second: f64::from(count) / all_after.as_secs_f64(),
        created_in_s: creating_took.as_secs_f64(),
        ended_per_second: f64::from(count) / ending.as_secs_f64(),
        all_ended_after_s: all_ended.as_secs_f64(),
        killed,
    };
    let creates = created.into_iter().map(|run| run.took).collect();
    Ok(Measured { alive, verdict, cpu, memory, creates, activity })
}

impl Memory {
    fn idle(rig: &Rig) -> Self {
        let (control, gateways) = resident(rig);
        let available = machine::available().unwrap_or_default();
        Self {
            available_idle: available,
            available_peak: available,
            control_idle: control,
            control_peak: control,
            gateways_idle: gateways,
            gateways_peak: gateways,
        }
    }

    fn peak(&mut self, rig: &Rig) {
        (self.control_peak, self.gateways_peak) = resident(rig);
        self.available_peak = machine::available().unwrap_or_default();
    }
}

/// Of all replicas, and of their gateways.
fn resident(rig: &Rig) -> (u64, u64) {
    let pids: Vec<u32> = CONTROLS.iter().filter_map(|name| rig.pid(name)).collect();
    let control = pids.iter().filter_map(|&pid| machine::resident(pid)).sum();
    let below = pids.iter().flat_map(|&pid| machine::children(pid));
    (control, below.filter_map(machine::resident).sum())
}

/// Commits of the idle platform, per second.
#[derive(Debug, Clone, Copy)]
struct Idle {
    writes: f64,
    commits: f64,
    wal_bytes: f64,
}

/// Watches the idle platform; answers what it does, and where it stands.
async fn idle(rig: &Rig) -> anyhow::Result<(Idle, Activity)> {
    tokio::time::sleep(SETTLE).await;
    let (began, before) = (Instant::now(), rig.store.activity().await?);
    tokio::time::sleep(IDLE).await;
    let after = rig.store.activity().await?;
    let seconds = began.elapsed().as_secs_f64();
    let rate = |pick: fn(&Activity) -> u64| difference(&before, &after, pick) / seconds;
    let idle = Idle {
        writes: rate(|activity| activity.writes),
        commits: rate(|activity| activity.commits),
        wal_bytes: rate(|activity| activity.wal_bytes),
    };
    Ok((idle, after))
}

fn difference(before: &Activity, after: &Activity, pick: fn(&Activity) -> u64) -> f64 {
    pick(after).saturating_sub(pick(before)) as f64
}

impl Idle {
    /// Other work, less our own questions.
    fn less(
        self,
        before: &Activity,
        after: &Activity,
        time: Duration,
        asked: u64,
    ) -> ActivityOfRuns {
        let seconds = time.as_secs_f64();
        let rest = |pick: fn(&Activity) -> u64, rate: f64| {
            (difference(before, after, pick) - rate * seconds).max(0.0)
        };
        ActivityOfRuns {
            writes: rest(|activity| activity.writes, self.writes),
            commits: (rest(|activity| activity.commits, self.commits) - asked as f64).max(0.0),
            wal_bytes: rest(|activity| activity.wal_bytes, self.wal_bytes),
        }
    }
}

/// Waits until all runs are worked on at once, or all have begun; answers the most at once.
async fn come(
    rig: &mut Rig,
    observer: &mut Observer,
    creating: &JoinHandle<anyhow::Result<(Vec<CreatedRun>, Duration)>>,
    options: &BenchRuns,
    printer: &Printer,
) -> anyhow::Result<u64> {
    let (mut peak, mut patience) = (0, Patience::new(options.patience, (0, 0)));
    loop {
        rig.look()?;
        let running = observer.count(State::Running).await?;
        peak = running.max(peak);
        if running >= u64::from(options.alive) {
            return Ok(peak);
        }
        let waiting = observer.count(State::Waiting).await?;
        if creating.is_finished() && waiting == 0 {
            printer.note(format_args!("all runs have begun; at most {peak} were alive"));
            return Ok(peak);
        }
        if patience.is_over((running, waiting)) {
            let (reason, said) = (patience.reason(), rig.last_words());
            printer.note(format_args!(
                "{waiting} runs wait, at most {peak} were alive: {reason}{said}"
            ));
            return Ok(peak);
        }
        patience.note(printer, || {
            format!("{running} of {} runs alive, {waiting} wait for a worker", options.alive)
        });
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until each run has a sandbox and waits for the model, so that the kills hit what is alive;
/// answers the number of sandboxes.
async fn have_sandboxes(
    rig: &mut Rig,
    observer: &mut Observer,
    options: &BenchRuns,
    printer: &Printer,
) -> anyhow::Result<u64> {
    let wanted = if options.calls > 0 { options.alive } else { 0 };
    let mut patience = Patience::new(options.patience, 0);
    loop {
        rig.look()?;
        observer.asked += 1;
        let used = rig.store.tenant(TENANT).await?.used;
        if used >= wanted {
            return Ok(used.into());
        }
        if patience.is_over(used) {
            let (reason, said) = (patience.reason(), rig.last_words());
            printer.note(format_args!("{used} of {wanted} sandboxes: {reason}{said}"));
            return Ok(used.into());
        }
        patience.note(printer, || format!("{used} of {wanted} runs have a sandbox"));
        tokio::time::sleep(LOOK).await;
    }
}

/// Processes that were killed.
#[derive(Debug, Default)]
struct Kills {
    names: Vec<String>,
    /// Sandboxes that were on the node.
    sandboxes: BTreeSet<SandboxId>,
}

/// Kills a replica and a node, and starts each again.
async fn kill(rig: &mut Rig, meter: &mut Meter, printer: &Printer) -> anyhow::Result<Kills> {
    let node = node_name(2);
    let names = vec![CONTROLS[1].to_owned(), node.clone()];
    let mut sandboxes = BTreeSet::new();
    for name in &names {
        if *name == node {
            let rows = rig.store.all_sandboxes(Some(name), Some(TENANT), u32::MAX).await?;
            sandboxes.extend(rows.into_iter().map(|row| row.id));
        }
        printer.note(format_args!("killing {name}"));
        meter.retire(rig, name);
        rig.kill(name).await?;
        tokio::time::sleep(AWAY).await;
        rig.start_again(name)?;
    }
    rig.await_controls().await?;
    rig.await_nodes().await?;
    Ok(Kills { names, sandboxes })
}

/// Waits until all runs are over, or none has ended for too long.
async fn go(
    rig: &mut Rig,
    observer: &mut Observer,
    options: &BenchRuns,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut patience = Patience::new(options.patience, u64::from(options.alive));
    loop {
        rig.look()?;
        let mut unfinished = 0;
        for state in [State::Waiting, State::Running, State::Paused] {
            unfinished += observer.count(state).await?;
        }
        if unfinished == 0 {
            return Ok(());
        }
        if patience.is_over(unfinished) {
            // The verdict names them.
            let (reason, said) = (patience.reason(), rig.last_words());
            printer.note(format_args!("{unfinished} runs do not end: {reason}{said}"));
            return Ok(());
        }
        patience.note(printer, || format!("{unfinished} runs have not ended"));
        tokio::time::sleep(LOOK).await;
    }
}
