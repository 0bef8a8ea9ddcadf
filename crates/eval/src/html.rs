//! The report as one HTML page: no script, nothing from elsewhere, equal for equal reports.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar_report::escape;
use sha2::{Digest as _, Sha256};

use crate::report::{Comparison, Group, Report};
use crate::stats::Interval;
use crate::trial::Trial;

const STYLE: &str = include_str!("page.css");
/// The longest answer or reason that the page shows.
const MAX_SHOWN: usize = 300;
/// The width of a bar for a share of 1.
const BAR: f64 = 160.0;

/// Writes the page. Every text in it is escaped.
pub fn page(report: &Report) -> String {
    let head = &report.head;
    let title = if head.name.is_empty() { "Evaluation" } else { &head.name };
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let body = [
        facts(report),
        groups(&report.groups),
        comparisons(&report.comparisons),
        tasks(report),
        failures(&report.trials),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}\
         </body>\n</html>\n",
        body.concat(),
        title = escape(title),
    )
}

fn facts(report: &Report) -> String {
    let head = &report.head;
    let kind = if head.is_replay { "replays" } else { "runs" };
    let mut text = format!(
        "<p>{} {kind}: {} tasks × {} models × {} variants × {} repeats. Seed {}.</p>\n",
        report.trials.len(),
        head.tasks.len(),
        head.models.len(),
        head.variants.len(),
        head.repeats,
        head.seed
    );
    if let Some(why) = &head.incomplete {
        let _ = writeln!(text, "<p class=\"bad\">Incomplete: {}</p>", escape(why));
    }
    text
}

fn groups(groups: &[Group]) -> String {
    let head = [
        "Model",
        "Variant",
        "Passed",
        "Pass rate, 95 % interval",
        "Mean score",
        "SD",
        "Cost",
        "Judge",
        "Time",
        "Turns",
        "Tokens",
        "Not passed",
        "Guards",
    ];
    let rows = groups.iter().map(|group| {
        let rate = format!("{} {}", bar(group), interval(group.pass_rate, group.pass_interval));
        let cells = [
            escape(&group.model),
            escape(&group.variant),
            format!("{}/{}", group.passed, group.scored),
            rate,
            number(group.mean_score, 3),
            number(group.spread_of_repeats, 3),
            dollars(group.nano_dollars),
            dollars(group.judge_nano_dollars),
            group.wall_ms.map_or_else(none, seconds),
            number(group.turns, 1),
            group.tokens.to_string(),
            counts(&group.errors),
            counts(&group.guards),
        ];
        row(&cells)
    });
    table("Models and variants", &head, rows)
}

fn bar(group: &Group) -> String {
    let Some((rate, interval)) = group.pass_rate.zip(group.pass_interval) else {
        return String::new();
    };
    format!(
        "<svg width=\"{BAR}\" height=\"14\" role=\"img\" aria-label=\"{}\">\
         <rect class=\"back\" width=\"{BAR}\" height=\"14\"/>\
         <rect class=\"bar\" width=\"{:.1}\" height=\"14\"/>\
         <line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"7\" y2=\"7\"/></svg>",
        percent(rate),
        rate * BAR,
        interval.low * BAR,
        interval.high * BAR
    )
}

fn comparisons(comparisons: &[Comparison]) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let head =
        ["From", "To", "Tasks", "Difference, 95 % interval", "Better", "Worse", "p (sign test)"];
    let rows = comparisons.iter().map(|compared| {
        let paired = &compared.paired;
        let Interval { low, high } = paired.interval;
        row(&[
            escape(&named(&compared.first)),
            escape(&named(&compared.second)),
            paired.tasks.to_string(),
            format!("{:+.3} ({low:+.3} to {high:+.3})", paired.difference),
            paired.better.to_string(),
            paired.worse.to_string(),
            format!("{:.4}", paired.p),
        ])
    });
    table("Comparisons, task by task", &head, rows)
}

/// A model and a variant, as the page calls them.
fn named([model, variant]: &[String; 2]) -> String {
    if variant.is_empty() { model.clone() } else { format!("{model}, {variant}") }
}

