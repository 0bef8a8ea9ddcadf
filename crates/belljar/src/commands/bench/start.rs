//! `belljar bench start`: create, run `/bin/true`, destroy.

use std::time::{Duration, Instant};

use anyhow::Context;
use belljar_domain::{EndReason, RootFs, Spec, Tier};
use belljar_node::{Command, Node};
use serde::Serialize;

use super::plot::{Bar, Bars, Figure, Panel};
use super::report::{self, Row};
use super::rivals::{self, Rival};
use super::stats::Summary;
use crate::cli::BenchStart;
use crate::config::Config;
use crate::output::Printer;

/// What the jail's own time is spent on.
#[derive(Debug, Default)]
struct Parts {
    create: Vec<Duration>,
    call: Vec<Duration>,
    destroy: Vec<Duration>,
}

#[derive(Debug, Serialize)]
struct Report {
    rounds: u32,
    rows: Vec<Row>,
    jail_parts: Vec<(&'static str, Option<Summary>)>,
    jail_to_bwrap: Option<f64>,
    jail_to_runc: Option<f64>,
    guest_bytes: usize,
    guest_resident_bytes: Option<u64>,
}

struct Contestant {
    name: &'static str,
    what: &'static str,
    rival: Result<Box<dyn Rival>, String>,
    times: Vec<Duration>,
}

pub(super) async fn run(
    options: &BenchStart,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let template = belljar_template::host::prepare(&config.store).context("cannot use `host`")?;
    let root = &template.root;
    let scratch = std::env::temp_dir().join(format!("belljar-bench-{}", std::process::id()));
    let mut others = contestants(root, &scratch);
    let node = Node::start(config.state.as_deref()).await?;
    let spec = Spec::new(Tier::Jail, root.clone());
    let mut jail = Vec::new();
    let mut parts = Parts::default();
    // The first rounds fill caches and are not counted.
    let warm_up = (options.count / 10).clamp(3, 20);
    for round in 0..options.count + warm_up {
        let counts = round >= warm_up;
        // Everybody is first, and right after everybody else, equally often:
        // some leave work behind that the kernel does in the next one's time.
        let turns = others.len() + 1;
        for turn in 0..turns {
            match (round as usize + turn) % turns {
                0 => {
                    let took = one_jail(&node, &spec, counts.then_some(&mut parts)).await?;
                    if counts {
                        jail.push(took);
                    }
                }
                other => others[other - 1].turn(counts),
            }
        }
    }
    let guest_resident_bytes = resident(&node, &spec).await?;
    node.stop().await;
    let report = summarize(options.count, &jail, &parts, others, guest_resident_bytes);
    // The rivals are gone with `others`; so is their need of the bundles.
    let _ = std::fs::remove_dir_all(&scratch);
    let table = table(&report);
    report::publish(&report, &table, &figure(&report), &options.output, printer)?;
    Ok(0)
}

fn contestants(root: &RootFs, scratch: &std::path::Path) -> Vec<Contestant> {
    let boxed = |rival: anyhow::Result<rivals::Oci>| match rival {
        Ok(oci) => Ok(Box::new(oci) as Box<dyn Rival>),
        Err(error) => Err(error.to_string()),
    };
    let contestant = |name, what, rival| Contestant { name, what, rival, times: Vec::new() };
    vec![
        contestant("bare", "fork and exec, no isolation", Ok(Box::new(rivals::bare()))),
        contestant(
            "bwrap",
            "bwrap --unshare-all: no cgroup, filter, writable layer or guest",
            Ok(Box::new(rivals::bubblewrap(root))),
        ),
        contestant("crun", "crun run", boxed(rivals::Oci::new("crun", root, scratch))),
        contestant("runc", "runc run", boxed(rivals::Oci::new("runc", root, scratch))),
    ]
}

impl Contestant {
    /// Takes a turn; one that fails is out, with the reason.
    fn turn(&mut self, counts: bool) {
        let Ok(rival) = &mut self.rival else { return };
        match rivals::time(rival.as_mut()) {
            Ok(took) if counts => self.times.push(took),
            Ok(_) => {}
            Err(error) => {
                self.times.clear();
                self.rival = Err(error.to_string());
            }
        }
    }
}

async fn one_jail(node: &Node, spec: &Spec, parts: Option<&mut Parts>) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let sandbox = node.create(spec).await?;
    let created = start.elapsed();
    let finished = sandbox.execute(&Command::new(["/bin/true"])).await?;
    let called = start.elapsed();
    sandbox.destroy().await?;
    let destroyed = start.elapsed();
    anyhow::ensure!(finished.end.reason == EndReason::Done, "the call ended: {:?}", finished.end);
    if let Some(parts) = parts {
        parts.create.push(created);
        parts.call.push(called - created);
        parts.destroy.push(destroyed - called);
    }
    Ok(destroyed)
}

