//! The figures as a table and as a drawing.

use std::fmt::Write as _;

use super::super::plot::{Bar, Bars, Curve, Figure, Panel};
use super::super::report;
use super::Report;

pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    let settings = &report.settings;
    let _ = writeln!(
        text,
        "{} bytes asked, {} events answered, {} clients, {} cores",
        settings.body_bytes, settings.events, settings.clients, settings.cores
    );
    let _ = writeln!(
        text,
        "\n{:<24}{:>9}{:>12}{:>12}{:>12}",
        "saturated", "a second", "proxy µs", "upstream µs", "clients µs"
    );
    for one in &report.throughput {
        let _ = writeln!(
            text,
            "{:<24}{:>9.0}{:>12.0}{:>12.0}{:>12.0}",
            one.name, one.per_second, one.proxy_micros, one.upstream_micros, one.client_micros
        );
    }
    for (what, is_first) in [("first byte", true), ("whole answer", false)] {
        let _ = writeln!(text, "\n{what} at {:.0} a second, in ms", report.rate);
        report::header(&mut text);
        for one in &report.latency {
            let summary = if is_first { one.first_byte } else { one.whole };
            report::row(&mut text, one.name, summary, "");
        }
    }
    let turns = report.latency.first().map_or(&[][..], |one| &one.turns);
    let left_out = turns.iter().filter(|turn| !turn.counts).count();
    if left_out > 0 {
        let _ = writeln!(text, "\nleft out, because the host kept the cores: {left_out} rounds");
    }
    if let (Some(first), Some(last)) = (report.memory.first(), report.memory.last()) {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let _ = writeln!(
            text,
            "\nthe gateway's memory: {:.1} MiB after {} requests, {:.1} MiB after {}",
            mebibytes(first.resident),
            first.requests,
            mebibytes(last.resident),
            last.requests
        );
    }
    text.push('\n');
    report::aims(&mut text, &report.aims);
    text
}

pub(super) fn figure(report: &Report) -> Figure {
    let bars =
        |heading: &str, rows: Vec<Bar>| Panel::Bars(Bars { heading: heading.to_owned(), rows });
    let rates = report.throughput.iter().map(|one| Bar {
        label: one.name.to_owned(),
        value: one.per_second,
        tail: None,
        aim: None,
    });
    let times = report.latency.iter().filter_map(|one| {
        let summary = one.whole?;
        let label = one.name.to_owned();
        Some(Bar { label, value: summary.p50_ms, tail: Some(summary.p99_ms), aim: None })
    });
    let points = report
        .memory
        .iter()
        .map(|one| (one.requests as f64 / 1e3, one.resident as f64 / f64::from(1 << 20)));
    Figure {
        title: "Gateway".to_owned(),
        note: format!(
            "{} bytes asked, {} events answered, {} clients",
            report.settings.body_bytes, report.settings.events, report.settings.clients
        ),
        panels: vec![
            bars("answers a second, saturated", rates.collect()),
            bars(
                &format!("whole answer at {:.0} a second in ms; bar: p50, line: p99", report.rate),
                times.collect(),
            ),
            Panel::Curve(Curve {
                heading: "the gateway's memory, MiB".to_owned(),
                below: "thousands of requests".to_owned(),
                points: points.collect(),
            }),
        ],
    }
}
