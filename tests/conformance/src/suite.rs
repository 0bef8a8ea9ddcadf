//! Runs the cases on each tier and reports.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use belljar_domain::Tier;
use belljar_engine::StartError;
use belljar_node::NodeError;
use belljar_testkit::{CaseLog, CaseOutcome, CaseVerdict, run_case};

use crate::Verdict;
use crate::args::{Args, Wanted};
use crate::cases;
use crate::features::{Feature, Lack};
use crate::fixture::Fixture;
use crate::pace::Pace;
use crate::residue::{Footprint, Ours};
use crate::results::{Came, Results};
use crate::shards::{self, Shard, Unsupported};
use crate::table;
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

impl Case {
    pub(crate) fn full_name(&self) -> String {
        format!("{}::{}", self.group, self.name)
    }
}

/// Lists the cases of a module: `cases!["group": name, other needs [Feature]];`
#[macro_export]
macro_rules! cases {
    ($group:literal: $($name:ident $(needs [$($feature:ident),+])?),+ $(,)?) => {
        pub(crate) const CASES: &[$crate::suite::Case] = &[$($crate::suite::Case {
            group: $group,
            name: stringify!($name),
            needs: &[$($($crate::features::Feature::$feature),+)?],
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

impl Outcome {
    fn logged(&self) -> CaseOutcome {
        match self {
            Self::Passed => CaseOutcome::Passed,
            Self::Failed(_) => CaseOutcome::Failed,
            Self::NotHere(_) => CaseOutcome::Skipped,
        }
    }

    /// Every failure may be one of the host's, which did not give a case its time.
    fn verdict(&self) -> CaseVerdict {
        match self {
            Self::Passed => CaseVerdict::Passed,
            Self::Failed(error) => CaseVerdict::Undecided(format!("{error:#}")),
            Self::NotHere(_) => CaseVerdict::Skipped,
        }
    }
}

struct Line {
    name: String,
    needs: &'static [Feature],
    outcome: Outcome,
}

/// The cases that look for what is left, once all others have run.
const SANDBOXES_GONE: &str = "residue::sandboxes_leave_nothing";
const ENGINE_GONE: &str = "residue::the_engine_leaves_nothing";

/// No case takes longer; one that does hangs.
const LONGEST: Duration = Duration::from_secs(20);
const LONGEST_AT_LEAST: Duration = Duration::from_secs(150);

pub(crate) async fn run(args: &Args) -> anyhow::Result<Verdict> {
    let store = tempfile::tempdir().context("make a directory for the template")?;
    let mut seen = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (tier, wanted) in args.tiers() {
        let started = Instant::now();
        let ran = match (args.shard, shards::count(args)) {
            (None, count @ 2..) => shards::run(tier, args, count).await,
            _ => run_tier(tier, args, store.path()).await,
        };
        let results = match ran {
            Ok(results) => results,
            Err(error) if wanted == Wanted::IfHere && is_unsupported(&error) => {
                println!("{tier}: not run: {error:#}\n");
                continue;
            }
            Err(error) => return Err(error).with_context(|| format!("tier {tier}")),
        };
        if let Some(report) = &args.report {
            fs::write(report, serde_json::to_vec(&results)?).context("write the report")?;
            return Ok(Verdict::Passed);
        }
        let count = |kind: fn(&Came) -> bool| results.cases.values().filter(|c| kind(c)).count();
        let good = count(|came| *came == Came::Passed);
        let bad = count(|came| *came == Came::Failed);
        let not_here = results.cases.len() - good - bad;
        let seconds = started.elapsed().as_secs_f64();
        println!("{tier}: {good} passed, {bad} failed, {not_here} n/a in {seconds:.1} s\n");
        passed += good;
        failed += bad;
        skipped += not_here;
        seen.push(results);
    }
    let whole = args.filter.is_none() && args.subset.is_none();
    let mut wrong = Vec::new();
    if args.check {
        wrong = table::check(&seen, whole)?;
        wrong.iter().for_each(|line| println!("{line}"));
    }
    if args.table {
        table::write(seen, whole)?;
    }
    println!("{passed} passed, {failed} failed, {skipped} n/a");
    if !wrong.is_empty() {
        println!("FAILED: what is kept is not what was seen; `just conformance --table` writes it");
    }
    Ok(if failed + wrong.len() == 0 { Verdict::Passed } else { Verdict::Failed })
}

/// Whether this host cannot run the tier at all.
pub(crate) fn is_unsupported(error: &anyhow::Error) -> bool {
    let unsupported =
        |error: &NodeError| matches!(error, NodeError::Start(StartError::Unsupported { .. }));
    error.downcast_ref::<NodeError>().is_some_and(unsupported) || error.is::<Unsupported>()
}

async fn run_tier(tier: Tier, args: &Args, store: &std::path::Path) -> anyhow::Result<Results> {
    let state = tempfile::tempdir().context("make a directory for the engine")?;
    // Before anything is counted: it keeps a file open.
    let log = CaseLog::open(format!("conformance/{tier}"))?;
    let before = Footprint::of_this_process(state.path())?;
    let mut fixture = Fixture::start(state.path(), tier, store).await?;
    let ours = match Ours::find(&fixture).await {
        Ok(ours) => ours,
        Err(error) => {
            fixture.node.stop().await;
            return Err(error);
        }
    };
    fixture.pace = {
        let sandbox = fixture.sandbox().await?;
        let pace = Pace::find(tier, &sandbox).await?;
        sandbox.destroy().await?;
        pace
    };
    fixture.pace.print(tier);
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let wanted = cases::all().filter(|case| args.wants(case)).enumerate();
    let wanted: Vec<_> =
        wanted.filter(|(place, _)| shard.has(*place)).map(|(_, case)| case).collect();
    let about_contexts = [Feature::Contexts, Feature::Warm, Feature::CopiesMemory];
    let needs_them = |case: &Case| case.needs.iter().any(|need| about_contexts.contains(need));
    let wants_contexts = tier != Tier::Process && wanted.iter().any(|case| needs_them(case));
    match belljar_warmed::template() {
        Ok(template) if wants_contexts => fixture.take_contexts(template).await?,
        Err(error) if wants_contexts && !args.skip_without_template => return Err(error),
        _ => {}
    }
    let longest = fixture.within(LONGEST).max(LONGEST_AT_LEAST);
    let wall = fixture.spec().limits.wall;
    let mut lines = Vec::new();
    for case in wanted {
        let lack = case.needs.iter().find_map(|feature| fixture.has(*feature).err());
        let name = case.full_name();
        let line = run_case(&log, &name, tokio::time::sleep, async || {
            let started = Instant::now();
            let outcome = match lack {
                Some(lack) => Outcome::NotHere(lack),
                None => judge(tokio::time::timeout(longest, (case.run)(&fixture)).await, longest),
            };
            let verdict = outcome.verdict();
            let line = Line { name: name.clone(), needs: case.needs, outcome };
            print_line(tier, &line, started.elapsed());
            (line, verdict)
        });
        lines.push(line.await?);
    }
    let features = Feature::ALL.iter().map(|feature| (*feature, fixture.has(*feature))).collect();
    fixture.cool_down().await;
    // What is left is looked for twice: with the engine alive, when only the
    // sandboxes must be gone, and after it, when everything must.
    let started = Instant::now();
    let mut residue = vec![(SANDBOXES_GONE, ours.sandboxes_gone(wall).await, started.elapsed())];
    let started = Instant::now();
    let gone = engine_gone(fixture, &ours, &before).await;
    residue.push((ENGINE_GONE, gone, started.elapsed()));
    for (name, result, took) in residue {
        let outcome = result.map_or_else(Outcome::Failed, |()| Outcome::Passed);
        let line = Line { name: name.to_owned(), needs: &[], outcome };
        print_line(tier, &line, took);
        log.ended(name, took, line.outcome.logged())?;
        lines.push(line);
    }
    Ok(results(tier, features, &lines))
}

fn results(tier: Tier, features: Vec<(Feature, Result<(), Lack>)>, lines: &[Line]) -> Results {
    let cases = lines.iter().map(|line| {
        let came = match &line.outcome {
            Outcome::Passed => Came::Passed,
            Outcome::Failed(_) => Came::Failed,
            Outcome::NotHere(lack) => (*lack).into(),
        };
        (line.name.clone(), came)
    });
    // A feature is there when every case says so that could, and one did.
    let shown = |feature: Feature| {
        let mut came = Came::Unseen;
        for line in lines.iter().filter(|line| line.needs.contains(&feature)) {
            match line.outcome {
                Outcome::Failed(_) => return Came::Failed,
                Outcome::Passed => came = Came::Passed,
                Outcome::NotHere(_) => {}
            }
        }
        came
    };
    let features = features.into_iter().map(|(feature, has)| {
        let came = has.map_or_else(Came::from, |()| shown(feature));
        (feature.title().to_owned(), came)
    });
    let (features, cases): (BTreeMap<_, _>, BTreeMap<_, _>) = (features.collect(), cases.collect());
    Results { tier, features, cases }
}

async fn engine_gone(fixture: Fixture, ours: &Ours, before: &Footprint) -> anyhow::Result<()> {
    let state = fixture.state.clone();
    fixture.node.stop().await;
    ours.engine_gone().await?;
    until("descriptors and mounts as before", Duration::from_secs(60), async || {
        let after = Footprint::of_this_process(&state)?;
        Ok(after.is_within(before).then_some(()))
    })
    .await
    .with_context(|| format!("before: {before:?}, now: {:?}", Footprint::of_this_process(&state)))
}

fn judge(
    result: Result<anyhow::Result<()>, tokio::time::error::Elapsed>,
    longest: Duration,
) -> Outcome {
    match result {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(_) => Outcome::Failed(anyhow::anyhow!("not done within {longest:?}")),
    }
}

fn print_line(tier: Tier, line: &Line, took: Duration) {
    let (tier, name, millis) = (tier.as_str(), &line.name, took.as_millis());
    match &line.outcome {
        Outcome::Passed => println!("{tier:9} {name:62} pass {millis:6} ms"),
        Outcome::NotHere(lack) => println!("{tier:9} {name:62} n/a: {}", lack.why()),
        Outcome::Failed(error) => println!("{tier:9} {name:62} FAIL {millis:6} ms\n    {error:#}"),
    }
}