/// The resident memory of an idle guest.
async fn resident(node: &Node, spec: &Spec) -> anyhow::Result<Option<u64>> {
    let sandbox = node.create(spec).await?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid()));
    sandbox.destroy().await?;
    let line = status.ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    Ok(line.map(|kilobytes| kilobytes * 1024))
}

fn summarize(
    rounds: u32,
    jail: &[Duration],
    parts: &Parts,
    others: Vec<Contestant>,
    guest_resident_bytes: Option<u64>,
) -> Report {
    let mut rows = vec![Row {
        name: "jail",
        what: "belljar: create, run, destroy",
        summary: Summary::of(jail),
        absent: None,
    }];
    rows.extend(others.into_iter().map(|other| Row {
        name: other.name,
        what: other.what,
        summary: Summary::of(&other.times),
        absent: other.rival.err(),
    }));
    let p50 = |name: &str| rows.iter().find(|row| row.name == name)?.summary.map(|s| s.p50_ms);
    let ratio = |name: &str| Some(p50("jail")? / p50(name)?);
    Report {
        rounds,
        jail_parts: vec![
            ("create", Summary::of(&parts.create)),
            ("call", Summary::of(&parts.call)),
            ("destroy", Summary::of(&parts.destroy)),
        ],
        jail_to_bwrap: ratio("bwrap"),
        jail_to_runc: ratio("runc"),
        guest_bytes: belljar_node::GUEST.len(),
        guest_resident_bytes,
        rows,
    }
}

fn table(report: &Report) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "create -> /bin/true exited -> destroyed, {} rounds, all taking turns (ms)\n\n",
        report.rounds
    );
    report::header(&mut text);
    for row in &report.rows {
        let note = row.absent.as_deref().unwrap_or(row.what);
        report::row(&mut text, row.name, row.summary, note);
    }
    text.push_str("\nthe jail's parts\n");
    for (name, summary) in &report.jail_parts {
        report::row(&mut text, name, *summary, "");
    }
    text.push('\n');
    let ratio = |text: &mut String, name: &str, ratio: Option<f64>, aim: f64| {
        if let Some(ratio) = ratio {
            let _ = writeln!(text, "jail / {name}: {ratio:.2} at p50 (aim: at most {aim})");
        }
    };
    ratio(&mut text, "bwrap", report.jail_to_bwrap, 1.2);
    ratio(&mut text, "runc", report.jail_to_runc, 0.4);
    let size = belljar_domain::units::format_size;
    let resident = report.guest_resident_bytes.map_or("?".to_owned(), size);
    let guest = size(report.guest_bytes as u64);
    let _ = writeln!(text, "guest: {guest} on disk, {resident} resident when idle");
    text
}

fn figure(report: &Report) -> Figure {
    let bar = |row: &Row| {
        let summary = row.summary?;
        let (value, tail) = (summary.p50_ms, Some(summary.p99_ms));
        Some(Bar { label: row.name.to_owned(), value, tail, aim: None })
    };
    let rows = report.rows.iter().filter_map(bar).collect();
    Figure {
        title: "Start: create → /bin/true → destroyed".to_owned(),
        note: format!("Milliseconds at p50, line to p99, {} rounds", report.rounds),
        panels: vec![Panel::Bars(Bars { heading: "All, taking turns".to_owned(), rows })],
    }
}
