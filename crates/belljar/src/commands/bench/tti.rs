//! `belljar bench tti`: time to interactive, from the request for a sandbox to
//! the answer of `python3 --version`, over HTTP.
//!
//! Three ways, as the public ComputeSDK benchmark has them: one after another,
//! one every 200 ms, and all at once; and its form of results, so that the same
//! tools read them. The server is a process of its own; what a client costs is
//! told apart by asking twice: with bare HTTP, and with E2B's own Python SDK.

mod http;
mod sdk;
pub(super) mod server;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::Serialize;

use self::server::Served;
use super::plot::{Bar, Bars, Figure, Panel};
use super::report::{self, Aim};
use super::stats::Summary;
use crate::cli::BenchTti;
use crate::config::Config;
use crate::output::Printer;

/// How sandboxes are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sequential,
    Staggered,
    Burst,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Sequential, Self::Staggered, Self::Burst];

    /// The name in the public results.
    fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Staggered => "staggered",
            Self::Burst => "concurrent",
        }
    }
}

/// Between two requests of [`Mode::Staggered`].
const STAGGER: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    version: &'static str,
    environment: Environment,
    config: Settings,
    results: Vec<Outcome>,
    aims: Vec<Aim>,
}

#[derive(Debug, Serialize)]
struct Environment {
    platform: &'static str,
    arch: &'static str,
    cores: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    iterations: u32,
    timeout_ms: u64,
}

/// What one client saw in one mode.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    provider: String,
    mode: &'static str,
    concurrency: u32,
    wall_clock_ms: f64,
    time_to_first_ready_ms: Option<f64>,
    iterations: Vec<Iteration>,
    summary: Option<Percentiles>,
    success_rate: f64,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Iteration {
    tti_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Percentiles {
    tti_ms: Ttis,
}

#[derive(Debug, Serialize)]
struct Ttis {
    median: f64,
    p95: f64,
    p99: f64,
}

const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) async fn run(
    options: &BenchTti,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let served = Served::find_or_start(options, config, printer).await?;
    let mut results = Vec::new();
    for mode in Mode::ALL {
        printer.note(format_args!("bare HTTP, {}", mode.name()));
        results.push(bare(&served, mode, options).await);
        served.settle().await;
    }
    match &options.python {
        Some(python) => {
            for mode in Mode::ALL {
                printer.note(format_args!("Python SDK, {}", mode.name()));
                results.push(sdk::measure(python, &served, mode, options).await?);
                served.settle().await;
            }
        }
        None => printer.note("no Python SDK: pass a Python with `e2b` installed with --python"),
    }
    served.stop().await?;
    let report = Report {
        version: "1.1",
        environment: Environment {
            platform: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        },
        config: Settings {
            iterations: options.count,
            timeout_ms: u64::try_from(TIMEOUT.as_millis()).unwrap_or(u64::MAX),
        },
        aims: aims(&results),
        results,
    };
    report::publish(&report, &table(&report), &figure(&report), &options.output, printer)?;
    let whole = report.results.iter().all(|outcome| outcome.success_rate >= 1.0);
    Ok(u8::from(!whole))
}

async fn bare(served: &Served, mode: Mode, options: &BenchTti) -> Outcome {
    let begin = Instant::now();
    let mut tasks = Vec::new();
    let mut iterations = Vec::new();
    for index in 0..options.count {
        let (address, key) = (served.address.clone(), served.key.clone());
        let template = options.template.clone();
        let one = async move { http::interactive(&address, &key, &template).await };
        match mode {
            Mode::Sequential => iterations.push(one.await),
            Mode::Staggered => {
                tokio::time::sleep_until((begin + STAGGER * index).into()).await;
                tasks.push(tokio::spawn(one));
            }
            Mode::Burst => tasks.push(tokio::spawn(one)),
        }
    }
    for task in tasks {
        let lost = |error: tokio::task::JoinError| Iteration::failed(error.to_string());
        iterations.push(task.await.unwrap_or_else(lost));
    }
    Outcome::new("belljar (bare HTTP)", mode, options.count, begin.elapsed(), iterations)
}

