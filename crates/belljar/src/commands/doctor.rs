//! `belljar doctor`: what this host can run, why not, and what to do about it.
//!
//! Tiers are judged by starting them, not by guessing from versions.

use std::time::Duration;

use belljar_console::Console;
use belljar_domain::Tier;
use belljar_node::Node;
use belljar_template::host as host_template;
use belljar_template::{Store, Template};
use serde::Serialize;

use super::language;
use crate::cli::Doctor;
use crate::config::Config;
use crate::output::Printer;
use crate::page::Page;
use crate::templates::find_template;

mod host;
mod settings;
mod tiers;
mod warm;

/// Columns that a text needs beside its head.
const NARROWEST: usize = 24;

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    name: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Works, but could be safer or complete.
    Warn,
    No,
    /// Neither good nor bad.
    Info,
}

impl State {
    fn mark(self) -> &'static str {
        match self {
            Self::Ok => "[ok]  ",
            Self::Warn => "[warn]",
            Self::No => "[no]  ",
            Self::Info => "[info]",
        }
    }

    fn coloured(self, page: Option<Page>) -> String {
        let colour = match self {
            Self::Ok => "32",
            Self::Warn => "33",
            Self::No => "31",
            Self::Info => "2",
        };
        match page {
            Some(Page { has_colour: true, .. }) => format!("\x1b[{colour}m{}\x1b[0m", self.mark()),
            _ => self.mark().to_owned(),
        }
    }
}

impl Finding {
    fn new(name: impl Into<String>, state: State, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state, detail: detail.into(), fix: None }
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    tiers: Vec<Finding>,
    host: Vec<Finding>,
    settings: Vec<Finding>,
    interpreters: Vec<Finding>,
    templates: Vec<Finding>,
    warm: Vec<Finding>,
    executable: Vec<Finding>,
}

pub(crate) async fn run(
    _options: &Doctor,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let node = Node::start(config.state.as_deref()).await;
    let landlock = node.as_ref().ok().map(|node| node.engine().facts().landlock_abi);
    let template = find_template(host_template::NAME, Tier::Jail, config);
    let mut tiers = tiers::findings(&node, &template, config, printer).await;
    let works = tiers.first().is_some_and(|jail| jail.state == State::Ok);
    if let Ok(node) = node {
        node.stop().await;
    }
    tiers.push(Finding::new("wasm", State::Info, "not in this version"));
    let report = Report {
        host: host::findings(landlock, works),
        tiers,
        settings: settings::findings(),
        interpreters: interpreters(template.as_ref().ok()),
        templates: templates(config),
        warm: if works { warm::findings(config).await } else { Vec::new() },
        executable: vec![console(Console::embedded())],
    };
    if printer.is_json() {
        printer.document(&report)?;
    } else {
        print(&report, Page::of_terminal(config), printer)?;
    }
    Ok(if works { 0 } else { 1 })
}

fn print(report: &Report, page: Option<Page>, printer: &Printer) -> anyhow::Result<()> {
    let sections = [
        ("Tiers", &report.tiers),
        ("Host", &report.host),
        ("Interpreters of the host template", &report.interpreters),
        ("Templates", &report.templates),
        ("Warm starts", &report.warm),
        ("This executable", &report.executable),
        ("Settings, recommended for hosts with several tenants", &report.settings),
    ];
    for (index, (title, findings)) in sections.into_iter().enumerate() {
        if index > 0 {
            printer.data("")?;
        }
        printer.data(page.map_or_else(|| title.to_owned(), |page| page.bold(title)))?;
        let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for finding in findings {
            let Finding { name, state, detail, fix } = finding;
            let head = format!("  {} {name:<width$}  ", state.mark());
            let line = beside(&head, detail, page);
            printer.data(line.replacen(state.mark(), &state.coloured(page), 1))?;
            if let Some(fix) = fix {
                printer.data(beside("         fix: ", fix, page))?;
            }
        }
    }
    if let Some(command) = settings::command(&report.settings) {
        printer.note(format_args!("hint: {command}"));
    }
    Ok(())
}

/// A text behind its head. At a terminal, the lines of the text stand below each other.
fn beside(head: &str, text: &str, page: Option<Page>) -> String {
    let indent = head.chars().count();
    match page.filter(|page| page.width >= indent + NARROWEST) {
        Some(page) => {
            let text = Page { width: page.width - indent, ..page }.wrapped(text);
            let lines: Vec<&str> = text.trim_end().lines().collect();
            format!("{head}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
        }
        None => format!("{head}{text}"),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn interpreters(template: Option<&Template>) -> Vec<Finding> {
    let Some(template) = template else { return Vec::new() };
    let found = language::all().map(|language| match language.interpreter(template) {
        Ok(path) => Finding::new(language.name(), State::Ok, path.display().to_string()),
        Err(_) => Finding::new(language.name(), State::Info, "not found"),
    });
    found.collect()
}

fn console(console: Console) -> Finding {
    if console.is_empty() {
        return Finding::new("console", State::Info, "not built into this executable")
            .fix("run `just console`, which needs npm, and build again");
    }
    let size = u64::try_from(console.size()).unwrap_or(u64::MAX);
    let size = belljar_domain::units::format_size(size);
    let detail = format!("built in ({size}); `serve` and `control` have it at /console");
    Finding::new("console", State::Ok, detail)
}

fn templates(config: &Config) -> Vec<Finding> {
    let place = config.store.display().to_string();
    let mut findings = vec![Finding::new("store", State::Info, place)];
    // Looking must not make it.
    let listed = match config.store.join("templates").is_dir() {
        true => Store::open(&config.store).and_then(|store| store.list()),
        false => Ok(Vec::new()),
    };
    match listed {
        Ok(list) => findings.extend(list.iter().map(|manifest| {
            let name = format!("{}@{}", manifest.name, manifest.version);
            let size = belljar_domain::units::format_size(manifest.size);
            Finding::new(name, State::Ok, size)
        })),
        Err(error) => findings.push(Finding::new("templates", State::No, error.to_string())),
    }
    findings.extend(host::tools());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_without_the_console_is_told() {
        let without = console(Console::of(&[]));
        assert_eq!((without.state, without.fix.is_some()), (State::Info, true));
    }

    #[test]
    fn long_findings_stand_beside_their_names() {
        let page = Some(Page { width: 40, has_colour: false });
        let shown = beside("  [no]   runc  ", "has known vulnerabilities that escape", page);
        let want = "  [no]   runc  has known vulnerabilities\n                 that escape";
        assert_eq!(shown, want);
        // No room, or no terminal: as it is.
        let head = "  [no]   a name that takes most columns  ";
        assert_eq!(beside(head, "a text", page), format!("{head}a text"));
        assert_eq!(beside(head, "a text", None), format!("{head}a text"));
        assert_eq!(State::No.coloured(page), "[no]  ");
    }
}
