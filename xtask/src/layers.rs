//! The layer table: which crate may import which, and who may use what.
//!
//! This is the same table as the one in `ARCHITECTURE.md`; a test below holds
//! the two together. To change a layer, change it here, run
//! `cargo xtask layers --table`, and paste the result there.
//!
//! Invariant: a row names only rows above it, so imports cannot form a circle.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::workspace::{Dependency, Kind, Member, Workspace};

/// Where a crate stands. Imports point down, towards `Words`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Words,
    Contracts,
    Mechanisms,
    Services,
    Surfaces,
    Edge,
    Tests,
    Tools,
}

impl Layer {
    fn title(self) -> &'static str {
        match self {
            Self::Words => "0 words",
            Self::Contracts => "1 contracts",
            Self::Mechanisms => "2 mechanisms",
            Self::Services => "3 services",
            Self::Surfaces => "4 surfaces",
            Self::Edge => "5 edge",
            Self::Tests => "tests",
            Self::Tools => "tools",
        }
    }
}

/// What a crate may import of the workspace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Imports {
    Only(&'static [&'static str]),
    /// Tests look at everything, and nothing but tests looks at them.
    Any,
}

/// One crate. Its package is called `belljar-<name>`, except for the
/// executable `belljar` and for `xtask`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) layer: Layer,
    pub(crate) name: &'static str,
    pub(crate) does: &'static str,
    pub(crate) imports: Imports,
}

const fn row(
    layer: Layer,
    name: &'static str,
    does: &'static str,
    imports: &'static [&'static str],
) -> Row {
    Row { layer, name, does, imports: Imports::Only(imports) }
}

const fn tests(name: &'static str, does: &'static str) -> Row {
    Row { layer: Layer::Tests, name, does, imports: Imports::Any }
}

