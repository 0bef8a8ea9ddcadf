//! Answers of models that arrived and were not written: they are used, and not bought again.
//!
//! The scripted provider itself counts its answers, by turn: one that is bought twice is an effect
//! that happened twice, which invariant I2 finds.
//!
//! Requirements: A13, P2, P5

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::platform::begin;
use super::runs::{LINES, SLOW, TURNS, create, end_of, shape};
use crate::case::{Case, until};

/// Answers of the provider so far, by turn.
fn bought(case: &Case) -> anyhow::Result<Vec<(String, u32)>> {
    let cluster = case.cluster.as_ref();
    let model = cluster.and_then(|cluster| cluster.model.as_ref());
    let mut bought: Vec<(String, u32)> = Vec::new();
    for asked in model.context("the platform has no model")?.record().all() {
        // Each turn of these scripts brings one result of a tool.
        let turn = format!("answer of turn {}", asked.results + 1);
        match bought.iter_mut().find(|(known, _)| *known == turn) {
            Some((_, count)) => *count += 1,
            None => bought.push((turn, 1)),
        }
    }
    Ok(bought)
}

/// F-80: control dies with an answer in its hands, before it has written the event.
pub(crate) async fn kept(case: &mut Case) -> anyhow::Result<String> {
    dies_with_an_answer(case, true).await
}

/// The same without the defence: what was kept is taken away.
pub(crate) async fn not_kept(case: &mut Case) -> anyhow::Result<String> {
    dies_with_an_answer(case, false).await
}

async fn dies_with_an_answer(case: &mut Case, is_kept: bool) -> anyhow::Result<String> {
    let clients = begin(case, shape(LINES)).await?;
    case.patience = Duration::from_secs(120);
    case.history.may_break(true);
    case.cluster()?.controls[0].arm("run.answer_kept:die")?;
    case.cluster()?.is_whole().await?;
    case.cluster()?.controls[1].kill();
    let creating = {
        let clients = clients.clone();
        tokio::spawn(async move { create(&clients, "dies-with-an-answer").await })
    };
    let control = &mut case.cluster()?.controls[0];
    let died = control.program.ended(Duration::from_secs(60)).await;
    died.context("control does not die with the answer")?;
    let killed = Instant::now();
    let answers = case.rig.dir.join("c1-control").join("control").join("answers");
    let waiting = std::fs::read_dir(&answers).context("no folder of kept answers")?.count();
    ensure!(waiting == 1, "{waiting} answers are kept");
    if !is_kept {
        std::fs::remove_dir_all(&answers)?;
    }
    for control in &mut case.cluster()?.controls {
        control.start()?;
    }
    case.cluster()?.is_whole().await?;
    let id = creating.await??;
    case.history.may_break(false);
    let ended = end_of(&clients, &id).await?;
    ended.is_answered(&clients[1]).await?;
    let answered = ended.count("llm_responded");
    ensure!(answered == TURNS, "{answered} answers are in the transcript");
    case.effects = Some(bought(case)?.into_iter().collect());
    case.heal(&clients[0]).await?;
    let (failed, took) = (ended.count("llm_failed"), killed.elapsed().as_secs_f64());
    Ok(format!("answered {took:.1} s after the death; {failed} requests lost"))
}

/// F-81: the database is away when the model answers, so that the answer cannot be written.
pub(crate) async fn no_database(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(SLOW)).await?;
    case.patience = Duration::from_secs(120);
    let id = create(&clients, "no-database-for-the-answer").await?;
    until("the model is asked", async || bought(case).is_ok_and(|it| !it.is_empty())).await?;
    case.history.may_break(true);
    case.cluster()?.postgres.kill();
    // The model answers after two seconds. Nodes are not given up for six.
    tokio::time::sleep(Duration::from_secs(4)).await;
    case.cluster()?.postgres.again().await?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    let ended = end_of(&clients, &id).await?;
    ensure!(ended.outcome() == "answered", "it ended as {}", ended.outcome());
    case.effects = Some(bought(case)?.into_iter().collect());
    case.heal(&clients[0]).await?;
    Ok(format!("answered; {} requests lost", ended.count("llm_failed")))
}
