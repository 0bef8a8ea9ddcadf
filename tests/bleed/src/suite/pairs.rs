//! Two sessions, of which the second looks for the first.

use std::collections::BTreeMap;

use crate::canary::{Canary, Engine};
use crate::probe::{Kind, Probe, Reach};
use crate::relation::{Maker, Relation, user_ids};
use crate::report::Outcome;
use crate::session::{Answer, Session};

/// What the first session of a pair did for a probe.
enum Left {
    Canary(Canary),
    Value(String),
    /// It comes to nothing, and why.
    Over(Outcome),
}

pub(crate) async fn run(
    maker: &Maker,
    relation: Relation,
    probes: &[Probe],
    engine: &Engine,
) -> anyhow::Result<Vec<(String, Outcome)>> {
    let mut first = maker.first(relation).await?;
    let mut left = BTreeMap::new();
    // Values first: whatever is planted may change the interpreter.
    for probe in probes.iter().filter(|probe| !probe.plants()) {
        let drawn = match first.draw(probe, false).await {
            Ok(value) => Left::Value(value),
            Err(error) => Left::Over(Outcome::Broken(format!("{error:#}"))),
        };
        left.insert(&probe.name, drawn);
    }
    for probe in probes.iter().filter(|probe| probe.plants()) {
        let planted = match plant(&mut first, probe, engine).await {
            Ok(left) => left,
            Err(error) => Left::Over(Outcome::Broken(format!("{error:#}"))),
        };
        left.insert(&probe.name, planted);
    }
    let (mut gone, mut alive) = (None, None);
    if relation.is_after() {
        gone = user_ids(first.sandbox.pid());
        first.sandbox.destroy().await?;
    } else {
        alive = Some(first);
    }
    let second = maker.second(relation, gone).await?;
    let mut outcomes = Vec::new();
    for probe in probes {
        let outcome = match left.remove(&probe.name) {
            Some(Left::Over(outcome)) => outcome,
            Some(Left::Canary(canary)) => seen(second.look(probe, &canary).await),
            Some(Left::Value(value)) => compared(&second, probe, &value, relation).await,
            None => continue,
        };
        outcomes.push((probe.name.clone(), outcome));
    }
    second.sandbox.destroy().await?;
    if let Some(first) = alive {
        first.sandbox.destroy().await?;
    }
    if probes.iter().any(|probe| probe.kind == Kind::Draw) {
        rigged(maker, relation, probes, &mut outcomes).await?;
    }
    Ok(outcomes)
}

/// Plants, and looks at once where the canary must be found.
async fn plant(first: &mut Session, probe: &Probe, engine: &Engine) -> anyhow::Result<Left> {
    let canary = probe.canary(engine)?;
    if let Answer::Closed(why) = first.plant(probe, &canary).await? {
        return Ok(Left::Over(match probe.closed {
            true => Outcome::Closed(why),
            false => Outcome::Blind(format!("it cannot be planted: {why}")),
        }));
    }
    let control = match probe.reach {
        Reach::Sandbox => first.look_beside(probe, &canary).await?,
        Reach::Interpreter => first.look(probe, &canary).await?,
    };
    Ok(match control {
        Answer::Found(Some(_)) => Left::Canary(canary),
        other => Left::Over(Outcome::Blind(format!("its own canary was not found: {other:?}"))),
    })
}

pub(super) fn seen(looked: anyhow::Result<Answer>) -> Outcome {
    match looked {
        Ok(Answer::Found(None) | Answer::Closed(_)) => Outcome::Clean,
        Ok(Answer::Found(Some(what))) => Outcome::Bleed(what),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    }
}

async fn compared(second: &Session, probe: &Probe, value: &str, relation: Relation) -> Outcome {
    match second.draw(probe, false).await {
        Ok(other) => judge(probe, value == other, relation, value),
        Err(error) => Outcome::Broken(format!("{error:#}")),
    }
}

pub(super) fn judge(probe: &Probe, equal: bool, relation: Relation, value: &str) -> Outcome {
    match (probe.kind, equal) {
        (Kind::Layout, true) if relation.is_related() => Outcome::Shared,
        (Kind::Layout, false) if relation.is_related() => {
            Outcome::Blind("it differs, which is not what is documented".to_owned())
        }
        (_, false) => Outcome::Clean,
        (_, true) => Outcome::Bleed(format!("both have {value}")),
    }
}

/// With sources that were tampered with, two sessions must draw the same.
async fn rigged(
    maker: &Maker,
    relation: Relation,
    probes: &[Probe],
    outcomes: &mut [(String, Outcome)],
) -> anyhow::Result<()> {
    let (one, other) = (maker.first(relation).await?, maker.first(relation).await?);
    for probe in probes.iter().filter(|probe| probe.kind == Kind::Draw) {
        let outcome = outcomes.iter_mut().find(|(name, _)| *name == probe.name);
        let Some((_, outcome)) = outcome.filter(|(_, outcome)| *outcome == Outcome::Clean) else {
            continue;
        };
        let (one, other) = (one.draw(probe, true).await, other.draw(probe, true).await);
        match (one, other) {
            (Ok(one), Ok(other)) if one == other => {}
            (one, other) => {
                *outcome = Outcome::Blind(format!("rigged, and yet {one:?} and {other:?}"));
            }
        }
    }
    one.sandbox.destroy().await?;
    other.sandbox.destroy().await?;
    Ok(())
}