impl Iteration {
    fn failed(error: String) -> Self {
        Self { tti_ms: 0.0, error: Some(error) }
    }
}

impl Outcome {
    fn new(
        provider: &str,
        mode: Mode,
        count: u32,
        wall: Duration,
        iterations: Vec<Iteration>,
    ) -> Self {
        let good = iterations.iter().filter(|one| one.error.is_none());
        let times: Vec<Duration> =
            good.map(|one| Duration::from_secs_f64(one.tti_ms / 1e3)).collect();
        let first = times.iter().min().map(|time| time.as_secs_f64() * 1e3);
        let summary = Summary::of(&times).map(|summary| Percentiles {
            tti_ms: Ttis { median: summary.p50_ms, p95: summary.p95_ms, p99: summary.p99_ms },
        });
        let all = f64::from(u32::try_from(iterations.len()).unwrap_or(u32::MAX).max(1));
        let good = f64::from(u32::try_from(times.len()).unwrap_or(u32::MAX));
        Self {
            provider: provider.to_owned(),
            mode: mode.name(),
            concurrency: if mode == Mode::Burst { count } else { 1 },
            wall_clock_ms: wall.as_secs_f64() * 1e3,
            time_to_first_ready_ms: first,
            iterations,
            summary,
            success_rate: good / all,
        }
    }
}

fn aims(results: &[Outcome]) -> Vec<Aim> {
    let of = |mode: Mode| results.iter().find(|outcome| outcome.mode == mode.name());
    let ttis = |mode| of(mode).and_then(|outcome| outcome.summary.as_ref());
    let success = of(Mode::Burst).map(|outcome| outcome.success_rate);
    vec![
        Aim::at_most(
            "bare HTTP, one after another, p50 in ms, at most",
            25.0,
            ttis(Mode::Sequential).map(|summary| summary.tti_ms.median),
        ),
        Aim::at_most(
            "bare HTTP, all at once, p95 in ms, at most",
            1000.0,
            ttis(Mode::Burst).map(|summary| summary.tti_ms.p95),
        ),
        Aim::at_least("all at once, share that succeeds, at least", 1.0, success),
    ]
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<24}{:<12}{:>9}{:>9}{:>9}{:>9}",
        "create to answer, in ms", "", "p50", "p95", "p99", "success"
    );
    for outcome in &report.results {
        let times = outcome.summary.as_ref().map_or_else(
            || format!("{:>27}", "-"),
            |Percentiles { tti_ms: ttis }| {
                format!("{:>9.1}{:>9.1}{:>9.1}", ttis.median, ttis.p95, ttis.p99)
            },
        );
        let _ = writeln!(
            text,
            "{:<24}{:<12}{times}{:>8.0}%",
            outcome.provider,
            outcome.mode,
            outcome.success_rate * 100.0
        );
        let failed = outcome.iterations.iter().find_map(|one| one.error.as_ref());
        if let Some(error) = failed {
            let _ = writeln!(text, "  for example: {error}");
        }
    }
    report::aims(&mut text, &report.aims);
    text
}

fn figure(report: &Report) -> Figure {
    let rows = report.results.iter().filter_map(|outcome| {
        let ttis = &outcome.summary.as_ref()?.tti_ms;
        let label = format!("{}, {}", outcome.provider, outcome.mode);
        Some(Bar { label, value: ttis.median, tail: Some(ttis.p95), aim: None })
    });
    Figure {
        title: "Time to interactive".to_owned(),
        note: format!(
            "create → `python3 --version`, {} each; bar: p50, line: p95, in ms",
            report.config.iterations
        ),
        panels: vec![Panel::Bars(Bars { heading: String::new(), rows: rows.collect() })],
    }
}