/// The table. Rows without a folder are planned; they stand here so that their
/// first import is judged like every other.
pub(crate) const TABLE: &[Row] = &[
    row(
        Layer::Words,
        "domain",
        "ids, specs, limits, end reasons; valid by construction, no I/O",
        &[],
    ),
    row(
        Layer::Contracts,
        "guest-proto",
        "frames between host and guest, numbered by generation",
        &["domain"],
    ),
    row(
        Layer::Contracts,
        "peer-proto",
        "messages between control plane, nodes and gateways",
        &["domain"],
    ),
    row(Layer::Contracts, "api", "HTTP request, response and error types", &["domain"]),
    row(Layer::Mechanisms, "sys", "Linux calls made safe; the only `unsafe`", &[]),
    row(
        Layer::Mechanisms,
        "confine",
        "what a process does to itself on its way into a sandbox",
        &["sys"],
    ),
    row(
        Layer::Mechanisms,
        "engine",
        "plans, starts and ends one sandbox; knows no guest message",
        &["domain", "sys", "confine"],
    ),
    row(
        Layer::Mechanisms,
        "transplant",
        "copies a live process into a waiting one of another sandbox",
        &["sys"],
    ),
    row(Layer::Mechanisms, "template", "builds, stores and finds root filesystems", &["domain"]),
    row(
        Layer::Mechanisms,
        "nats",
        "rings over NATS: heartbeats, live events, the outbox; waits for nothing",
        &["domain", "peer-proto"],
    ),
    row(
        Layer::Mechanisms,
        "identity",
        "keys, certificates and mutual TLS between control and nodes",
        &["domain", "peer-proto"],
    ),
    row(
        Layer::Mechanisms,
        "listen",
        "HTTP connections: accepted, bounded, and let go in order",
        &["domain"],
    ),
    row(
        Layer::Mechanisms,
        "objects",
        "content-addressed blobs and named records that nodes share, in a directory or S3",
        &["domain"],
    ),
    row(
        Layer::Mechanisms,
        "pipeline",
        "typed messages between Planner, Coder, Executor and Debugger; rules that play them",
        &["objects"],
    ),
    row(
        Layer::Mechanisms,
        "journal",
        "the durable transcript of runs: events, leases, what to do next; in a directory",
        &["domain", "objects", "pipeline"],
    ),
    row(
        Layer::Mechanisms,
        "egress",
        "judges destinations, and reads what clients say, strictly; no I/O",
        &["domain"],
    ),
    row(
        Layer::Mechanisms,
        "webhooks",
        "signs messages to tenants and delivers them, with retries; in a directory",
        &["domain", "journal", "egress"],
    ),
    row(
        Layer::Mechanisms,
        "store",
        "all SQL: rows and queries",
        &["domain", "journal", "webhooks"],
    ),
    row(
        Layer::Mechanisms,
        "report",
        "renders reports: a fixed page around a sanitised text; no I/O",
        &[],
    ),
    row(
        Layer::Mechanisms,
        "eval",
        "scores answers of runs, compares models, writes reports; no I/O",
        &["report"],
    ),
    row(Layer::Mechanisms, "dataset", "describes data without showing it", &["domain"]),
    row(
        Layer::Mechanisms,
        "llm",
        "what model providers say, seen through views: usage, prices, refusals",
        &["domain"],
    ),
    row(
        Layer::Mechanisms,
        "provider",
        "asks models: one conversation, three protocols, and a stand-in without a key",
        &["domain", "llm"],
    ),
    row(
        Layer::Mechanisms,
        "cassette",
        "the recorded outside world, content-addressed",
        &["domain"],
    ),
    row(
        Layer::Mechanisms,
        "packages",
        "which package indexes are configured, what they promise; a verified cache",
        &["domain"],
    ),
    row(Layer::Mechanisms, "client", "typed HTTP client", &["domain", "api"]),
    row(
        Layer::Mechanisms,
        "fault",
        "moments at which a test may have a process die; empty in what is shipped",
        &[],
    ),
    row(Layer::Mechanisms, "telemetry", "the same tracing and metrics set-up for every role", &[]),
    row(
        Layer::Mechanisms,
        "console",
        "the web console: embedded files, and responses with them; no I/O",
        &[],
    ),
    row(
        Layer::Services,
        "guest",
        "pid 1 of every sandbox: runs calls, moves files",
        &["domain", "guest-proto", "sys", "confine"],
    ),
    row(
        Layer::Services,
        "zygote",
        "loaded into a warm interpreter: forks it into sandboxes",
        &["guest-proto", "sys", "confine"],
    ),
    row(
        Layer::Services,
        "node",
        "makes what runs on a host match what should run",
        &["domain", "guest-proto", "peer-proto", "engine", "transplant", "template", "objects"],
    ),
    row(
        Layer::Services,
        "gateway",
        "forwards sandbox traffic by policy, adds credentials",
        &["domain", "peer-proto", "sys", "llm", "egress", "cassette", "packages"],
    ),
    row(
        Layer::Services,
        "control",
        "serves the API, schedules, reconciles",
        &[
            "domain",
            "api",
            "peer-proto",
            "journal",
            "store",
            "listen",
            "nats",
            "identity",
            "telemetry",
            "fault",
            "console",
        ],
    ),
    row(
        Layer::Services,
        "agent",
        "runs the loop of model and tools, records each step",
        &[
            "domain", "api", "objects", "pipeline", "journal", "dataset", "llm", "provider",
            "report", "client", "fault",
        ],
    ),
    row(
        Layer::Services,
        "workflow",
        "steps that are runs or calls, with data between them; durable and resumable",
        &["domain", "api", "journal", "client", "fault"],
    ),
    row(
        Layer::Surfaces,
        "sandboxes",
        "what can be done, once: who may do what, and what becomes of a sandbox",
        &[
            "domain",
            "peer-proto",
            "engine",
            "template",
            "objects",
            "packages",
            "node",
            "telemetry",
            "fault",
        ],
    ),
    row(
        Layer::Surfaces,
        "e2b",
        "E2B's wire protocols, translated to actions",
        &["domain", "egress", "node", "sandboxes", "telemetry"],
    ),
    row(
        Layer::Surfaces,
        "runs",
        "what can be done with runs: made, steered, worked on; and their data",
        &[
            "domain",
            "objects",
            "pipeline",
            "journal",
            "dataset",
            "provider",
            "report",
            "client",
            "fault",
            "telemetry",
            "agent",
            "workflow",
        ],
    ),
    row(
        Layer::Surfaces,
        "server",
        "listens, finds out who asks for what, serves our own API",
        &[
            "domain",
            "api",
            "peer-proto",
            "identity",
            "listen",
            "objects",
            "pipeline",
            "journal",
            "node",
            "sandboxes",
            "e2b",
            "runs",
            "webhooks",
            "workflow",
            "telemetry",
            "console",
        ],
    ),
    row(
        Layer::Edge,
        "belljar",
        "the executable: commands for people and scripts, one role for each service",
        &[
            "domain",
            "api",
            "peer-proto",
            "engine",
            "template",
            "pipeline",
            "journal",
            "store",
            "webhooks",
            "nats",
            "identity",
            "objects",
            "dataset",
            "eval",
            "cassette",
            "llm",
            "provider",
            "packages",
            "report",
            "client",
            "telemetry",
            "console",
            "node",
            "sandboxes",
            "server",
            "gateway",
            "control",
            "agent",
            "workflow",
            "runs",
        ],
    ),
    tests("testkit", "throw-away services and fakes; a dev-dependency only"),
    tests("conformance", "black-box behaviour that every tier must show"),
    tests("attacks", "escape attempts, each with a control run"),
    tests("bleed", "looks for one session from within another"),
    tests("tenants", "attacks on the API, each with a control"),
    tests("journals", "behaviour that every journal must show, and crashes in the middle of it"),
    tests("faults", "breaks one part at a time, and looks whether the platform keeps its promises"),
    tests("warmed", "the warm template that the suites test with"),
    tests("v2-probe", "version 2 of cgroups, checked against its files from outside"),
    tests("scripted", "stands in for what cannot be here: model providers, hostile servers"),
    row(Layer::Tools, "xtask", "house rules and chores", &[]),
];

