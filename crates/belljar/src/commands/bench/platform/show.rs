//! The figures, for people.

use std::fmt::Write as _;

use super::super::plot::{Bar, Bars, Figure, Panel, Stacks};
use super::super::report;
use super::super::stats::Summary;
use super::{Fairness, Loss, Overhead, Report, Sessions};

pub(super) fn table(report: &Report) -> String {
    let mut text = format!(
        "platform: PostgreSQL, NATS, control, nodes and load on {} cores; template {}, pool {}\n",
        report.cores, report.template, report.pool
    );
    if let Some(sessions) = &report.sessions {
        show_sessions(&mut text, sessions);
    }
    if let Some(overhead) = &report.overhead {
        show_overhead(&mut text, overhead);
    }
    if let Some(fairness) = &report.fairness {
        show_fairness(&mut text, fairness);
    }
    if let Some(loss) = &report.loss {
        show_loss(&mut text, loss);
    }
    text.push('\n');
    report::aims(&mut text, &report.aims);
    text
}

fn show_sessions(text: &mut String, sessions: &Sessions) {
    let Sessions { rate, seconds, sessions: count, lost, per_second, .. } = sessions;
    let _ = writeln!(
        text,
        "\nsessions: {rate} a second for {seconds} s: {count} began, {lost} lost, {per_second:.2} a \
         second (ms, from when each was due)"
    );
    if let Some(error) = &sessions.first_error {
        let _ = writeln!(text, "first error: {error}");
    }
    report::header(text);
    report::row(text, "create", sessions.create, "");
    report::row(text, "first result", sessions.first_result, "after four uploads");
    report::row(text, "whole session", sessions.whole, "");
    let cost = &sessions.cpu;
    let _ = writeln!(
        text,
        "CPU a session: {:.1} ms = cells {:.1} + everything else {:.1}",
        cost.cells + cost.outside,
        cost.cells,
        cost.outside
    );
    for (role, ms) in cost.parts() {
        let _ = writeln!(text, "  {role:<26}{ms:>7.2}");
    }
    let written = &sessions.written;
    let _ = writeln!(
        text,
        "the whole machine: {:.2} busy cores\n\
         PostgreSQL, a session: {:.2} commits, rows inserted {:.2}, updated {:.2}, deleted {:.2}; \
         {:.0} bytes of WAL",
        sessions.busy_cores,
        written.commits,
        written.inserted,
        written.updated,
        written.deleted,
        written.wal_bytes
    );
}

fn show_overhead(text: &mut String, overhead: &Overhead) {
    let _ = writeln!(text, "\noverhead: create, first result of `print(1)`, in turn (ms)");
    report::header(text);
    report::row(text, "platform", overhead.platform, "");
    report::row(text, "  create", overhead.platform_create, "");
    report::row(text, "serve", overhead.serve, "");
    report::row(text, "  create", overhead.serve_create, "");
    if let Some(added) = overhead.added_ms {
        let _ = writeln!(text, "added at p50: {added:.2} ms; {} cold interpreters", overhead.cold);
    }
}

fn show_fairness(text: &mut String, fairness: &Fairness) {
    let _ = writeln!(
        text,
        "\nfairness: creates of one tenant, alone and beside {} of another's at once (ms)",
        fairness.in_flight
    );
    report::header(text);
    report::row(text, "alone", fairness.alone, "");
    report::row(text, "beside the flood", fairness.beside, "");
    let _ = writeln!(
        text,
        "p99: {:.2} times; the flood made {:.1} a second, and was refused {} times",
        fairness.ratio.unwrap_or(f64::NAN),
        fairness.flooded_per_second,
        fairness.refused
    );
}

fn show_loss(text: &mut String, loss: &Loss) {
    let _ = writeln!(
        text,
        "\nloss: {} sandboxes alive (asked for: {}), {:.1} MiB each, created in {:.0} s\n\
         killed one of three nodes: its {} were lost after {:.2} s; of the {} others {} run, and \
         {} of {} answered\n\
         the tenant uses {} places (right: {}); a new sandbox: {}",
        loss.alive,
        loss.asked_for,
        loss.bytes_each as f64 / f64::from(1 << 20),
        loss.created_in_s,
        loss.on_the_killed,
        loss.lost_after_s,
        loss.others,
        loss.untouched,
        loss.answered,
        loss.asked,
        loss.used,
        loss.used_rightly,
        if loss.created_after { "made" } else { "REFUSED" }
    );
}

pub(super) fn figure(report: &Report) -> Figure {
    let mut panels = Vec::new();
    if let Some(sessions) = &report.sessions {
        let cost = &sessions.cpu;
        panels.push(Panel::Stacks(Stacks {
            heading: "CPU milliseconds for one session".to_owned(),
            parts: vec![
                "the code's own cells",
                "sandboxes and node",
                "control and its services",
                "load",
            ],
            rows: vec![(
                format!("{:.1} a second", sessions.per_second),
                vec![
                    cost.cells,
                    cost.sandboxes + cost.node + cost.spawner + cost.gateway,
                    cost.control + cost.postgres + cost.nats,
                    cost.client,
                ],
            )],
        }));
    }
    let bar = |label: &str, summary: Option<Summary>| {
        let label = label.to_owned();
        summary.map(|s| Bar { label, value: s.p50_ms, tail: Some(s.p99_ms), aim: None })
    };
    let mut bars = |heading: &str, rows: [Option<Bar>; 2]| {
        let rows = rows.into_iter().flatten().collect();
        panels.push(Panel::Bars(Bars { heading: heading.to_owned(), rows }));
    };
    if let Some(overhead) = &report.overhead {
        let rows = [bar("platform", overhead.platform), bar("serve", overhead.serve)];
        bars("Create to first result, ms: p50 and line to p99", rows);
    }
    if let Some(fairness) = &report.fairness {
        let rows = [bar("alone", fairness.alone), bar("beside a flood", fairness.beside)];
        bars("Create of a quiet tenant, ms: p50 and line to p99", rows);
    }
    Figure {
        title: "A platform on one machine".to_owned(),
        note: format!("PostgreSQL, NATS, control, node and load on {} cores", report.cores),
        panels,
    }
}
