//! `belljar bench tiers`: every tier beside the engine that it is built from, on
//! the same root filesystem, all taking turns.

mod bare;
mod ours;
mod report;
mod work;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use belljar_domain::{Limits, Runtime, Spec, Tier};
use belljar_node::Node;
use belljar_template::{Silent, Store, Template};

use self::bare::{Engine, Qemu};
use self::ours::Ours;
use super::report as common;
use crate::cli::BenchTiers;
use crate::config::Config;
use crate::output::Printer;
use crate::templates::find_template;

/// What one contestant has shown.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Until there is something to talk to: ours has greeted, a bare machine's
    /// first program has spoken.
    up: Vec<Duration>,
    /// Until the first word of `/bin/echo`.
    word: Vec<Duration>,
    /// Until the first word of a Python.
    python: Vec<Duration>,
    /// Until the first answer of an interpreter that has just imported what the
    /// template is for.
    cold: Vec<Duration>,
    /// The same, from disk.
    restored: Vec<Duration>,
    /// Work inside, by kind, in the time of whoever does it.
    work: BTreeMap<String, Vec<Duration>>,
    /// Of all its processes on the host, idle.
    memory_bytes: Option<u64>,
}

struct Entrant {
    name: String,
    what: String,
    kind: Kind,
    figures: Figures,
    /// Why it is out.
    out: Option<String>,
}

enum Kind {
    Ours(Box<Ours>),
    Bare(Box<Engine>),
}

pub(super) async fn run(
    options: &BenchTiers,
    config: &Config,
    printer: &Printer,
) -> anyhow::Result<u8> {
    let template = find_template(&options.template, Tier::Jail, config)?;
    let _lease = template.lease()?;
    let scratch = tempfile::Builder::new().prefix("belljar-bench").tempdir()?;
    open_to_all(scratch.path())?;
    let node = Node::start(config.state.as_deref()).await?;
    let limits = template.limits.over(Limits::default());
    let mut entrants = Vec::new();
    for tier in tiers(options) {
        let mut limits = limits.clone();
        if let Tier::Oci(_) = tier {
            // Runtimes by themselves have every core. A share of less would slow
            // down gVisor's kernel, whose threads work beside the code's.
            limits.cpu_millis = cores().saturating_mul(1000);
        }
        let spec = Spec { limits, ..Spec::new(tier, template.root.clone()) };
        printer.note(format_args!("{tier}: first start"));
        let place = scratch.path().join(tier.as_str().replace('/', "-"));
        let tried = Ours::prepare(&node, spec, &template, place).await;
        entrants.push(Entrant::ours(tier, tried));
    }
    let running: Vec<Tier> = entrants.iter().filter_map(Entrant::tier).collect();
    for engine in Engine::beside(&running) {
        let (name, what) = (engine.to_string(), engine.describe());
        printer.note(format_args!("{name}: first start"));
        let tried = bare::start(engine, &template, scratch.path());
        entrants.push(Entrant::bare(name, what, tried));
    }
    if running.contains(&Tier::Microvm) {
        let what = "by itself, to the guest's first word: same kernel, init and disks; no jail";
        let tried = qemu(&node, &entrants, &template, &scratch.path().join("qemu")).await;
        let tried = tried.map(Engine::Qemu);
        entrants.push(Entrant::bare(report::QEMU.to_owned(), what.to_owned(), tried));
    }
    let figures = rounds(&node, &mut entrants, options, printer).await;
    // Whoever saved something has it below the scratch directory, which goes now.
    let rows = report::rows(entrants);
    node.stop().await;
    figures?;
    let report = report::Report::new(options, rows);
    common::publish(&report, &report.table(), &report.figure(), &options.output, printer)?;
    Ok(0)
}

