//! Runs the probes in every relation.

mod forks;
mod pairs;

use anyhow::{Context as _, ensure};
use belljar_template::Template;

use crate::Args;
use crate::canary::Engine;
use crate::lower::Lower;
use crate::probe::{FEWEST, Probe};
use crate::relation::{Maker, Relation};
use crate::report::{Line, Outcome};
use crate::seeds;

pub(crate) async fn run(
    args: &Args,
    template: &Template,
    engine: &Engine,
) -> anyhow::Result<Vec<Line>> {
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
        let ran = match relation {
            Relation::Forks => forks::run(&maker, &probes, engine).await,
            _ => pairs::run(&maker, relation, &probes, engine).await,
        };
        let mut new = ran.unwrap_or_else(|error| {
            vec![("relation".to_owned(), Outcome::Broken(format!("{error:#}")))]
        });
        let shared = match lower.is_unchanged() {
            Ok(()) => Outcome::Clean,
            Err(error) => Outcome::Bleed(format!("{error:#}")),
        };
        new.push(("files/layers_on_the_host".to_owned(), shared));
        for (probe, outcome) in new {
            let line = Line { relation, probe, outcome };
            line.print();
            lines.push(line);
        }
    }
    if args.relation.is_none() && args.filter.is_none() {
        let outcome = seeds::after_replacement(&maker).await;
        let outcome = outcome.unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")));
        let probe = "random/hash_seed_of_the_next_zygote".to_owned();
        let line = Line { relation: Relation::Siblings, probe, outcome };
        line.print();
        lines.push(line);
    }
    maker.node.stop().await;
    Ok(lines)
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