/// Packages from outside that only some crates may use.
struct Reserved {
    package: &'static str,
    users: &'static [&'static str],
    /// Tests may use it whoever they test.
    free_in_tests: bool,
    why: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        package: "libc",
        users: &["sys"],
        free_in_tests: false,
        why: "raw Linux calls live in crates/sys; add a safe function there and call that",
    },
    Reserved {
        package: "sqlx",
        users: &["store"],
        free_in_tests: true,
        why: "SQL lives in crates/store; add a query there and call that",
    },
    Reserved {
        package: "async-nats",
        users: &["nats"],
        free_in_tests: true,
        why: "NATS may be away at any time; crates/nats knows how not to wait for it",
    },
    Reserved {
        package: "anyhow",
        users: &[
            "belljar",
            "xtask",
            "testkit",
            "conformance",
            "attacks",
            "bleed",
            "tenants",
            "journals",
            "faults",
            "warmed",
            "scripted",
        ],
        free_in_tests: true,
        why: "libraries return one error enum for each operation, made with thiserror",
    },
];

/// Tests of any crate may use these, and nothing else of the product may.
const STAND_INS: [&str; 2] = ["testkit", "scripted"];

/// Returns one plain sentence for each rule that the workspace breaks.
pub(crate) fn check(workspace: &Workspace) -> Vec<String> {
    let mut broken = Vec::new();
    for member in &workspace.members {
        let Some(row) = find(&member.package) else {
            broken.push(format!(
                "{}: package `{}` has no row in the layer table. Add one to xtask/src/layers.rs \
                 and ARCHITECTURE.md, or name the package belljar-<folder> after a row that exists.",
                member.manifest, member.package
            ));
            continue;
        };
        for dependency in &member.dependencies {
            broken.extend(import_error(workspace, member, row, dependency));
            broken.extend(reserved_error(member, row, dependency));
            if dependency.own_version {
                broken.push(format!(
                    "{}: `{}` states a version of its own. Put the version into \
                     [workspace.dependencies] and write `{}.workspace = true` here.",
                    member.manifest, dependency.package, dependency.package
                ));
            }
        }
    }
    broken
}

/// The table as it stands in `ARCHITECTURE.md`.
pub(crate) fn markdown() -> String {
    let mut text = String::from("| Layer | Crate | Does | May import |\n|---|---|---|---|\n");
    let mut last = None;
    for row in TABLE {
        let title = if last == Some(row.layer) { "" } else { row.layer.title() };
        last = Some(row.layer);
        let imports = imports_text(row);
        let gap = if title.is_empty() { "" } else { " " };
        writeln!(text, "| {title}{gap}| `{}` | {} | {imports} |", row.name, row.does)
            .expect("writing to a String cannot fail");
    }
    text
}

fn imports_text(row: &Row) -> String {
    match row.imports {
        Imports::Any => "any".to_owned(),
        Imports::Only([]) => "–".to_owned(),
        Imports::Only(names) => {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
        }
    }
}

fn find(package: &str) -> Option<&'static Row> {
    let name = package.strip_prefix("belljar-").unwrap_or(package);
    TABLE.iter().find(|row| row.name == name)
}

fn import_error(
    workspace: &Workspace,
    member: &Member,
    row: &Row,
    dependency: &Dependency,
) -> Option<String> {
    let names: BTreeMap<_, _> = workspace.members.iter().map(|m| (&m.package, ())).collect();
    let inside =
        dependency.package.starts_with("belljar") || names.contains_key(&dependency.package);
    if !inside {
        return None;
    }
    let target = find(&dependency.package);
    let allowed = match (row.imports, target) {
        (_, None) => false,
        (Imports::Any, Some(target)) => target.layer <= Layer::Tests,
        (Imports::Only(_), Some(target)) if STAND_INS.contains(&target.name) => {
            dependency.kind == Kind::Dev
        }
        (Imports::Only(names), Some(target)) => names.contains(&target.name),
    };
    (!allowed).then(|| {
        format!(
            "{}: `{}` imports `{}` under [{}], but the layer table lets `{}` import {}. Move the \
             shared type down into a crate that both may import, or pass the value in from a crate \
             above; change the table only with a note in docs/design/.",
            member.manifest,
            row.name,
            target.map_or(dependency.package.as_str(), |target| target.name),
            dependency.kind.section(),
            row.name,
            match row.imports {
                Imports::Only([]) => "nothing of the workspace".to_owned(),
                Imports::Any => "any crate but tools".to_owned(),
                Imports::Only(_) => format!("only {}", imports_text(row)),
            },
        )
    })
}

fn reserved_error(member: &Member, row: &Row, dependency: &Dependency) -> Option<String> {
    let rule = RESERVED.iter().find(|rule| rule.package == dependency.package)?;
    let free = rule.free_in_tests && dependency.kind == Kind::Dev;
    (!free && !rule.users.contains(&row.name)).then(|| {
        format!(
            "{}: `{}` depends on `{}` under [{}], which only {} may use: {}.",
            member.manifest,
            row.name,
            rule.package,
            dependency.kind.section(),
            rule.users.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
            rule.why,
        )
    })
}

#[cfg(test)]
mod tests;
