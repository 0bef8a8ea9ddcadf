//! `belljar doctor`: what this host can run, why not, and what to do about it.
//!
//! Tiers are judged by starting them, not by guessing from versions.

use std::time::{Duration, Instant};

use belljar_model::{RootFs, Spec, Tier};
use belljar_node::{Command, Node};
use belljar_template::host as host_template;
use belljar_template::{Store, Template};
use serde::Serialize;

use super::language;
use crate::cli::Doctor;
use crate::config::Config;
use crate::output::Printer;
use crate::session::find_template;

mod host;
mod settings;
mod warm;

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
}

pub(crate) async fn run(
    _options: &Doctor,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let node = Node::start(config.state.as_deref()).await;
    let landlock = node.as_ref().ok().map(|node| node.engine().facts().landlock_abi);
    let template = find_template(host_template::NAME, Tier::Jail, config);
    let mut tiers = Vec::new();
    for tier in [Tier::Jail, Tier::Process] {
        tiers.push(tier_finding(tier, &node, &template).await);
    }
    let works = tiers[0].state == State::Ok;
    drop(node);
    let missing = ["oci", "microvm", "wasm"];
    tiers.extend(missing.map(|name| Finding::new(name, State::Info, "not in this version")));
    let report = Report {
        host: host::findings(landlock, works),
        tiers,
        settings: settings::findings(),
        interpreters: interpreters(template.as_ref().ok()),
        templates: templates(config),
        warm: if works { warm::findings(config).await } else { Vec::new() },
    };
    if printer.is_json() {
        printer.document(&report)?;
    } else {
        print(&report, printer)?;
    }
    Ok(if works { 0 } else { 1 })
}

fn print(report: &Report, printer: &Printer) -> anyhow::Result<()> {
    let sections = [
        ("Tiers", &report.tiers),
        ("Host", &report.host),
        ("Interpreters of the host template", &report.interpreters),
        ("Templates", &report.templates),
        ("Warm starts", &report.warm),
        ("Settings, recommended where strangers share a host", &report.settings),
    ];
    for (index, (title, findings)) in sections.into_iter().enumerate() {
        if index > 0 {
            printer.data("")?;
        }
        printer.data(title)?;
        let width = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for finding in findings {
            let Finding { name, state, detail, fix } = finding;
            printer.data(format_args!("  {} {name:<width$}  {detail}", state.mark()))?;
            if let Some(fix) = fix {
                printer.data(format_args!("         fix: {fix}"))?;
            }
        }
    }
    if let Some(command) = settings::command(&report.settings) {
        printer.note(format_args!("hint: {command}"));
    }
    Ok(())
}

/// Starts a sandbox, runs `true` in it, ends it.
async fn tier_finding(
    tier: Tier,
    node: &Result<Node, belljar_node::NodeError>,
    template: &anyhow::Result<Template>,
) -> Finding {
    let (node, template) = match (node, template) {
        (Ok(node), Ok(template)) => (node, template),
        (Err(error), _) => return failed(tier, error),
        (_, Err(error)) => return failed(tier, error.as_ref()),
    };
    let began = Instant::now();
    match attempt(tier, node, template.root.clone()).await {
        Ok(created) => {
            let total = began.elapsed();
            let detail = format!(
                "started in {}, ran `true` and was gone after {}",
                milliseconds(created),
                milliseconds(total)
            );
            Finding::new(tier.as_str(), State::Ok, detail)
        }
        Err(error) => failed(tier, error.as_ref()),
    }
}

async fn attempt(tier: Tier, node: &Node, root: RootFs) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let sandbox = node.create(&Spec::new(tier, root)).await?;
    let created = began.elapsed();
    let finished = sandbox.execute(&Command::new(["/bin/true"])).await;
    sandbox.destroy().await?;
    let end = finished?.end;
    anyhow::ensure!(end.status() == 0, "`true` ended with {} ({})", end.status(), end.reason);
    Ok(created)
}

fn failed(tier: Tier, error: &(dyn std::error::Error + 'static)) -> Finding {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let why: Vec<String> = chain.map(ToString::to_string).collect();
    let finding = Finding::new(tier.as_str(), State::No, why.join(": "));
    match tier {
        Tier::Jail if !rustix::process::geteuid().is_root() => finding.fix("run belljar as root"),
        Tier::Jail => finding.fix("see the marks under `Host`"),
        Tier::Process | Tier::Oci(_) | Tier::Microvm => finding,
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
            let size = belljar_model::units::format_size(manifest.size);
            Finding::new(name, State::Ok, size)
        })),
        Err(error) => findings.push(Finding::new("templates", State::No, error.to_string())),
    }
    findings.extend(host::tools());
    findings
}
