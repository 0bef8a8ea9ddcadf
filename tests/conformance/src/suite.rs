//! Runs the cases on each tier and reports.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_model::Tier;
use belljar_node::Node;

use crate::Verdict;
use crate::args::Args;
use crate::cases;
use crate::fixture::{Feature, Fixture, Lack};
use crate::residue::{Footprint, Ours};
use crate::verbs::until;

/// What a case answers.
pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// One thing that every tier must do, or say why it cannot.
pub(crate) struct Case {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Feature],
    pub(crate) run: for<'a> fn(&'a Fixture) -> Answer<'a>,
}

/// Lists the cases of a module: `cases!["group": name, other needs [Feature]];`
#[macro_export]
macro_rules! cases {
    ($group:literal: $($name:ident $(needs [$($feature:ident),+])?),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::suite::Case] = &[$($crate::suite::Case {
            group: $group,
            name: stringify!($name),
            needs: &[$($($crate::fixture::Feature::$feature),+)?],
            run: |fixture| Box::pin($name(fixture)),
        }),+];
    };
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Failed(anyhow::Error),
    NotHere(Lack),
}

struct Line {
    group: &'static str,
    name: &'static str,
    outcome: Outcome,
}

/// No case takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(20);

pub(crate) async fn run(args: &Args) -> anyhow::Result<Verdict> {
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let mut columns = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for tier in args.tier.list() {
        let started = Instant::now();
        let lines = run_tier(tier, args, store.path()).await?;
        let count = |wanted: fn(&Outcome) -> bool| {
            lines.iter().filter(|line| wanted(&line.outcome)).count()
        };
        let good = count(|outcome| matches!(outcome, Outcome::Passed));
        let bad = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        let not_here = count(|outcome| matches!(outcome, Outcome::NotHere(_)));
        let seconds = started.elapsed().as_secs_f64();
        println!("{tier}: {good} passed, {bad} failed, {not_here} n/a in {seconds:.1} s\n");
        passed += good;
        failed += bad;
        skipped += not_here;
        columns.push((tier, lines));
    }
    if args.table {
        print_table(&columns);
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(if failed == 0 { Verdict::Passed } else { Verdict::Failed })
}

async fn run_tier(tier: Tier, args: &Args, store: &std::path::Path) -> anyhow::Result<Vec<Line>> {
    let filter = args.filter.as_deref();
    let before = Footprint::of_this_process()?;
    let node = Node::start(None).await.context("start the engine")?;
    let mut fixture = Fixture::new(node, tier, store)?;
    let ours = Ours::find(&fixture).await?;
    let wanted = |case: &Case| {
        filter.is_none_or(|filter| format!("{}::{}", case.group, case.name).contains(filter))
    };
    let is_warm = |case: &&Case| case.needs.contains(&Feature::Warm) && wanted(case);
    let wants_warm = tier == Tier::Jail && cases::all().any(|case| is_warm(&case));
    match belljar_warmed::template() {
        Ok(template) if wants_warm => fixture.warm_up(template).await?,
        Err(error) if wants_warm && !args.skip_without_template => return Err(error),
        _ => {}
    }
    let mut lines = Vec::new();
    for case in cases::all() {
        if !wanted(case) {
            continue;
        }
        let full_name = format!("{}::{}", case.group, case.name);
        let started = Instant::now();
        let lack = case.needs.iter().find_map(|feature| fixture.has(*feature).err());
        let outcome = match lack {
            Some(lack) => Outcome::NotHere(lack),
            None => judge(tokio::time::timeout(LONGEST, (case.run)(&fixture)).await),
        };
        print_line(tier, &full_name, &outcome, started.elapsed());
        lines.push(Line { group: case.group, name: case.name, outcome });
    }
    fixture.cool_down().await;
    // What is left is looked for twice: with the engine alive, when only the
    // sandboxes must be gone, and after it, when everything must.
    let residue = [
        ("sandboxes_leave_nothing", ours.sandboxes_gone().await),
        ("the_engine_leaves_nothing", engine_gone(fixture, &ours, &before).await),
    ];
    for (name, result) in residue {
        let outcome = result.map_or_else(Outcome::Failed, |()| Outcome::Passed);
        print_line(tier, &format!("residue::{name}"), &outcome, Duration::ZERO);
        lines.push(Line { group: "residue", name, outcome });
    }
    Ok(lines)
}

async fn engine_gone(fixture: Fixture, ours: &Ours, before: &Footprint) -> anyhow::Result<()> {
    fixture.node.stop().await;
    ours.engine_gone().await?;
    until("descriptors and mounts as before", Duration::from_secs(5), async || {
        let after = Footprint::of_this_process()?;
        Ok(after.is_within(before).then_some(()))
    })
    .await
    .with_context(|| format!("before: {before:?}, now: {:?}", Footprint::of_this_process()))
}

fn judge(result: Result<anyhow::Result<()>, tokio::time::error::Elapsed>) -> Outcome {
    match result {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(_) => Outcome::Failed(anyhow::anyhow!("not done within {LONGEST:?}")),
    }
}

fn print_line(tier: Tier, name: &str, outcome: &Outcome, took: Duration) {
    let (tier, millis) = (tier.as_str(), took.as_millis());
    match outcome {
        Outcome::Passed => println!("{tier:8} {name:62} pass {millis:6} ms"),
        Outcome::NotHere(lack) => println!("{tier:8} {name:62} n/a: {lack}"),
        Outcome::Failed(error) => println!("{tier:8} {name:62} FAIL {millis:6} ms\n    {error:#}"),
    }
}

fn print_table(columns: &[(Tier, Vec<Line>)]) {
    let Some((_, rows)) = columns.first() else { return };
    let tiers: Vec<_> = columns.iter().map(|(tier, _)| tier.as_str()).collect();
    println!("| case | {} |", tiers.join(" | "));
    println!("|---|{}", "---|".repeat(tiers.len()));
    for (index, row) in rows.iter().enumerate() {
        let cells = columns.iter().map(|(_, lines)| match &lines[index].outcome {
            Outcome::Passed => "yes".to_owned(),
            Outcome::Failed(_) => "**failed**".to_owned(),
            Outcome::NotHere(lack) => format!("no: {lack}"),
        });
        let cells: Vec<_> = cells.collect();
        println!("| {} {} | {} |", row.group, row.name.replace('_', " "), cells.join(" | "));
    }
    println!();
}
