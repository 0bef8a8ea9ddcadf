//! Sessions at a fixed rate, whatever becomes of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_store::{Activity, Store};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::super::machine;
use super::super::sessions::workload::{CELLS, Workload};
use super::super::stats::Summary;
use super::client::Client;
use super::rig::Rig;
use super::roles::{Cost, Roles};
use crate::cli::BenchPlatform;
use crate::output::Printer;

#[derive(Debug, Serialize)]
pub(super) struct Sessions {
    /// Whether what is about one sandbox went to its node, and not through control.
    pub(super) is_direct: bool,
    pub(super) rate: f64,
    pub(super) seconds: f64,
    /// That began.
    pub(super) sessions: usize,
    /// That did not come to the right result, or that the database knows nothing of.
    pub(super) lost: usize,
    pub(super) first_error: Option<String>,
    pub(super) per_second: f64,
    /// From when it was due.
    pub(super) create: Option<Summary>,
    pub(super) first_result: Option<Summary>,
    pub(super) whole: Option<Summary>,
    /// Milliseconds of CPU for one.
    pub(super) cpu: Cost,
    /// How busy all cores were by anybody, ourselves included.
    pub(super) busy_cores: f64,
    pub(super) written: Written,
}

/// By PostgreSQL, for one session.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub(super) commits: f64,
    pub(super) inserted: f64,
    pub(super) updated: f64,
    pub(super) deleted: f64,
    pub(super) wal_bytes: f64,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    /// Whether what is about one sandbox goes to its node, and not through control.
    is_direct: bool,
    template: String,
    work: Workload,
    datasets: Vec<(&'static str, Bytes)>,
}

#[derive(Debug, Clone, Copy)]
struct Timing {
    create: Duration,
    first_result: Duration,
    whole: Duration,
    cells_cpu: Duration,
}

const TENANT: &str = "sessions";
/// A session that takes longer than this is over.
const LIFE: Duration = Duration::from_secs(120);
/// The first ones fill caches.
const FIRST: usize = 4;
/// PostgreSQL writes its own statistics down about once a second.
const SETTLE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    rig: &mut Rig,
    options: &BenchPlatform,
    printer: &Printer,
) -> anyhow::Result<Sessions> {
    let (rate, length) =
        if options.quick { (3.0, Duration::from_secs(8)) } else { (options.rate, options.seconds) };
    let work = Workload::new();
    let datasets = work.datasets.iter();
    let datasets = datasets.map(|(name, text)| (*name, Bytes::from(text.clone()))).collect();
    let client = rig.tenant(TENANT).await?;
    let (is_direct, template) = (!options.through_control, options.template.clone());
    let shared = Arc::new(Shared { client, is_direct, template, work, datasets });
    for _ in 0..FIRST {
        session(&shared, Instant::now()).await.context("a warm-up session")?;
    }
    tokio::time::sleep(SETTLE).await;
    let roles = Roles::of(rig)?;
    printer.note(format_args!("{rate} sessions a second for {} s", length.as_secs_f64()));
    let (busy, spent) = (machine::busy()?, roles.spent()?);
    let written = rig.store.activity().await?;
    let began = Instant::now();
    let done = load(&shared, rate, length, options.most as usize, printer).await?;
    let took = began.elapsed();
    let (busy, after) = (machine::busy()?.saturating_sub(busy), roles.spent()?);
    rig.look()?;
    tokio::time::sleep(SETTLE).await;
    let written = Written::between(&written, &rig.store.activity().await?, done.len());
    let missing = unaccounted(&rig.store, done.len() + FIRST).await?;
    let count = done.len();
    let mut timings = Vec::new();
    let mut errors = Vec::new();
    for one in done {
        match one {
            Ok(timing) => timings.push(timing),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    let cells = timings.iter().map(|timing: &Timing| timing.cells_cpu).sum();
    let summary =
        |pick: fn(&Timing) -> Duration| Summary::of(&timings.iter().map(pick).collect::<Vec<_>>());
    Ok(Sessions {
        is_direct,
        rate,
        seconds: length.as_secs_f64(),
        sessions: count,
        lost: errors.len() + missing,
        first_error: errors.into_iter().next(),
        per_second: count as f64 / took.as_secs_f64(),
        create: summary(|timing| timing.create),
        first_result: summary(|timing| timing.first_result),
        whole: summary(|timing| timing.whole),
        cpu: spent.until(&after, cells, count),
        busy_cores: busy.as_secs_f64() / took.as_secs_f64(),
        written,
    })
}

/// Begins sessions evenly, at most so many at once.
async fn load(
    shared: &Arc<Shared>,
    rate: f64,
    length: Duration,
    most: usize,
    printer: &Printer,
) -> anyhow::Result<Vec<anyhow::Result<Timing>>> {
    let room = Arc::new(Semaphore::new(most));
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    let begin = Instant::now();
    let mut said = begin;
    for number in 0u32.. {
        let due = begin + Duration::from_secs_f64(f64::from(number) / rate);
        if due >= begin + length {
            break;
        }
        tokio::time::sleep_until(due.into()).await;
        let place = room.clone().acquire_owned().await?;
        let shared = shared.clone();
        running.spawn(async move {
            let timing = session(&shared, due).await;
            drop(place);
            timing
        });
        while let Some(one) = running.try_join_next() {
            done.push(one?);
        }
        if said.elapsed() > Duration::from_secs(60) {
            said = Instant::now();
            let failed = done.iter().filter(|one| one.is_err()).count();
            printer.note(format_args!("{} done, {failed} failed", done.len()));
        }
    }
    while let Some(one) = running.join_next().await {
        done.push(one?);
    }
    Ok(done)
}

/// Datasets in, cells, the result out and checked.
async fn session(shared: &Shared, due: Instant) -> anyhow::Result<Timing> {
    let Shared { client, is_direct, template, work, datasets } = shared;
    let made = client.make(template, LIFE).await?;
    let create = due.elapsed();
    let inside = if *is_direct { client.direct(&made)? } else { client.clone() };
    let id = &made.id;
    for (name, content) in datasets {
        inside.upload(id, name, content.clone()).await?;
    }
    let (mut first_result, mut cells_cpu) = (None, Duration::ZERO);
    for code in CELLS {
        let ran = inside.cell(id, code).await?;
        first_result.get_or_insert_with(|| due.elapsed());
        cells_cpu += ran.cpu();
    }
    work.check(&inside.download(id, "result.json").await?)?;
    client.delete(id).await?;
    let whole = due.elapsed();
    Ok(Timing { create, first_result: first_result.unwrap_or(whole), whole, cells_cpu })
}

/// How many of these many sandboxes the database does not show as ended by their
/// owner; and a place that was not given back counts as one, too.
async fn unaccounted(store: &Store, expected: usize) -> anyhow::Result<usize> {
    let nodes = store.on_nodes().await?;
    let ended: u64 = nodes.iter().map(|node| node.ended).sum();
    let used = store.tenant(TENANT).await?.used;
    Ok(expected.saturating_sub(usize::try_from(ended)?) + usize::try_from(used)?)
}

impl Written {
    fn between(before: &Activity, after: &Activity, sessions: usize) -> Self {
        let each = |pick: fn(&Activity) -> u64| {
            pick(after).saturating_sub(pick(before)) as f64 / sessions.max(1) as f64
        };
        Self {
            commits: each(|activity| activity.commits),
            inserted: each(|activity| activity.inserted),
            updated: each(|activity| activity.updated),
            deleted: each(|activity| activity.deleted),
            wal_bytes: each(|activity| activity.wal_bytes),
        }
    }
}
