//! The figures side by side, and what was hoped for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use belljar_domain::units::format_size;
use serde::Serialize;

use super::{Entrant, work};
use crate::cli::BenchTiers;
use crate::commands::bench::plot::{Bar, Bars, Figure, Panel};
use crate::commands::bench::report::{Aim, aims, header, row};
use crate::commands::bench::stats::Summary;

/// Ours by the engine's own time, at most.
const DRIVING: f64 = 1.15;

/// From disk by from nothing, at most.
const RESTORING: f64 = 0.5;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    rounds: u32,
    template: String,
    rows: Vec<Row>,
    aims: Vec<Aim>,
}

#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: String,
    what: String,
    /// Why there are no figures.
    absent: Option<String>,
    up: Option<Summary>,
    word: Option<Summary>,
    python: Option<Summary>,
    cold: Option<Summary>,
    restored: Option<Summary>,
    work: BTreeMap<String, Summary>,
    memory_bytes: Option<u64>,
}

pub(super) fn rows(entrants: Vec<Entrant>) -> Vec<Row> {
    let row = |entrant: Entrant| {
        let Entrant { name, what, figures, out, kind: _ } = entrant;
        let work = figures.work.iter();
        Row {
            name,
            what,
            absent: out,
            up: Summary::of(&figures.up),
            word: Summary::of(&figures.word),
            python: Summary::of(&figures.python),
            cold: Summary::of(&figures.cold),
            restored: Summary::of(&figures.restored),
            work: work.filter_map(|(k, times)| Some((k.clone(), Summary::of(times)?))).collect(),
            memory_bytes: figures.memory_bytes,
        }
    };
    entrants.into_iter().map(row).collect()
}

impl Report {
    pub(super) fn new(options: &BenchTiers, rows: Vec<Row>) -> Self {
        let mut aims = Vec::new();
        for ours in &rows {
            let engine = ours.name.strip_prefix("oci/").map(|runtime| format!("{runtime} run"));
            let engine = if ours.name == "microvm" { Some(QEMU.to_owned()) } else { engine };
            let beside = engine.and_then(|name| rows.iter().find(|row| row.name == name));
            let (Some(beside), None) = (beside, &ours.absent) else { continue };
            let name = &ours.name;
            for (what, mine, its) in [
                ("up", ours.up, beside.up),
                ("first word", ours.word, beside.word),
                ("first word of Python", ours.python, beside.python),
            ] {
                if its.is_some() {
                    let what = format!("{name} / {}, {what}, at most", beside.name);
                    aims.push(Aim::at_most(&what, DRIVING, ratio(mine, its)));
                }
            }
        }
        for ours in rows.iter().filter(|row| row.restored.is_some()) {
            let what = format!("{}, warm from disk / warm from nothing, at most", ours.name);
            aims.push(Aim::at_most(&what, RESTORING, ratio(ours.restored, ours.cold)));
        }
        Self { rounds: options.rounds, template: options.template.clone(), rows, aims }
    }

    fn bare(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == "bare")
    }

    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "template {}, {} rounds, all taking turns (ms)\n\n",
            self.template, self.rounds
        );
        type Column = fn(&Row) -> Option<Summary>;
        let parts: [(&str, Column); 5] = [
            ("create -> up", |row| row.up),
            ("create -> first word of /bin/echo", |row| row.word),
            ("create -> first word of python3 -c 'print(1)'", |row| row.python),
            ("create -> context has imported everything and answers", |row| row.cold),
            ("from disk -> the same context answers", |row| row.restored),
        ];
        for (title, column) in parts {
            let _ = writeln!(text, "{title}");
            header(&mut text);
            for entrant in self.rows.iter().filter(|row| column(row).is_some()) {
                row(&mut text, &entrant.name, column(entrant), &entrant.what);
            }
            text.push('\n');
        }
        self.slowdown(&mut text);
        let _ = writeln!(text, "\nmemory of one that is idle");
        for entrant in &self.rows {
            if let Some(bytes) = entrant.memory_bytes {
                let _ = writeln!(text, "{:<24}{:>9}", entrant.name, format_size(bytes));
            }
        }
        text.push('\n');
        for entrant in &self.rows {
            if let Some(why) = &entrant.absent {
                let _ = writeln!(text, "{}: out: {why}", entrant.name);
            }
        }
        aims(&mut text, &self.aims);
        text
    }

    fn slowdown(&self, text: &mut String) {
        let _ = writeln!(text, "work inside, at p50, as a multiple of bare");
        let _ = write!(text, "{:<24}", "");
        work::KINDS.iter().for_each(|(kind, _)| {
            let _ = write!(text, "{kind:>9}");
        });
        text.push('\n');
        for entrant in self.rows.iter().filter(|row| !row.work.is_empty()) {
            let _ = write!(text, "{:<24}", entrant.name);
            for (kind, _) in work::KINDS {
                let its = |row: &Row| row.work.get(kind).copied();
                let slow = ratio(its(entrant), self.bare().and_then(its));
                let said = slow.map_or("-".to_owned(), |times| format!("{times:.2}"));
                let _ = write!(text, "{said:>9}");
            }
            text.push('\n');
        }
        if let Some(bare) = self.bare().filter(|bare| !bare.work.is_empty()) {
            let _ = write!(text, "{:<24}", "(bare, ms)");
            for (kind, _) in work::KINDS {
                let said = bare.work.get(kind).map_or(0.0, |summary| summary.p50_ms);
                let _ = write!(text, "{said:>9.1}");
            }
            text.push('\n');
        }
        for (kind, what) in work::KINDS {
            let _ = writeln!(text, "  {kind}: {what}");
        }
    }

    pub(super) fn figure(&self) -> Figure {
        let bars = |heading: &str, column: fn(&Row) -> Option<Summary>| {
            let bar = |row: &Row| {
                let summary = column(row)?;
                let (value, tail) = (summary.p50_ms, Some(summary.p95_ms));
                Some(Bar { label: row.name.clone(), value, tail, aim: None })
            };
            let rows = self.rows.iter().filter_map(bar).collect();
            Panel::Bars(Bars { heading: heading.to_owned(), rows })
        };
        Figure {
            title: "Tiers beside their engines".to_owned(),
            note: format!("Milliseconds at p50, line to p95, {} rounds", self.rounds),
            panels: vec![
                bars("create → first word of /bin/echo", |row| row.word),
                bars("create → first word of a Python", |row| row.python),
            ],
        }
    }
}

/// The name of the monitor by itself.
pub(super) const QEMU: &str = "qemu";

fn ratio(mine: Option<Summary>, its: Option<Summary>) -> Option<f64> {
    Some(mine?.p50_ms / its?.p50_ms)
}