fn tasks(report: &Report) -> String {
    let groups: Vec<[String; 2]> =
        report.groups.iter().map(|group| [group.model.clone(), group.variant.clone()]).collect();
    let names: Vec<String> = groups.iter().map(|group| escape(&named(group))).collect();
    let mut head = vec!["Task"];
    head.extend(names.iter().map(String::as_str));
    let lines: BTreeMap<(&str, &str, &str), String> = report
        .tasks_by_group
        .iter()
        .map(|line| {
            let class = match (line.scored, line.passed) {
                (0, _) => "none",
                (all, passed) if all == passed => "good",
                (_, 0) => "bad",
                _ => "mixed",
            };
            let text = format!("<span class=\"{class}\">{}/{}</span>", line.passed, line.scored);
            ((line.task.as_str(), line.model.as_str(), line.variant.as_str()), text)
        })
        .collect();
    let rows = report.head.tasks.iter().map(|task| {
        let mut cells = vec![escape(task)];
        cells.extend(groups.iter().map(|[model, variant]| {
            lines
                .get(&(task.as_str(), model.as_str(), variant.as_str()))
                .cloned()
                .unwrap_or_default()
        }));
        row(&cells)
    });
    table("Tasks", &head, rows)
}

fn failures(trials: &[Trial]) -> String {
    let failed: Vec<&Trial> = trials.iter().filter(|trial| !trial.passed).collect();
    if failed.is_empty() {
        return String::new();
    }
    let head = ["Task", "Group", "Repeat", "Run", "Category", "Score", "Reason", "Answer"];
    let rows = failed.iter().map(|trial| {
        let group = [trial.key.model.clone(), trial.key.variant.clone()];
        row(&[
            escape(&trial.key.task),
            escape(&named(&group)),
            trial.key.repeat.to_string(),
            run(trial),
            escape(trial.category().unwrap_or_default()),
            number(trial.score, 2),
            escape(&shortened(&trial.reason)),
            escape(&shortened(trial.answer.as_deref().unwrap_or_default())),
        ])
    });
    table("Runs that did not pass", &head, rows)
}

/// The run; a link if its server is reached by HTTP.
fn run(trial: &Trial) -> String {
    let is_web = |link: &&String| link.starts_with("https://") || link.starts_with("http://");
    let name = format!("<code>{}</code>", escape(&trial.run));
    match trial.link.as_ref().filter(is_web) {
        Some(link) => format!("<a href=\"{}\" rel=\"noreferrer\">{name}</a>", escape(link)),
        None => name,
    }
}

fn table(title: &str, head: &[&str], rows: impl Iterator<Item = String>) -> String {
    let head: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    let rows: String = rows.collect();
    format!(
        "<h2>{title}</h2>\n<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

fn row(cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> =
        counts.iter().map(|(name, count)| format!("{count} {}", escape(name))).collect();
    if parts.is_empty() { none() } else { parts.join(", ") }
}

fn interval(rate: Option<f64>, interval: Option<Interval>) -> String {
    match rate.zip(interval) {
        Some((rate, Interval { low, high })) => {
            format!("{} ({} to {})", percent(rate), percent(low), percent(high))
        }
        None => none(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(none, |value| format!("{value:.digits$}"))
}

fn none() -> String {
    "–".to_owned()
}

fn dollars(nano: u64) -> String {
    let parts = nano.div_ceil(100_000);
    format!("${}.{:04}", parts / 10_000, parts % 10_000)
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_has_no_script() {
        let page = page(&report());
        assert!(!page.contains("<script") && !page.contains("style=") && !page.contains("url("));
        assert!(!page.contains("http:") && !page.contains("https:"), "{page}");
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        assert!(page.contains(&format!("style-src 'sha256-{hash}'")), "{page}");
        // The hash is of exactly what stands between the tags.
        let (_, rest) = page.split_once("<style>").unwrap();
        assert_eq!(rest.split_once("</style>").unwrap().0, STYLE);
        for part in ["planted", "3/6", "50.0 %", "+0.500", "prefers-color-scheme", "<svg"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn the_page_is_the_same_for_the_same_report() {
        assert_eq!(page(&report()), page(&report()));
    }

    #[test]
    fn what_models_say_stays_text() {
        let mut report = report();
        let bad = "<script>alert(1)</script>\" onload='x' &\u{1b}[2J";
        for trial in &mut report.trials {
            trial.passed = false;
            trial.answer = Some(bad.into());
            trial.reason = bad.into();
            trial.run = bad.into();
            trial.link = Some("javascript:alert(1)".into());
        }
        bad.clone_into(&mut report.head.name);
        let text = page(&report);
        assert!(!text.contains("<script") && !text.contains("javascript:"), "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("&lt;script&gt;"), "{text}");
        report.trials[0].link = Some("https://host/v1/runs/a?b=\"".into());
        assert!(page(&report).contains("href=\"https://host/v1/runs/a?b=&quot;\""));
    }
}
