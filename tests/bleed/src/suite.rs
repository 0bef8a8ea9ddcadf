//! Runs the probes in every relation.

mod forks;
mod pairs;

use anyhow::{Context as _, ensure};
use belljar_template::Template;
use belljar_testkit::{CaseLog, CaseVerdict, run_case};

use crate::Args;
use crate::canary::Engine;
use crate::claims;
use crate::lower::Lower;
use crate::probe::{FEWEST, Probe};
use crate::relation::{Maker, Relation};
use crate::report::{Line, Outcome};
use crate::seeds;

/// The probe that needs no session to look from: shared layers, as the host sees them.
const LAYERS: &str = "files/layers_on_the_host";

pub(crate) async fn run(
    args: &Args,
    template: &Template,
    engine: &Engine,
) -> anyhow::Result<Vec<Line>> {
    let log = CaseLog::open("bleed")?;
    let _lease = template.lease()?;
    let lower = Lower::look(template)?;
    ensure!(lower.notices(), "a changed layer would not be noticed");
    let maker = Maker::start(template).await?;
    let probes = probes(&maker, args.filter.as_deref()).await?;
    let mut lines = Vec::new();
    let mut pooled = None;
    for relation in Relation::ALL {
        if args.relation.is_some_and(|wanted| wanted != relation) {
            continue;
        }
        let wants_pool = matches!(relation, Relation::Pooled | Relation::Reuse);
        if relation.is_related() && pooled != Some(wants_pool) {
            maker.warm_up(template, wants_pool).await?;
            pooled = Some(wants_pool);
        }
        let mut open = probes.clone();
        let mut outcomes = Vec::new();
        run_case(&log, relation.as_str(), tokio::time::sleep, async || {
            let ran = match relation {
                Relation::Forks => Box::pin(forks::run(&maker, &open, engine)).await,
                _ => Box::pin(pairs::run(&maker, relation, &open, engine)).await,
            };
            let mut new = ran.unwrap_or_else(|error| {
                vec![("relation".to_owned(), Outcome::Broken(format!("{error:#}")))]
            });
            new.push((LAYERS.to_owned(), unchanged(&lower)));
            // What was undecided before is decided now, or undecided for another reason.
            outcomes.retain(|(probe, outcome): &(String, Outcome)| {
                outcome.undecided().is_none() && probe != LAYERS
            });
            outcomes.extend(new);
            let decided = |name: &str| {
                let of = outcomes.iter().find(|(probe, _)| probe == name);
                of.is_some_and(|(_, outcome)| outcome.undecided().is_none())
            };
            open.retain(|probe| !decided(&probe.name));
            ((), verdict(outcomes.iter().map(|(_, outcome)| outcome)))
        })
        .await?;
        for (probe, outcome) in outcomes {
            let line = Line { relation, probe, outcome };
            line.print();
            lines.push(line);
        }
    }
    if args.relation.is_none() && args.filter.is_none() {
        let probe = "random/hash_seed_of_the_next_zygote".to_owned();
        let check = async || seeds::after_replacement(&maker).await;
        lines.push(alone(&log, Relation::Siblings, probe, check).await?);
        maker.warm_up(template, true).await?;
        let probe = format!("pool/{}", claims::ATTACK);
        let check = async || claims::are_exclusive(&maker).await;
        lines.push(alone(&log, Relation::Pooled, probe, check).await?);
    }
    maker.node.stop().await;
    Ok(lines)
}

/// Runs a check that has sessions of its own.
async fn alone(
    log: &CaseLog,
    relation: Relation,
    probe: String,
    check: impl AsyncFn() -> anyhow::Result<Outcome>,
) -> anyhow::Result<Line> {
    let case = format!("{} {probe}", relation.as_str());
    let outcome = run_case(log, &case, tokio::time::sleep, async || {
        let outcome = check().await;
        let outcome = outcome.unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")));
        let verdict = verdict([&outcome].into_iter());
        (outcome, verdict)
    });
    let line = Line { relation, probe, outcome: outcome.await? };
    line.print();
    Ok(line)
}

fn unchanged(lower: &Lower) -> Outcome {
    match lower.is_unchanged() {
        Ok(()) => Outcome::Clean,
        Err(error) => Outcome::Bleed(format!("{error:#}")),
    }
}

/// The verdict of several probes. A bleed is final, whatever else was not decided.
fn verdict<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> CaseVerdict {
    let mut undecided = None;
    for outcome in outcomes {
        match outcome.undecided() {
            Some(why) => undecided = undecided.or(Some(why)),
            None if outcome.failed() => return CaseVerdict::Failed,
            None => {}
        }
    }
    undecided.map_or(CaseVerdict::Passed, |why| CaseVerdict::Undecided(why.to_owned()))
}

/// The probes that `filter` names, as an interpreter tells them.
async fn probes(maker: &Maker, filter: Option<&str>) -> anyhow::Result<Vec<Probe>> {
    let session = maker.first(Relation::Strangers).await.context("make a first session")?;
    let mut probes = session.catalogue().await?;
    session.sandbox.destroy().await?;
    ensure!(probes.len() >= FEWEST, "there are only {} probes", probes.len());
    probes.retain(|probe| filter.is_none_or(|filter| probe.name.contains(filter)));
    ensure!(!probes.is_empty(), "no probe has such a name");
    Ok(probes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bleed_is_final_also_beside_a_broken_probe() {
        let broken = Outcome::Broken("no answer".to_owned());
        let bleed = Outcome::Bleed("a canary".to_owned());
        let clean = Outcome::Clean;
        assert_eq!(verdict([&clean, &broken, &bleed].into_iter()), CaseVerdict::Failed);
        let undecided = CaseVerdict::Undecided("no answer".to_owned());
        assert_eq!(verdict([&clean, &broken].into_iter()), undecided);
        assert_eq!(verdict([&clean].into_iter()), CaseVerdict::Passed);
    }
}
