//! The report as tables that fit the terminal.

use std::collections::BTreeMap;

use belljar_eval::{Comparison, Group, Interval, Report};

use crate::commands::runs::dollars;
use crate::output::{Printer, printable};
use crate::page::{Align, Grid, Page};

/// Prints groups and comparisons. Columns for variants, judges and guards need one of them.
pub(super) fn print(report: &Report, page: Option<Page>, printer: &Printer) -> anyhow::Result<()> {
    let (width, has_colour) =
        page.map_or((None, false), |page| (Some(page.width), page.has_colour));
    printer.data(groups(report).to_text(width, has_colour).trim_end())?;
    if !report.comparisons.is_empty() {
        printer.data("")?;
        let has_variants = has_variants(report);
        let grid = comparisons(&report.comparisons, has_variants);
        printer.data(grid.to_text(width, has_colour).trim_end())?;
    }
    Ok(())
}

fn has_variants(report: &Report) -> bool {
    report.head.variants.iter().any(|variant| !variant.is_empty())
}

fn groups(report: &Report) -> Grid {
    use Align::{Left, Right};
    let has_variants = has_variants(report);
    let has_judge = report.groups.iter().any(|group| group.judge_nano_dollars > 0);
    let has_guards = report.groups.iter().any(|group| !group.guards.is_empty());
    let columns: [(&str, Align, bool); 15] = [
        ("MODEL", Left, true),
        ("VARIANT", Left, has_variants),
        ("PASSED", Right, true),
        ("RATE", Right, true),
        ("95 % INTERVAL", Right, true),
        ("MEAN", Right, true),
        ("SD", Right, true),
        ("COST", Right, true),
        ("JUDGE", Right, has_judge),
        ("TIME", Right, true),
        ("MODEL TIME", Right, true),
        ("TURNS", Right, true),
        ("TOKENS", Right, true),
        ("NOT PASSED", Left, true),
        ("GUARDS", Left, has_guards),
    ];
    let shown: Vec<(&str, Align)> =
        columns.iter().filter(|column| column.2).map(|column| (column.0, column.1)).collect();
    let mut grid = Grid::new(&shown);
    for group in &report.groups {
        let cells = cells(group).into_iter().zip(&columns);
        grid.row(cells.filter(|(_, column)| column.2).map(|(cell, _)| cell).collect());
    }
    grid
}

/// The cells of a group, in the order of the columns.
fn cells(group: &Group) -> Vec<String> {
    vec![
        printable(&group.model),
        printable(&group.variant),
        format!("{}/{}", group.passed, group.scored),
        group.pass_rate.map_or_else(none, percent),
        group.pass_interval.map_or_else(none, interval),
        number(group.mean_score, 3),
        number(group.spread_of_repeats, 3),
        dollars(group.nano_dollars),
        dollars(group.judge_nano_dollars),
        group.wall_ms.map_or_else(none, seconds),
        group.model_ms.map_or_else(none, seconds),
        number(group.turns, 1),
        group.tokens.to_string(),
        counts(&group.errors),
        counts(&group.guards),
    ]
}

fn comparisons(comparisons: &[Comparison], has_variants: bool) -> Grid {
    use Align::{Left, Right};
    let mut grid = Grid::new(&[
        ("FROM", Left),
        ("TO", Left),
        ("TASKS", Right),
        ("DIFFERENCE", Right),
        ("95 % INTERVAL", Right),
        ("BETTER", Right),
        ("WORSE", Right),
        ("P", Right),
    ]);
    let named = |[model, variant]: &[String; 2]| {
        let name = if has_variants { format!("{model}, {variant}") } else { model.clone() };
        printable(&name)
    };
    for compared in comparisons {
        let paired = &compared.paired;
        let Interval { low, high } = paired.interval;
        grid.row(vec![
            named(&compared.first),
            named(&compared.second),
            paired.tasks.to_string(),
            format!("{:+.3}", paired.difference),
            format!("{low:+.3} to {high:+.3}"),
            paired.better.to_string(),
            paired.worse.to_string(),
            format!("{:.4}", paired.p),
        ]);
    }
    grid
}

fn none() -> String {
    "–".to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn interval(Interval { low, high }: Interval) -> String {
    format!("{} to {}", percent(low), percent(high))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(none, |value| format!("{value:.digits$}"))
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03} s", millis / 1000, millis % 1000)
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{count} {}", printable(name))).collect();
    if parts.is_empty() { none() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use belljar_eval::{ReportHead, Trial, TrialFigures, TrialKey};

    use super::*;

    #[test]
    fn the_tables_fit_and_have_no_empty_columns() {
        let trial = |variant: &str, score: f64| Trial {
            key: TrialKey {
                task: "a".into(),
                model: "m".into(),
                variant: variant.into(),
                repeat: 1,
            },
            run: "r".into(),
            link: None,
            outcome: "answered".into(),
            error: None,
            answer: None,
            score: Some(score),
            passed: score > 0.5,
            reason: String::new(),
            figures: TrialFigures { wall_ms: 1250, turns: 3, ..TrialFigures::default() },
            judged_by: Vec::new(),
            judge_nano_dollars: 0,
        };
        let head = ReportHead {
            name: String::new(),
            models: vec!["m".into()],
            variants: vec!["off".into(), "on".into()],
            tasks: vec!["a".into()],
            repeats: 1,
            seed: 0,
            is_replay: false,
            incomplete: None,
        };
        let report = Report::new(head, vec![trial("off", 0.0), trial("on", 1.0)]);
        let text = groups(&report).to_text(None, false);
        assert!(!text.contains("JUDGE") && !text.contains("GUARDS"), "{text}");
        let row: Vec<&str> = text.lines().nth(3).unwrap().split("  ").collect();
        assert!(row.iter().any(|cell| cell.trim() == "1/1"), "{text}");
        assert!(text.contains("20.7 % to 100.0 %") && text.contains("1.250 s"), "{text}");
        let narrow = groups(&report).to_text(Some(110), false);
        assert!(narrow.lines().all(|line| line.chars().count() <= 110), "{narrow}");
        let compared = comparisons(&report.comparisons, true).to_text(None, false);
        assert!(compared.contains("m, off") && compared.contains("+1.000"), "{compared}");
    }
}
