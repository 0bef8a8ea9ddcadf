//! The figures, for people.

use std::fmt::Write as _;

use super::super::plot::{Bar, Bars, Figure, Panel};
use super::super::report;
use super::Report;

/// Of all that are wrong.
const SHOWN: usize = 5;

pub(super) fn table(report: &Report) -> String {
    let Report { cores, template, seed, turns, calls, runs, alive, verdict, .. } = report;
    let mut text = format!(
        "runs: PostgreSQL, NATS, 2 replicas of control, 3 nodes, model and load on {cores} cores; \
         template {template}, seed {seed}\n\
         {runs} runs of {turns} turns, {calls} with a call in the sandbox; model p50 2 s, p99 20 s\n\n\
         alive at once: {} with {} sandboxes (created in {:.1} s; {:.2} new runs a second until all \
         were worked on)\n",
        alive.peak, alive.sandboxes, alive.created_in_s, alive.per_second
    );
    let killed =
        if alive.killed.is_empty() { "nothing".to_owned() } else { alive.killed.join(", ") };
    let _ = writeln!(
        text,
        "killed: {killed}; all ended after {:.1} s, {:.2} a second from then on\n\
         answered {}, failed with a kind {}, wrong {}; taken over {}; {} requests to the model, {} \
         calls, {} sandboxes, {} events",
        alive.all_ended_after_s,
        alive.ended_per_second,
        verdict.answered,
        verdict.failed,
        verdict.wrong.len(),
        verdict.taken_over,
        verdict.turns,
        verdict.calls,
        verdict.sandboxes,
        verdict.events
    );
    for wrong in verdict.wrong.iter().take(SHOWN) {
        let _ = writeln!(text, "  wrong: {wrong}");
    }
    text.push_str("\nmilliseconds\n");
    report::header(&mut text);
    report::row(&mut text, "create", report.create, "");
    report::row(&mut text, "until a worker has it", report.claim, "");
    report::row(&mut text, "run beyond the model", report.overhead, "one worker from begin to end");
    report::row(&mut text, "  taken over", report.overhead_disturbed, "");
    let whole: f64 = report.cpu.iter().map(|(_, ms)| ms).sum();
    let _ = writeln!(text, "\nCPU of a run: {whole:.1} ms");
    for (role, ms) in &report.cpu {
        let _ = writeln!(text, "  {role:<26}{ms:>8.2}");
    }
    let written = &report.written;
    let _ = writeln!(
        text,
        "\nPostgreSQL, without an idle platform's own: {:.0} transactions that wrote, {:.0} with \
         those that only read; allowed {:.0}\n\
         of a run, beside 2 of each turn: {:.2} writes, {:.2} with reads; {:.0} bytes of WAL\n\
         of a turn, beside those that each run may have: {:.2} writes, {:.2} with reads",
        written.writes,
        written.commits,
        written.allowed,
        written.writes_of_run,
        written.commits_of_run,
        written.wal_bytes_of_run,
        written.writes_of_turn,
        written.commits_of_turn
    );
    let [control, gateways, host] = memory_of_run(report);
    let _ = writeln!(
        text,
        "memory of a run alive: control {control:.1} KiB, its gateways {gateways:.1} KiB, all on \
         this host {host:.0} KiB\n"
    );
    report::aims(&mut text, &report.aims);
    text.push_str("\nfor docs/benchmarks.md:\n\n");
    text.push_str(&markdown(report));
    text
}

/// KiB of one run that is alive: of replicas, of their gateways, and of everything on this host.
fn memory_of_run(Report { memory, alive, .. }: &Report) -> [f64; 3] {
    let each =
        |more: u64, less: u64| more.saturating_sub(less) as f64 / 1024.0 / alive.peak.max(1) as f64;
    [
        each(memory.control_peak, memory.control_idle),
        each(memory.gateways_peak, memory.gateways_idle),
        each(memory.available_idle, memory.available_peak),
    ]
}

/// The tables as `docs/benchmarks.md` has them.
fn markdown(report: &Report) -> String {
    let Report { alive, verdict, written, runs, cores, .. } = report;
    let mut text =
        format!("Measured on {cores} cores with `--alive {runs}`.\n\n| | |\n|---|---|\n");
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "| {name} | {value} |");
    };
    let killed = if alive.killed.is_empty() { "nothing".into() } else { alive.killed.join(", ") };
    row("runs alive at once", alive.peak.to_string());
    row("sandboxes at once", alive.sandboxes.to_string());
    row("new runs per second, until all had a worker", format!("{:.2}", alive.per_second));
    row("killed", killed);
    let ends = (verdict.answered, verdict.failed, verdict.wrong.len());
    row("answered, failed with a kind, wrong", format!("{}, {}, {}", ends.0, ends.1, ends.2));
    row("taken over by another worker", verdict.taken_over.to_string());
    row("ended per second, after the kills", format!("{:.2}", alive.ended_per_second));
    let commits = format!("{:.2}; {:.2} with reads", written.writes_of_run, written.commits_of_run);
    row("commits of PostgreSQL per run, beside 2 per turn", commits);
    let commits =
        format!("{:.2}; {:.2} with reads", written.writes_of_turn, written.commits_of_turn);
    row("commits of PostgreSQL per turn, beside those of runs", commits);
    let [control, gateways, host] = memory_of_run(report);
    let memory = format!("{control:.0}, {gateways:.0}, {host:.0} KiB");
    row("memory of a run alive: control, gateways, the whole host", memory);
    text.push_str("\n| ms | p50 | p95 | p99 | mean |\n|---|---|---|---|---|\n");
    let times = [
        ("create", report.create),
        ("from its creation until it has a worker", report.claim),
        ("beyond the model, one worker from begin to end", report.overhead),
        ("beyond the model, taken over", report.overhead_disturbed),
    ];
    for (name, times) in times {
        let Some(of) = times else { continue };
        let _ = writeln!(
            text,
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} |",
            of.p50_ms, of.p95_ms, of.p99_ms, of.mean_ms
        );
    }
    text.push_str("\n| CPU of one run, by role | ms |\n|---|---|\n");
    for (role, ms) in &report.cpu {
        let _ = writeln!(text, "| {role} | {ms:.1} |");
    }
    let whole: f64 = report.cpu.iter().map(|(_, ms)| ms).sum();
    let _ = writeln!(text, "| all | {whole:.1} |");
    text
}

pub(super) fn figure(report: &Report) -> Figure {
    let bar = |(role, ms): &(&'static str, f64)| Bar {
        label: (*role).to_owned(),
        value: *ms,
        tail: None,
        aim: None,
    };
    let rows = report.cpu.iter().map(bar).collect();
    let heading = "CPU milliseconds of one run".to_owned();
    Figure {
        title: format!("{} runs alive at once", report.alive.peak),
        note: format!("the whole platform, model and load on {} cores", report.cores),
        panels: vec![Panel::Bars(Bars { heading, rows })],
    }
}