/// The monitor of a machine of ours, to be started by itself.
async fn qemu(
    node: &Node,
    entrants: &[Entrant],
    template: &Template,
    dir: &std::path::Path,
) -> anyhow::Result<Qemu> {
    let ours = entrants.iter().find_map(|entrant| match &entrant.kind {
        Kind::Ours(ours) if ours.tier() == Tier::Microvm => Some(ours),
        _ => None,
    });
    let spec = ours.context("no machine runs")?.spec();
    let image = Store::holding(&template.root)?.image(&template.root, &mut Silent)?;
    let example = node.create(spec).await?;
    let made = Qemu::like(example.pid(), &image.path, dir);
    example.destroy().await?;
    made
}

async fn rounds(
    node: &Node,
    entrants: &mut [Entrant],
    options: &BenchTiers,
    printer: &Printer,
) -> anyhow::Result<()> {
    // The first round fills caches and is not counted.
    for round in 0..=options.rounds {
        printer.note(format_args!("round {round} of {}", options.rounds));
        let count = entrants.len();
        for turn in 0..count {
            // Everybody is first, and right after everybody else, equally often.
            let index = (round as usize + turn) % count;
            let slow = round > 0 && round <= options.slow;
            entrants[index].turn(node, round > 0, slow).await;
        }
    }
    Ok(())
}

fn tiers(options: &BenchTiers) -> Vec<Tier> {
    if !options.tier.is_empty() {
        return options.tier.clone();
    }
    let all = [Tier::Jail, Tier::Oci(Runtime::Crun), Tier::Oci(Runtime::Runc), Tier::GVISOR];
    all.into_iter().chain([Tier::Microvm]).collect()
}

/// Programs with other user ids have to find their way through.
fn open_to_all(dir: &std::path::Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot open `{}` to others", dir.display()))
}

impl Entrant {
    fn ours(tier: Tier, tried: anyhow::Result<Ours>) -> Self {
        let (name, what) = (tier.to_string(), "belljar".to_owned());
        match tried {
            Ok(ours) => Self::new(name, what, Kind::Ours(Box::new(ours))),
            Err(error) => Self::absent(name, what, &error),
        }
    }

    fn bare(name: String, what: String, tried: anyhow::Result<Engine>) -> Self {
        match tried {
            Ok(engine) => Self::new(name, what, Kind::Bare(Box::new(engine))),
            Err(error) => Self::absent(name, what, &error),
        }
    }

    fn new(name: String, what: String, kind: Kind) -> Self {
        Self { name, what, kind, figures: Figures::default(), out: None }
    }

    fn absent(name: String, what: String, error: &anyhow::Error) -> Self {
        let kind = Kind::Bare(Box::new(Engine::Absent));
        Self { out: Some(format!("{error:#}")), ..Self::new(name, what, kind) }
    }

    /// The tier, of one of ours that takes part.
    fn tier(&self) -> Option<Tier> {
        match &self.kind {
            Kind::Ours(ours) => Some(ours.tier()),
            Kind::Bare(_) => None,
        }
    }

    /// Takes a turn; one that fails is out, with the reason.
    async fn turn(&mut self, node: &Node, counts: bool, slow: bool) {
        if self.out.is_some() {
            return;
        }
        let mut figures = Figures::default();
        let taken = match &mut self.kind {
            Kind::Ours(ours) => ours.turn(node, &mut figures, slow).await,
            // It waits for a program, and nobody else has anything to do.
            Kind::Bare(engine) => engine.turn(&mut figures),
        };
        match taken {
            Ok(()) if counts => self.figures.add(figures),
            Ok(()) => {}
            Err(error) => self.out = Some(format!("{error:#}")),
        }
    }
}

impl Figures {
    fn add(&mut self, more: Self) {
        self.up.extend(more.up);
        self.word.extend(more.word);
        self.python.extend(more.python);
        self.cold.extend(more.cold);
        self.restored.extend(more.restored);
        for (kind, times) in more.work {
            self.work.entry(kind).or_default().extend(times);
        }
        // The last one: by then everything that is shared is.
        self.memory_bytes = more.memory_bytes.or(self.memory_bytes);
    }
}

fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(u32::MAX)
}
