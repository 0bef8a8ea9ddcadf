//! `belljar bench density`: many idle sandboxes, each with a Python that has
//! imported pandas, alive at once.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_node::{Context, Origin, Sandbox};
use serde::Serialize;
use tokio::task::JoinSet;

use super::machine::{self, EngineGroups, Family};
use super::plot::{Curve, Figure, Panel};
use super::report;
use super::stats::Summary;
use super::warmed::Warmed;
use crate::cli::BenchDensity;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Default, Serialize)]
struct Report {
    asked: u32,
    /// How many were alive at once.
    alive: usize,
    /// Why there are fewer than asked for.
    stopped: Option<String>,
    create_seconds: f64,
    create_each: Option<Summary>,
    ask_seconds: f64,
    wrong_answers: usize,
    /// Interpreters that were not forked from a zygote, but started anew.
    not_forked: usize,
    destroy_seconds: f64,
    available_before_bytes: u64,
    used_bytes: u64,
    each_bytes: u64,
    /// What the kernel charged to the engine's cgroups meanwhile.
    charged_bytes: u64,
    charged_each_bytes: u64,
    /// As [`Self::used_bytes`], when all are gone.
    kept_bytes: u64,
    would_fit: u64,
    interpreter_pss_bytes: u64,
    guest_pss_bytes: u64,
    zygotes: usize,
    zygotes_pss_bytes: u64,
    /// What was left when all were destroyed, and when the node had stopped.
    left: Left,
    left_at_end: Left,
    /// Sandboxes alive and memory used, as they grew.
    curve: Vec<(usize, u64)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
struct Left {
    processes: usize,
    groups: usize,
    mounts: usize,
}

/// Memory that is left to others.
const RESERVE: u64 = 1 << 30;
/// Of how many sandboxes memory is looked at closely.
const SAMPLE: usize = 50;

struct Alive {
    sandbox: Sandbox,
    context: Context,
}

pub(super) async fn run(
    options: &BenchDensity,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let mounts = machine::mounts()?;
    let warmed = Warmed::start(&options.template, None, config, printer).await?;
    let groups = groups(&warmed).await?;
    let mut report = Report { asked: options.count, ..Report::default() };
    let before =
        Left { processes: Family::now()?.others(), groups: groups.existing().len(), mounts };
    report.available_before_bytes = machine::available()?;
    let charged = groups.charged().unwrap_or(0);
    let mut alive = Vec::new();
    if let Err(error) = create(&warmed, options.count, &mut alive, &mut report, printer).await {
        report.stopped = Some(format!("{error:#}"));
    }
    report.alive = alive.len();
    report.note_memory(&alive, &groups)?;
    report.charged_bytes = groups.charged().unwrap_or(0).saturating_sub(charged);
    report.charged_each_bytes = report.charged_bytes / (alive.len() as u64).max(1);
    printer.note("running code in each again");
    report.ask(&alive).await;
    printer.note("destroying sandboxes");
    let start = Instant::now();
    destroy(alive, options.parallel).await?;
    report.destroy_seconds = start.elapsed().as_secs_f64();
    report.left = settled(&groups, before).await?;
    report.kept_bytes = report.available_before_bytes.saturating_sub(machine::available()?);
    warmed.node.stop().await;
    let nothing = Left { processes: 0, groups: 0, mounts };
    report.left_at_end = settled(&groups, nothing).await?;
    report::publish(&report, &table(&report), &figure(&report), &options.output, printer)?;
    Ok(u8::from(!report.is_good()))
}

/// Which groups are the engine's: those that a sandbox of it is in.
async fn groups(warmed: &Warmed) -> anyhow::Result<EngineGroups> {
    let sandbox = warmed.node.create(&warmed.spec).await?;
    let groups = EngineGroups::of(sandbox.pid());
    sandbox.destroy().await?;
    groups.context("this host has no cgroups for sandboxes")
}

async fn create(
    warmed: &Warmed,
    count: u32,
    alive: &mut Vec<Alive>,
    report: &mut Report,
    printer: &Printer,
) -> anyhow::Result<()> {
    let step = usize::try_from(count)?.div_ceil(24).max(10);
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut created = Ok(());
    for number in 0..count {
        let start = Instant::now();
        match one(warmed, number).await {
            Ok(one) => alive.push(one),
            Err(error) => {
                created = Err(error.context(format!("sandbox {} failed", number + 1)));
                break;
            }
        }
        times.push(start.elapsed());
        if alive.len().is_multiple_of(step) || alive.len() == 1 {
            let available = machine::available()?;
            let used = report.available_before_bytes.saturating_sub(available);
            report.curve.push((alive.len(), used));
            let size = belljar_domain::units::format_size;
            printer.note(format_args!(
                "{} of {count} after {:.1} s, {} used, {} available",
                alive.len(),
                begin.elapsed().as_secs_f64(),
                size(used),
                size(available)
            ));
            if available < RESERVE {
                created = Err(anyhow::anyhow!("less than 1 GiB of memory was available"));
                break;
            }
        }
    }
    report.create_seconds = begin.elapsed().as_secs_f64();
    report.create_each = Summary::of(&times);
    created
}

async fn one(warmed: &Warmed, number: u32) -> anyhow::Result<Alive> {
    let sandbox = warmed.node.create(&warmed.spec).await?;
    let context = sandbox.context(warmed.python()).await?;
    let ran = context.execute(format!("print({number})"), None).await;
    anyhow::ensure!(ran.text() == format!("{number}\n"), "it answered {ran:?}");
    Ok(Alive { sandbox, context })
}

async fn destroy(alive: Vec<Alive>, parallel: u32) -> anyhow::Result<()> {
    let mut ending = JoinSet::new();
    for one in alive {
        if ending.len() >= usize::try_from(parallel)?
            && let Some(ended) = ending.join_next().await
        {
            ended??;
        }
        drop(one.context);
        ending.spawn(one.sandbox.destroy());
    }
    while let Some(ended) = ending.join_next().await {
        ended??;
    }
    Ok(())
}

/// What exists beyond `expected`, once the last of it had time to go.
async fn settled(groups: &EngineGroups, expected: Left) -> anyhow::Result<Left> {
    let start = Instant::now();
    loop {
        let left = Left {
            processes: Family::now()?.others().saturating_sub(expected.processes),
            groups: groups.existing().len().saturating_sub(expected.groups),
            mounts: machine::mounts()?.saturating_sub(expected.mounts),
        };
        if left == Left::default() || start.elapsed() > Duration::from_secs(10) {
            return Ok(left);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Report {
    fn note_memory(&mut self, alive: &[Alive], groups: &EngineGroups) -> anyhow::Result<()> {
        let available = machine::available()?;
        self.used_bytes = self.available_before_bytes.saturating_sub(available);
        self.each_bytes = self.used_bytes.checked_div(alive.len() as u64).unwrap_or(0);
        let usable = self.available_before_bytes.saturating_sub(RESERVE);
        self.would_fit = usable.checked_div(self.each_bytes).unwrap_or(0);
        let sample = || alive.iter().step_by((alive.len() / SAMPLE).max(1)).take(SAMPLE);
        let interpreters = sample().filter_map(|one| one.context.facts().pid);
        self.interpreter_pss_bytes = mean(interpreters.filter_map(machine::proportional));
        self.guest_pss_bytes =
            mean(sample().filter_map(|one| machine::proportional(one.sandbox.pid())));
        let is_forked = |one: &&Alive| one.context.facts().origin == Origin::Forked;
        self.not_forked = alive.len() - alive.iter().filter(is_forked).count();
        let zygotes = groups.zygotes();
        self.zygotes = zygotes.len();
        self.zygotes_pss_bytes = zygotes.into_iter().filter_map(machine::proportional).sum();
        Ok(())
    }

    /// Asks everyone once more.
    async fn ask(&mut self, alive: &[Alive]) {
        let start = Instant::now();
        for (number, one) in (1..).zip(alive) {
            let ran = one.context.execute(format!("print({number})"), None).await;
            self.wrong_answers += usize::from(ran.text() != format!("{number}\n"));
        }
        self.ask_seconds = start.elapsed().as_secs_f64();
    }

    fn is_good(&self) -> bool {
        let nothing = Left::default();
        self.stopped.is_none()
            && self.wrong_answers == 0
            && self.not_forked == 0
            && (self.left, self.left_at_end) == (nothing, nothing)
    }
}

fn mean(values: impl Iterator<Item = u64>) -> u64 {
    let values: Vec<u64> = values.collect();
    values.iter().sum::<u64>().checked_div(values.len() as u64).unwrap_or(0)
}

fn table(report: &Report) -> String {
    let size = belljar_domain::units::format_size;
    let mut text = format!(
        "{} idle sandboxes, each with a Python that has imported pandas, alive at once\n",
        report.alive
    );
    if let Some(why) = &report.stopped {
        let _ = writeln!(text, "stopped before {} were reached: {why}", report.asked);
    }
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{}", format!("{name:<22}{value}").trim_end());
    };
    line("", String::new());
    let create = report.create_each.map_or(String::new(), |each| {
        format!("; one: p50 {:.1} ms, p99 {:.1} ms", each.p50_ms, each.p99_ms)
    });
    line("created in", format!("{:.1} s{create}", report.create_seconds));
    let wrong = report.wrong_answers;
    line("asked again in", format!("{:.1} s, {wrong} wrong results", report.ask_seconds));
    line("destroyed in", format!("{:.1} s", report.destroy_seconds));
    let (used, each) = (size(report.used_bytes), size(report.each_bytes));
    line("machine memory", format!("{used}, {each} each (difference of MemAvailable)"));
    let (charged, each) = (size(report.charged_bytes), size(report.charged_each_bytes));
    line("charged by cgroups", format!("{charged}, {each} each"));
    let (interpreter, guest) = (size(report.interpreter_pss_bytes), size(report.guest_pss_bytes));
    line("proportional (PSS)", format!("interpreter {interpreter}, guest {guest}, on average"));
    let zygotes = size(report.zygotes_pss_bytes);
    line("zygotes", format!("{} alive, {zygotes} PSS together", report.zygotes));
    line("not forked", format!("{} interpreters had to be started anew", report.not_forked));
    let available = size(report.available_before_bytes);
    line("would fit", format!("{} in the {available} that were available", report.would_fit));
    line("not given back", size(report.kept_bytes));
    for (name, left) in [("left by them", report.left), ("left at the end", report.left_at_end)] {
        let Left { processes, groups, mounts } = left;
        line(name, format!("{processes} processes, {groups} cgroups, {mounts} mounts"));
    }
    text
}

fn figure(report: &Report) -> Figure {
    let precise = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let mut points = vec![(0.0, 0.0)];
    points.extend(
        report
            .curve
            .iter()
            .map(|&(count, bytes)| (precise(count as u64), precise(bytes >> 20) / 1024.0)),
    );
    let size = belljar_domain::units::format_size;
    Figure {
        title: format!("Density: {} idle sandboxes with pandas imported", report.alive),
        note: format!(
            "{} each; {} would fit in the {} available; {} zygotes",
            size(report.each_bytes),
            report.would_fit,
            size(report.available_before_bytes),
            report.zygotes
        ),
        panels: vec![Panel::Curve(Curve {
            heading: "Machine memory used, GiB".to_owned(),
            below: "sandboxes alive".to_owned(),
            points,
        })],
    }
}
