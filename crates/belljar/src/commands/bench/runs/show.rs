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
         alive at once: {} (created in {:.1} s; {:.2} new runs a second until all were worked on)\n",
        alive.peak, alive.created_in_s, alive.per_second
    );
    let killed =
        if alive.killed.is_empty() { "nothing".to_owned() } else { alive.killed.join(", ") };
    let _ = writeln!(
        text,
        "killed: {killed}; all ended after {:.1} s\n\
         answered {}, failed with a kind {}, wrong {}; taken over {}; {} requests to the model, {} \
         calls, {} sandboxes, {} events",
        alive.all_ended_after_s,
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
    let memory = &report.memory;
    let each =
        |peak: u64, idle: u64| peak.saturating_sub(idle) as f64 / 1024.0 / alive.peak.max(1) as f64;
    let _ = writeln!(
        text,
        "memory of a run alive: control {:.1} KiB, its gateways {:.1} KiB\n",
        each(memory.control_peak, memory.control_idle),
        each(memory.gateways_peak, memory.gateways_idle)
    );
    report::aims(&mut text, &report.aims);
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
