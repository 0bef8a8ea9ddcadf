//! `belljar bench fork`: copies of a context that holds a large data frame.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::limits::GIB;
use belljar_domain::{Limits, Spec};
use belljar_node::{Checkpoint, Context, Sandbox};
use serde::Serialize;

use super::bare::{self, Script};
use super::plot::{Bar, Bars, Figure, Panel};
use super::report::{self, Aim};
use super::stats::Summary;
use super::warmed::Warmed;
use crate::cli::BenchFork;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
struct Report {
    rounds: u32,
    frame_bytes: u64,
    first_ms: f64,
    first_parts_ms: Vec<(&'static str, f64)>,
    whole: Option<Summary>,
    parts: Vec<(&'static str, Option<Summary>)>,
    /// After the first answer: reading every number of the frame.
    read_all: Option<Summary>,
    bare_fork: Option<Summary>,
    children: u32,
    children_ms: f64,
    children_runs: Option<Summary>,
    first_taken_bytes: u64,
    repeated_taken_bytes: u64,
    held_bytes: u64,
    /// Writes that someone saw who should not have.
    seen_writes: Vec<String>,
    aims: Vec<Aim>,
}

/// The steps from a live context to the first answer of its copy.
#[derive(Debug, Clone, Copy)]
struct Steps {
    checkpoint: Duration,
    fork: Duration,
    answer: Duration,
}

impl Steps {
    fn whole(&self) -> Duration {
        self.checkpoint + self.fork + self.answer
    }
}

/// Every thousandth row, in every column: enough to know the frame by, and
/// little enough that the fork is what is timed.
const GLANCE: &str = "print(repr(float(frame.iloc[::1000].to_numpy().sum())))";
const READ_ALL: &str = "print(repr(float(frame.to_numpy().sum())))";
const COLUMNS: u32 = 25;
const CHILDREN_RUNS: u32 = 5;

fn make_frame(megabytes: u32) -> String {
    let rows = megabytes * 1_000_000 / 8 / COLUMNS;
    format!(
        "import numpy, pandas\n\
         frame = pandas.DataFrame(numpy.random.default_rng(7).random(({rows}, {COLUMNS})))\n\
         mark = 'parent'"
    )
}

struct Bench<'a> {
    warmed: &'a Warmed,
    parent: &'a Sandbox,
    context: &'a Context,
    glance: String,
    all: String,
}

pub(super) async fn run(
    options: &BenchFork,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let mut warmed = Warmed::start(&options.template, None, config, printer).await?;
    // Room for the frame, twice, and for everything else.
    let limits = Limits { memory_bytes: 4 * GIB, cpu_millis: 2000, ..warmed.spec.limits.clone() };
    warmed.spec = Spec { limits, ..warmed.spec.clone() };
    printer.note(format_args!("making a data frame of {} MB", options.megabytes));
    let setup = make_frame(options.megabytes);
    let parent = warmed.node.create(&warmed.spec).await?;
    let context = parent.context(warmed.python()).await?;
    answer(&context, &setup).await?;
    let (glance, all) = (answer(&context, GLANCE).await?, answer(&context, READ_ALL).await?);
    let bench = Bench { warmed: &warmed, parent: &parent, context: &context, glance, all };
    printer.note("forking it for the first time");
    let (first, checkpoint, child) = bench.round().await?;
    let (first_taken_bytes, held_bytes) = (checkpoint.taken_bytes(), checkpoint.held_bytes());
    child.destroy().await?;
    drop(checkpoint);
    let sandbox = bare::sandbox(&warmed).await?;
    let mut forker = Script::forker(&sandbox, &warmed, &setup, GLANCE).await?;
    printer.note(format_args!("{} rounds", options.count));
    let (mut steps, mut read_all, mut bare_fork) = (Vec::new(), Vec::new(), Vec::new());
    let mut repeated_taken_bytes = 0;
    for _ in 0..options.count {
        let (took, checkpoint, child) = bench.round().await?;
        repeated_taken_bytes = checkpoint.taken_bytes();
        let start = Instant::now();
        bench.expect(&copy_of(&child)?, READ_ALL, &bench.all).await?;
        read_all.push(start.elapsed());
        child.destroy().await?;
        steps.push(took);
        let (took, said) = forker.turn().await?;
        anyhow::ensure!(said == bench.glance, "the bare fork answered {said:?}");
        bare_fork.push(took);
    }
    drop(forker);
    sandbox.destroy().await?;
    printer.note(format_args!("{} children at once", options.children));
    let mut children_times = Vec::new();
    let mut seen_writes = Vec::new();
    for _ in 0..CHILDREN_RUNS {
        let (took, children) = bench.many(options.children).await?;
        children_times.push(took);
        bench.bleed(&children, &mut seen_writes).await?;
        for child in children {
            child.destroy().await?;
        }
    }
    drop(context);
    parent.destroy().await?;
    let summary =
        |pick: fn(&Steps) -> Duration| Summary::of(&steps.iter().map(pick).collect::<Vec<_>>());
    let (whole, children_runs) = (summary(Steps::whole), Summary::of(&children_times));
    let report = Report {
        rounds: options.count,
        frame_bytes: u64::from(options.megabytes) * 1_000_000,
        first_ms: millis(first.whole()),
        first_parts_ms: vec![
            ("checkpoint", millis(first.checkpoint)),
            ("fork", millis(first.fork)),
            ("first answer", millis(first.answer)),
        ],
        whole,
        parts: vec![
            ("checkpoint", summary(|steps| steps.checkpoint)),
            ("fork", summary(|steps| steps.fork)),
            ("first answer", summary(|steps| steps.answer)),
        ],
        read_all: Summary::of(&read_all),
        bare_fork: Summary::of(&bare_fork),
        children: options.children,
        children_ms: children_runs.map_or(0.0, |runs| runs.p50_ms),
        children_runs,
        first_taken_bytes,
        repeated_taken_bytes,
        held_bytes,
        seen_writes,
        aims: vec![
            Aim::at_most("fork, p50 ms at most", 50.0, whole.map(|whole| whole.p50_ms)),
            Aim::at_most(
                "all children, p50 ms at most",
                200.0,
                children_runs.map(|runs| runs.p50_ms),
            ),
        ],
    };
    warmed.node.stop().await;
    report::publish(&report, &table(&report), &figure(&report), &options.output, printer)?;
    Ok(u8::from(!report.seen_writes.is_empty()))
}

/// What a cell prints.
async fn answer(context: &Context, code: &str) -> anyhow::Result<String> {
    let ran = context.execute(code, None).await;
    anyhow::ensure!(ran.end.ok, "a cell failed: {:?} {:?}", ran.end.reason, ran.error);
    Ok(ran.text())
}

fn copy_of(sandbox: &Sandbox) -> anyhow::Result<Context> {
    sandbox.contexts().into_iter().next().context("the fork has no context")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Bench<'_> {
    async fn expect(&self, context: &Context, code: &str, want: &str) -> anyhow::Result<()> {
        let got = answer(context, code).await?;
        anyhow::ensure!(got == want, "the fork has other data: {got:?} instead of {want:?}");
        Ok(())
    }

    /// Checkpoint, fork, first answer.
    async fn round(&self) -> anyhow::Result<(Steps, Checkpoint, Sandbox)> {
        let start = Instant::now();
        let checkpoint = self.parent.checkpoint().await?;
        let taken = start.elapsed();
        let child = self.warmed.node.fork(&checkpoint).await?;
        let forked = start.elapsed();
        self.expect(&copy_of(&child)?, GLANCE, &self.glance).await?;
        let answered = start.elapsed();
        let steps = Steps { checkpoint: taken, fork: forked - taken, answer: answered - forked };
        Ok((steps, checkpoint, child))
    }

    /// Children of one checkpoint, made at the same time, until all answered.
    async fn many(&self, count: u32) -> anyhow::Result<(Duration, Vec<Sandbox>)> {
        let start = Instant::now();
        let checkpoint = std::sync::Arc::new(self.parent.checkpoint().await?);
        let mut making = tokio::task::JoinSet::new();
        for _ in 0..count {
            let (node, checkpoint) = (self.warmed.node.clone(), checkpoint.clone());
            making.spawn(async move {
                let child = node.fork(&checkpoint).await?;
                let said = answer(&copy_of(&child)?, GLANCE).await?;
                anyhow::Ok((child, said))
            });
        }
        let mut children = Vec::new();
        while let Some(made) = making.join_next().await {
            let (child, said) = made??;
            anyhow::ensure!(said == self.glance, "a child has other data: {said:?}");
            children.push(child);
        }
        Ok((start.elapsed(), children))
    }

    /// Has everybody write, and everybody look.
    async fn bleed(&self, children: &[Sandbox], seen: &mut Vec<String>) -> anyhow::Result<()> {
        let contexts: Vec<Context> = children.iter().map(copy_of).collect::<Result<_, _>>()?;
        let write = |number: usize| {
            format!(
                "frame.iloc[0, 0] = -{number}.0; mark = 'child {number}'; \
                 open('mark', 'w').write(mark)"
            )
        };
        const LOOK: &str = "import os\n\
                            print(float(frame.iloc[0, 0]), mark, \
                            open('mark').read() if os.path.exists('mark') else '-')";
        let untouched = answer(self.context, LOOK).await?;
        for (number, context) in (1..).zip(&contexts) {
            answer(context, &write(number)).await?;
        }
        for (number, context) in (1..).zip(&contexts) {
            let got = answer(context, LOOK).await?;
            let want = format!("-{number}.0 child {number} child {number}\n");
            if got != want {
                seen.push(format!("child {number} sees {got:?} instead of {want:?}"));
            }
        }
        let got = answer(self.context, LOOK).await?;
        if got != untouched {
            seen.push(format!("the parent sees {got:?} instead of {untouched:?}"));
        }
        // And the other way round: the parent writes, and takes it back.
        let save = "saved = float(frame.iloc[0, 0]); frame.iloc[0, 0] = 77.0";
        answer(self.context, save).await?;
        for (number, context) in (1..).zip(&contexts) {
            let got = answer(context, "print(float(frame.iloc[0, 0]))").await?;
            if got != format!("-{number}.0\n") {
                seen.push(format!("child {number} sees {got:?} of the parent"));
            }
        }
        answer(self.context, "frame.iloc[0, 0] = saved").await?;
        Ok(())
    }
}

fn table(report: &Report) -> String {
    let size = belljar_domain::units::format_size;
    let mut text = format!(
        "copies of a context with a data frame of {} MB: checkpoint -> fork -> the copy answers, \
         {} rounds (ms)\n\n",
        report.frame_bytes / 1_000_000,
        report.rounds
    );
    report::header(&mut text);
    report::row(&mut text, "fork", report.whole, "");
    for (name, part) in &report.parts {
        report::row(&mut text, &format!("  {name}"), *part, "");
    }
    report::row(&mut text, "reading all of it", report.read_all, "in the copy, after");
    report::row(&mut text, "bare os.fork", report.bare_fork, "the same frame, no isolation");
    let children = format!("{} children at once", report.children);
    report::row(&mut text, &children, report.children_runs, "until all have answered");
    let parts: Vec<String> =
        report.first_parts_ms.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
    let _ = writeln!(text, "\nthe first time: {:.1} ms ({})", report.first_ms, parts.join(", "));
    let _ = writeln!(
        text,
        "copied: {} the first time, {} again; held: {}",
        size(report.first_taken_bytes),
        size(report.repeated_taken_bytes),
        size(report.held_bytes)
    );
    match report.seen_writes.as_slice() {
        [] => text.push_str("writes of one were not seen by any other\n"),
        seen => {
            let _ = writeln!(text, "WRITES WERE SEEN: {}", seen.join("; "));
        }
    }
    report::aims(&mut text, &report.aims);
    text
}

fn figure(report: &Report) -> Figure {
    let bar = |label: &str, summary: Option<Summary>, aim| {
        let summary = summary?;
        let (value, tail) = (summary.p50_ms, Some(summary.p95_ms));
        Some(Bar { label: label.to_owned(), value, tail, aim })
    };
    let first =
        Bar { label: "the first fork".to_owned(), value: report.first_ms, tail: None, aim: None };
    let children = format!("{} children at once", report.children);
    let rows = [
        bar("fork", report.whole, Some(50.0)),
        bar(&children, report.children_runs, Some(200.0)),
        bar("bare os.fork", report.bare_fork, None),
        Some(first),
    ];
    let parts = report.parts.iter().filter_map(|(name, part)| bar(name, *part, None));
    let bars = |heading: &str, rows| Panel::Bars(Bars { heading: heading.to_owned(), rows });
    Figure {
        title: format!(
            "Fork of a live context with a data frame of {} MB",
            report.frame_bytes / 1_000_000
        ),
        note: format!("Milliseconds at p50, line to p95, {} rounds; red: aim", report.rounds),
        panels: vec![
            bars("Until the copy has answered", rows.into_iter().flatten().collect()),
            bars("A fork, in parts", parts.collect()),
        ],
    }
}
