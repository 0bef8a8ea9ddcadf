//! A sandbox and copies of it: what was there before is everywhere, what came
//! after is only where it came.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::pairs::judge;
use crate::canary::{Canary, Engine};
use crate::probe::{Kind, Probe};
use crate::relation::{Maker, Relation};
use crate::report::Outcome;
use crate::session::{Answer, Session};

/// The original and its copies.
struct Kin {
    original: Session,
    copies: [Session; 2],
}

pub(crate) async fn run(
    maker: &Maker,
    probes: &[Probe],
    engine: &Engine,
) -> anyhow::Result<Vec<(String, Outcome)>> {
    let original = maker.first(Relation::Forks).await?;
    let mut outcomes = BTreeMap::new();
    let mut before = BTreeMap::new();
    // A generator that was drawn from is one whose state a copy could repeat.
    for probe in probes.iter().filter(|probe| !probe.plants()) {
        original.draw(probe, false).await?;
    }
    for probe in probes.iter().filter(|probe| probe.plants() && probe.copied) {
        let canary = probe.canary(engine)?;
        match original.plant(probe, &canary).await {
            Ok(_) => drop(before.insert(&probe.name, canary)),
            Err(error) => {
                outcomes.insert(&probe.name, Outcome::Broken(format!("{error:#}")));
            }
        }
    }
    let checkpoint = original.sandbox.checkpoint().await.context("take a checkpoint")?;
    let copies = [
        Session::copied(maker.node.fork(&checkpoint).await.context("fork")?)?,
        Session::copied(maker.node.fork(&checkpoint).await.context("fork once more")?)?,
    ];
    let kin = Kin { original, copies };
    for probe in probes {
        if outcomes.contains_key(&probe.name) {
            continue;
        }
        let outcome = if probe.plants() {
            planted(&kin, probe, before.get(&probe.name), engine).await
        } else {
            drawn(&kin, probe).await
        };
        let outcome = outcome.unwrap_or_else(|error| Outcome::Broken(format!("{error:#}")));
        outcomes.insert(&probe.name, outcome);
    }
    let Kin { original, copies: [one, other] } = kin;
    for session in [original, one, other] {
        session.sandbox.destroy().await?;
    }
    let in_order = probes.iter().filter_map(|probe| outcomes.remove_entry(&probe.name));
    Ok(in_order.map(|(name, outcome)| (name.clone(), outcome)).collect())
}

async fn planted(
    kin: &Kin,
    probe: &Probe,
    before: Option<&Canary>,
    engine: &Engine,
) -> anyhow::Result<Outcome> {
    let all = [&kin.original, &kin.copies[0], &kin.copies[1]];
    // The copies must have what the original had: the control of this relation.
    if let Some(canary) = before {
        for copy in &kin.copies {
            if !matches!(copy.look(probe, canary).await?, Answer::Found(Some(_))) {
                return Ok(Outcome::Blind("a copy lacks what the original had".to_owned()));
            }
        }
    }
    // Then each of them plants its own, and the others look for it.
    let planters = if probe.specific { all.len() } else { 1 };
    for (at, planter) in all.iter().enumerate().take(planters) {
        let canary = probe.canary(engine)?;
        if let Answer::Closed(why) = planter.plant(probe, &canary).await? {
            return Ok(match probe.closed {
                true => Outcome::Closed(why),
                false => Outcome::Blind(format!("it cannot be planted: {why}")),
            });
        }
        if !matches!(planter.look(probe, &canary).await?, Answer::Found(Some(_))) {
            return Ok(Outcome::Blind("its own canary was not found".to_owned()));
        }
        for (_, other) in all.iter().enumerate().filter(|(other, _)| *other != at) {
            if let Answer::Found(Some(what)) = other.look(probe, &canary).await? {
                return Ok(Outcome::Bleed(format!("of {}: {what}", name(at))));
            }
        }
    }
    Ok(Outcome::Clean)
}

fn name(at: usize) -> &'static str {
    match at {
        0 => "the original",
        1 => "the first copy",
        _ => "the second copy",
    }
}

async fn drawn(kin: &Kin, probe: &Probe) -> anyhow::Result<Outcome> {
    let [one, other] = &kin.copies;
    let values = [
        kin.original.draw(probe, false).await?,
        one.draw(probe, false).await?,
        other.draw(probe, false).await?,
    ];
    let [a, b, c] = &values;
    let equal = match probe.kind {
        Kind::Layout => a == b && b == c,
        _ => a == b || b == c || a == c,
    };
    Ok(judge(probe, equal, Relation::Forks, &values.join(", ")))
}
