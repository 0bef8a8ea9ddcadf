//! `belljar bench sessions`: whole sessions in a closed loop.
//!
//! A session creates a sandbox, uploads four datasets, runs eight cells of
//! pandas on them, downloads the result, checks it and destroys the sandbox.

pub(super) mod workload;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::{Spec, User};
use belljar_node::{ContextOptions, Node, Origin, PoolSize};
use serde::Serialize;
use tokio::task::JoinSet;

use self::workload::{CELLS, Workload};
use super::machine::{self, EngineGroups, Family};
use super::plot::{Bar, Bars, Figure, Panel, Stacks};
use super::report::{self, Aim};
use super::stats::Summary;
use super::warmed::Warmed;
use crate::cli::BenchSessions;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
struct Report {
    seconds: f64,
    pool: bool,
    runs: Vec<Run>,
    /// CPU that a zygote takes to warm up, once in so many forks.
    zygote_warm_up_cpu_ms: f64,
    forks_of_a_zygote: u64,
    aims: Vec<Aim>,
}

#[derive(Debug, Serialize)]
struct Run {
    concurrency: u32,
    sessions: usize,
    errors: usize,
    first_error: Option<String>,
    per_second: f64,
    whole: Option<Summary>,
    parts: Vec<(&'static str, Option<Summary>)>,
    /// CPU of all processes of ours, this one included, for each session.
    cpu_ms: f64,
    /// As the cells were charged.
    cells_cpu_ms: f64,
    other_cpu_ms: f64,
    /// What this process used of it: the node and the load generator.
    own_cpu_ms: f64,
    /// How busy the whole machine was, less than what it was before the run.
    machine_cpu_ms: f64,
    busy_cores_before: f64,
    zygotes_warmed_up: u32,
    pool_hits: Option<u64>,
    pool_misses: Option<u64>,
}

/// What every session needs.
#[derive(Debug)]
struct Shared {
    node: Node,
    spec: Spec,
    python: ContextOptions,
    work: Workload,
}

/// How long the steps of one session took.
#[derive(Debug, Clone, Copy)]
struct Timing {
    create: Duration,
    upload: Duration,
    cells: Duration,
    download: Duration,
    destroy: Duration,
    cells_cpu: Duration,
}

/// After so many errors there is nothing left to measure.
const MOST_ERRORS: usize = 20;
/// How long the machine is looked at before each run.
const LOOK: Duration = Duration::from_secs(2);
/// A million a day.
const AIM_PER_SECOND: f64 = 11.6;
const AIM_OTHER_CPU_MS: f64 = 25.0;
const POOL: PoolSize = PoolSize { least: 4, most: 32, rate: 50 };

pub(super) async fn run(
    options: &BenchSessions,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let before = Family::now()?.cpu();
    let warmed =
        Warmed::start(&options.template, options.pool.then_some(POOL), config, printer).await?;
    let warm_up_cpu = Family::now()?.cpu().saturating_sub(before);
    let shared = Arc::new(Shared {
        node: warmed.node.clone(),
        spec: warmed.spec.clone(),
        python: warmed.python(),
        work: Workload::new(),
    });
    let probe = shared.node.create(&shared.spec).await?;
    let groups = EngineGroups::of(probe.pid());
    probe.destroy().await?;
    // The first ones fill caches.
    for _ in 0..3 {
        session(&shared).await.context("the warm-up session failed")?;
    }
    let mut runs = Vec::new();
    for &concurrency in &options.concurrency {
        printer.note(format_args!(
            "{concurrency} at a time, for {} seconds",
            options.seconds.as_secs_f64()
        ));
        warmed.filled().await;
        let run = one_run(&shared, concurrency, options.seconds, &warmed, groups.as_ref()).await?;
        runs.push(run);
    }
    drop(shared);
    warmed.node.stop().await;
    let report = Report {
        seconds: options.seconds.as_secs_f64(),
        pool: options.pool,
        aims: aims(&runs),
        runs,
        zygote_warm_up_cpu_ms: millis(warm_up_cpu),
        forks_of_a_zygote: belljar_node::MOST_FORKS,
    };
    report::publish(&report, &table(&report), &figure(&report), &options.output, printer)?;
    Ok(u8::from(report.runs.iter().any(|run| run.errors > 0)))
}

async fn one_run(
    shared: &Arc<Shared>,
    concurrency: u32,
    length: Duration,
    warmed: &Warmed,
    groups: Option<&EngineGroups>,
) -> anyhow::Result<Run> {
    let idle = machine::busy()?;
    tokio::time::sleep(LOOK).await;
    let idle_share = (machine::busy()? - idle).as_secs_f64() / LOOK.as_secs_f64();
    let zygotes = || groups.map_or(0, EngineGroups::newest_zygote);
    let (zygotes_before, pool_before) = (zygotes(), warmed.pool());
    let (busy, family, own) = (machine::busy()?, Family::now()?.cpu(), machine::own_cpu());
    let start = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..concurrency {
        workers.spawn(worker(shared.clone(), start + length));
    }
    let (mut timings, mut errors) = (Vec::new(), Vec::new());
    while let Some(done) = workers.join_next().await {
        let (more, failed) = done?;
        timings.extend(more);
        errors.extend(failed);
    }
    let elapsed = start.elapsed().as_secs_f64();
    let own = machine::own_cpu().saturating_sub(own);
    let family = Family::now()?.cpu().saturating_sub(family);
    let busy = machine::busy()?.saturating_sub(busy);
    let count = f64::from(u32::try_from(timings.len())?).max(1.0);
    let cells: Duration = timings.iter().map(|timing: &Timing| timing.cells_cpu).sum();
    let pool = warmed.pool().zip(pool_before);
    let each = |time: Duration| millis(time) / count;
    Ok(Run {
        concurrency,
        sessions: timings.len(),
        errors: errors.len(),
        first_error: errors.into_iter().next(),
        per_second: f64::from(u32::try_from(timings.len())?) / elapsed,
        whole: summary(&timings, Timing::whole),
        parts: vec![
            ("create", summary(&timings, |timing| timing.create)),
            ("upload", summary(&timings, |timing| timing.upload)),
            ("cells", summary(&timings, |timing| timing.cells)),
            ("download", summary(&timings, |timing| timing.download)),
            ("destroy", summary(&timings, |timing| timing.destroy)),
        ],
        cpu_ms: each(family),
        cells_cpu_ms: each(cells),
        other_cpu_ms: each(family.saturating_sub(cells)),
        own_cpu_ms: each(own),
        machine_cpu_ms: (busy.as_secs_f64() - idle_share * elapsed) * 1e3 / count,
        busy_cores_before: idle_share,
        zygotes_warmed_up: zygotes().saturating_sub(zygotes_before),
        pool_hits: pool.map(|(now, before)| now.hits - before.hits),
        pool_misses: pool.map(|(now, before)| now.misses - before.misses),
    })
}

async fn worker(shared: Arc<Shared>, until: Instant) -> (Vec<Timing>, Vec<String>) {
    let (mut timings, mut errors) = (Vec::new(), Vec::new());
    while Instant::now() < until && errors.len() < MOST_ERRORS {
        match session(&shared).await {
            Ok(timing) => timings.push(timing),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    (timings, errors)
}

async fn session(shared: &Shared) -> anyhow::Result<Timing> {
    let mut clock = Clock(Instant::now());
    let sandbox = shared.node.create(&shared.spec).await.context("cannot create")?;
    let context = sandbox.context(shared.python.clone()).await.context("no context")?;
    let create = clock.lap();
    let origin = context.facts().origin;
    anyhow::ensure!(origin == Origin::Forked, "the interpreter was {}", origin.as_str());
    let home = sandbox.home(User::User);
    for (name, content) in &shared.work.datasets {
        let path = format!("{home}/{name}");
        let mut source = content.as_slice();
        sandbox.upload(User::User, path.as_bytes(), 0o644, &mut source).await?;
    }
    let upload = clock.lap();
    let mut cells_cpu = Duration::ZERO;
    for code in CELLS {
        let ran = context.execute(code, None).await;
        anyhow::ensure!(ran.end.ok, "a cell failed: {:?} {:?}", ran.end.reason, ran.error);
        cells_cpu += ran.end.usage.cpu;
    }
    let cells = clock.lap();
    let mut result = Vec::new();
    let path = format!("{home}/result.json");
    sandbox.download(User::User, path.as_bytes(), 1 << 20, &mut result).await?;
    let download = clock.lap();
    shared.work.check(&result)?;
    drop(context);
    clock.lap();
    sandbox.destroy().await.context("cannot destroy")?;
    let destroy = clock.lap();
    Ok(Timing { create, upload, cells, download, destroy, cells_cpu })
}

struct Clock(Instant);

impl Clock {
    /// Since the last time.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.0;
        self.0 = now;
        lap
    }
}

impl Timing {
    fn whole(&self) -> Duration {
        self.create + self.upload + self.cells + self.download + self.destroy
    }
}

fn summary(timings: &[Timing], pick: impl Fn(&Timing) -> Duration) -> Option<Summary> {
    Summary::of(&timings.iter().map(pick).collect::<Vec<_>>())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn aims(runs: &[Run]) -> Vec<Aim> {
    let best = runs.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let errors: usize = runs.iter().map(|run| run.errors).sum();
    let errors = u32::try_from(errors).ok().map(f64::from);
    let rate = best.map(|run| run.per_second);
    let other = best.map(|run| run.other_cpu_ms);
    vec![
        Aim::at_least("sessions a second, at least", AIM_PER_SECOND, rate),
        Aim::at_most("errors, at most", 0.0, errors),
        Aim::at_most("CPU ms besides the cells', at most", AIM_OTHER_CPU_MS, other),
    ]
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "sessions: create, 4 datasets of 200 KB in, {} cells of pandas, result out, destroy; {} s \
         each{}\n",
        CELLS.len(),
        report.seconds,
        if report.pool { ", from the pool" } else { "" }
    );
    for run in &report.runs {
        let _ = writeln!(
            text,
            "\n{} at a time: {:.2} sessions a second ({} in all, {} errors)",
            run.concurrency, run.per_second, run.sessions, run.errors
        );
        if let Some(error) = &run.first_error {
            let _ = writeln!(text, "first error: {error}");
        }
        report::header(&mut text);
        report::row(&mut text, "session (ms)", run.whole, "");
        for (name, part) in &run.parts {
            report::row(&mut text, &format!("  {name}"), *part, "");
        }
        let _ = writeln!(
            text,
            "CPU a session: {:.1} ms = cells {:.1} + everything else {:.1} (this process {:.1})",
            run.cpu_ms, run.cells_cpu_ms, run.other_cpu_ms, run.own_cpu_ms
        );
        let _ = writeln!(
            text,
            "the whole machine: {:.1} ms a session over {:.2} busy cores before; {} zygotes \
             warmed up",
            run.machine_cpu_ms, run.busy_cores_before, run.zygotes_warmed_up
        );
        if let (Some(hits), Some(misses)) = (run.pool_hits, run.pool_misses) {
            let _ = writeln!(text, "pool: {hits} hits, {misses} misses");
        }
    }
    let _ = writeln!(
        text,
        "\na zygote warms up in {:.0} ms of CPU, once in {} forks",
        report.zygote_warm_up_cpu_ms, report.forks_of_a_zygote
    );
    report::aims(&mut text, &report.aims);
    text
}

fn figure(report: &Report) -> Figure {
    let name = |run: &Run| format!("{} at a time", run.concurrency);
    let rate = report.runs.iter().map(|run| Bar {
        label: name(run),
        value: run.per_second,
        tail: None,
        aim: Some(AIM_PER_SECOND),
    });
    let time = report.runs.iter().filter_map(|run| {
        let whole = run.whole?;
        Some(Bar { label: name(run), value: whole.p50_ms, tail: Some(whole.p95_ms), aim: None })
    });
    let split = report.runs.iter().map(|run| {
        let rest = (run.other_cpu_ms - run.own_cpu_ms).max(0.0);
        (name(run), vec![run.cells_cpu_ms, rest, run.own_cpu_ms])
    });
    let bars = |heading: &str, rows| Panel::Bars(Bars { heading: heading.to_owned(), rows });
    Figure {
        title: "Sessions: 4 datasets in, 8 cells of pandas, result out".to_owned(),
        note: format!(
            "{} s for each row{}; red: aim",
            report.seconds,
            if report.pool { ", from the pool" } else { ", on demand" }
        ),
        panels: vec![
            bars("Sessions a second", rate.collect()),
            bars("Milliseconds for one session, p50 and line to p95", time.collect()),
            Panel::Stacks(Stacks {
                heading: "CPU milliseconds for one session".to_owned(),
                parts: vec![
                    "the code's own cells",
                    "sandboxes, zygote, spawner",
                    "node and client",
                ],
                rows: split.collect(),
            }),
        ],
    }
}
