//! `belljar bench first-result`: create, first answer of a Python that has
//! imported pandas.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use belljar_domain::EndReason;
use belljar_node::{Origin, PoolFigures, PoolSize, Sandbox};
use serde::Serialize;

use super::bare::{self, Script};
use super::plot::{Bar, Bars, Figure, Panel};
use super::report::{self, Aim, Row};
use super::stats::Summary;
use super::warmed::Warmed;
use crate::cli::BenchFirstResult;
use crate::config::Config;
use crate::output::Printer;

#[derive(Debug, Serialize)]
struct Report {
    rounds: u32,
    rows: Vec<Row>,
    on_demand_parts: Vec<(&'static str, Option<Summary>)>,
    pool_parts: Vec<(&'static str, Option<Summary>)>,
    pool_hits: u64,
    pool_misses: u64,
    warm_up_ms: f64,
    /// At p50; says more than the times on a machine that others use.
    on_demand_to_bare_fork: Option<f64>,
    aims: Vec<Aim>,
}

/// The times of one way to a first answer.
#[derive(Debug, Default)]
struct Times {
    answered: Vec<Duration>,
    create: Vec<Duration>,
    fork: Vec<Duration>,
    cell: Vec<Duration>,
    destroy: Vec<Duration>,
}

/// Everybody who takes turns.
struct Contest {
    cold: Warmed,
    pooled: Warmed,
    sandbox: Sandbox,
    forker: Script,
    kernels: Result<Script, String>,
    on_demand: Times,
    from_pool: Times,
    bare_fork: Vec<Duration>,
    import: Vec<Duration>,
    kernel: Vec<Duration>,
}

const POOL: PoolSize = PoolSize { least: 4, most: 16, rate: 50 };

pub(super) async fn run(
    options: &BenchFirstResult,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let cold = Warmed::start(&options.template, None, config, printer).await?;
    let pooled = Warmed::start(&options.template, Some(POOL), config, printer).await?;
    let sandbox = bare::sandbox(&cold).await?;
    let forker = Script::forker(&sandbox, &cold, "", "print(1)").await?;
    let kernels = Script::kernels(&sandbox, &cold).await?;
    let mut contest = Contest {
        cold,
        pooled,
        sandbox,
        forker,
        kernels,
        on_demand: Times::default(),
        from_pool: Times::default(),
        bare_fork: Vec::new(),
        import: Vec::new(),
        kernel: Vec::new(),
    };
    printer.note(format_args!("{} rounds", options.count));
    let warm_up = (options.count / 10).clamp(3, 20);
    let slow_every = (options.count / options.slow).max(1);
    for round in 0..options.count + warm_up {
        let counts = round >= warm_up;
        // Everybody follows everybody else equally often.
        for turn in 0..3 {
            contest.turn((round + turn) % 3, counts).await?;
        }
        if counts && (round - warm_up).is_multiple_of(slow_every) {
            contest.slow().await?;
        }
    }
    let (report, pool) = contest.finish(options.count).await?;
    let table = table(&report, pool);
    report::publish(&report, &table, &figure(&report), &options.output, printer)?;
    Ok(0)
}

impl Contest {
    async fn turn(&mut self, which: u32, counts: bool) -> anyhow::Result<()> {
        match which {
            0 => {
                let times = counts.then_some(&mut self.on_demand);
                first_result(&self.cold, times).await
            }
            1 => {
                self.pooled.filled().await;
                let times = counts.then_some(&mut self.from_pool);
                first_result(&self.pooled, times).await?;
                // The filler works for what was taken, in nobody's time.
                self.pooled.filled().await;
                Ok(())
            }
            _ => {
                let (took, answer) = self.forker.turn().await?;
                anyhow::ensure!(answer == "1\n", "the bare fork answered {answer:?}");
                if counts {
                    self.bare_fork.push(took);
                }
                Ok(())
            }
        }
    }

    /// Those that start an interpreter.
    async fn slow(&mut self) -> anyhow::Result<()> {
        let command = self.cold.script("import pandas; print(1)", &[]);
        let start = Instant::now();
        let finished = self.sandbox.execute(&command).await?;
        let took = start.elapsed();
        let (end, answer) = (finished.end, finished.stdout.text());
        anyhow::ensure!(
            end.reason == EndReason::Done && answer == "1\n",
            "python3 -c ended {end:?} and answered {answer:?}"
        );
        self.import.push(took);
        if let Ok(kernels) = &mut self.kernels {
            match kernels.turn().await {
                Ok((took, _)) => self.kernel.push(took),
                Err(error) => self.kernels = Err(error.to_string()),
            }
        }
        Ok(())
    }

    async fn finish(self, rounds: u32) -> anyhow::Result<(Report, PoolFigures)> {
        let pool = self.pooled.pool().unwrap_or_default();
        let row = |name, what, times: &[Duration], absent| Row {
            name,
            what,
            summary: Summary::of(times),
            absent,
        };
        let (demand, waiting) = (&self.on_demand, &self.from_pool);
        let rows = vec![
            row("on demand", "belljar: create, fork, print(1)", &demand.answered, None),
            row("from the pool", "belljar: claim, print(1)", &waiting.answered, None),
            row("bare fork", "os.fork of a warm Python, no isolation", &self.bare_fork, None),
            row("python3 -c", "import pandas; print(1)", &self.import, None),
            row("ipykernel", "start, import, print(1)", &self.kernel, self.kernels.err()),
        ];
        let of = |row: &Row, pick: fn(Summary) -> f64| row.summary.map(pick);
        let aims = vec![
            Aim::at_most("on demand, p50 ms at most", 10.0, of(&rows[0], |s| s.p50_ms)),
            Aim::at_most("on demand, p99 ms at most", 30.0, of(&rows[0], |s| s.p99_ms)),
            Aim::at_most("from the pool, p50 ms at most", 2.0, of(&rows[1], |s| s.p50_ms)),
        ];
        let report = Report {
            rounds,
            on_demand_parts: demand.parts(),
            pool_parts: waiting.parts(),
            pool_hits: pool.hits,
            pool_misses: pool.misses,
            warm_up_ms: self.cold.warm_up.as_secs_f64() * 1e3,
            on_demand_to_bare_fork: of(&rows[0], |s| s.p50_ms)
                .zip(of(&rows[2], |s| s.p50_ms))
                .map(|(demand, bare)| demand / bare),
            rows,
            aims,
        };
        drop(self.forker);
        self.sandbox.destroy().await?;
        self.cold.node.stop().await;
        self.pooled.node.stop().await;
        Ok((report, pool))
    }
}

impl Times {
    fn parts(&self) -> Vec<(&'static str, Option<Summary>)> {
        vec![
            ("create", Summary::of(&self.create)),
            ("fork", Summary::of(&self.fork)),
            ("first cell", Summary::of(&self.cell)),
            ("destroy, after", Summary::of(&self.destroy)),
        ]
    }
}

async fn first_result(warmed: &Warmed, times: Option<&mut Times>) -> anyhow::Result<()> {
    let options = warmed.python();
    let start = Instant::now();
    let sandbox = warmed.node.create(&warmed.spec).await?;
    let created = start.elapsed();
    let context = sandbox.context(options).await?;
    let forked = start.elapsed();
    let ran = context.execute("print(1)", None).await;
    let answered = start.elapsed();
    anyhow::ensure!(ran.text() == "1\n", "the context answered {ran:?}");
    let origin = ran.origin;
    anyhow::ensure!(origin == Origin::Forked, "the interpreter was {}", origin.as_str());
    drop(context);
    let ending = Instant::now();
    sandbox.destroy().await?;
    if let Some(times) = times {
        times.answered.push(answered);
        times.create.push(created);
        times.fork.push(forked - created);
        times.cell.push(answered - forked);
        times.destroy.push(ending.elapsed());
    }
    Ok(())
}

fn table(report: &Report, pool: PoolFigures) -> String {
    let mut text = format!(
        "create -> `print(1)` answered by a Python with pandas imported, {} rounds, all taking \
         turns (ms)\n\n",
        report.rounds
    );
    report::header(&mut text);
    for row in &report.rows {
        let note = row.absent.as_deref().unwrap_or(row.what);
        report::row(&mut text, row.name, row.summary, note);
    }
    for (name, parts) in [
        ("the parts, on demand", &report.on_demand_parts),
        ("the parts, from the pool", &report.pool_parts),
    ] {
        let _ = writeln!(text, "\n{name}");
        for (name, summary) in parts {
            report::row(&mut text, name, *summary, "");
        }
    }
    let _ = writeln!(
        text,
        "\npool: {} hits, {} misses, {} made; a zygote warmed up in {:.0} ms",
        pool.hits, pool.misses, pool.made, report.warm_up_ms
    );
    if let Some(ratio) = report.on_demand_to_bare_fork {
        let _ = writeln!(text, "on demand / bare fork: {ratio:.2} at p50");
    }
    report::aims(&mut text, &report.aims);
    text
}

fn figure(report: &Report) -> Figure {
    let bar = |name: &str, summary: Option<Summary>, aim| {
        let summary = summary?;
        Some(Bar { label: name.to_owned(), value: summary.p50_ms, tail: Some(summary.p99_ms), aim })
    };
    let aim = |name| match name {
        "on demand" => Some(10.0),
        "from the pool" => Some(2.0),
        _ => None,
    };
    let rows = report.rows.iter().filter_map(|row| bar(row.name, row.summary, aim(row.name)));
    let parts = report.on_demand_parts.iter();
    let parts = parts.filter_map(|(name, summary)| bar(name, *summary, None));
    Figure {
        title: "First result: create → print(1), with pandas imported".to_owned(),
        note: format!(
            "Milliseconds at p50, line to p99, {} rounds; red: aim for p50",
            report.rounds
        ),
        panels: vec![
            Panel::Bars(Bars { heading: "All, taking turns".to_owned(), rows: rows.collect() }),
            Panel::Bars(Bars { heading: "On demand, in parts".to_owned(), rows: parts.collect() }),
        ],
    }
}
