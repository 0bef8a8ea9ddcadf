//! Templates that are damaged, and interpreters that die.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::case::Case;
use crate::evidence::Outcome;
use crate::rig::host;
use crate::rig::server::Options;
use crate::rig::templates::manifest;

/// F-61: the warm interpreter that others are forked from is killed, then stands
/// still.
pub(crate) async fn zygote(case: &mut Case) -> anyhow::Result<String> {
    // The real store: a warm template.
    let store = std::env::var_os("BELLJAR_STORE").map(PathBuf::from);
    let client = case.serve(Options { store, ..Options::default() }).await?;
    let client = client.within(Duration::from_secs(90));
    let mut took = Vec::new();
    let mut names = Vec::new();
    for how in ["none", "killed", "stopped"] {
        let below = host::below(case.server()?.pid());
        let pythons = below.iter().filter(|(pid, _)| host::command(*pid).contains("python"));
        let pythons: Vec<_> = pythons.map(|(pid, _)| *pid).collect();
        let signal = if how == "killed" { Signal::KILL } else { Signal::STOP };
        if how != "none" {
            names.push(pythons.len());
            pythons.iter().for_each(|&pid| host::signal(pid, signal));
        }
        let began = std::time::Instant::now();
        let id = client.make().await.context(how)?;
        let path = format!("/v1/sandboxes/{id}/contexts/python/cells");
        let (outcome, said) = client.post(&path, &json!({ "code": "print(6*7)" })).await;
        ensure!(outcome == Outcome::Done, "{how}: {outcome:?}");
        ensure!(said["stdout"] == "42\n" || said.to_string().contains("42"), "{how}: {said}");
        took.push(format!("{how} {} ms", began.elapsed().as_millis()));
        if how == "stopped" {
            pythons.iter().for_each(|&pid| host::signal(pid, Signal::CONT));
        }
        client.delete(&id).await;
    }
    ensure!(names.iter().any(|&count| count > 0), "there was no warm interpreter to kill");
    case.heal(&client).await?;
    Ok(format!("first results: {}", took.join(", ")))
}

/// F-62: a template is half there: its description cut, a layer missing.
pub(crate) async fn damaged(case: &mut Case) -> anyhow::Result<String> {
    let store = case.rig.store.clone();
    let path = manifest(&store)?;
    let whole = std::fs::read(&path)?;
    let client = case.serve(Options::default()).await?;
    client.make().await?;
    let mut told: Value = serde_json::from_slice(&whole)?;
    told["layers"][0] = json!("0".repeat(64));
    let mut said = Vec::new();
    for (what, bytes) in [
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("without a layer", told.to_string().into_bytes()),
    ] {
        std::fs::write(&path, &bytes)?;
        // A server that starts on it, and one that runs.
        case.server()?.stop().await?;
        let began = case.server()?.again().await;
        if began.is_err() {
            said.push(format!("{what}: the server says so and does not start"));
            std::fs::write(&path, &whole)?;
            case.server()?.again().await?;
            continue;
        }
        let outcome = client.create(None).await;
        case.probe(format!("a template that is {what}"), matches!(outcome, Outcome::Made(_)));
        said.push(format!("{what}: {outcome:?}"));
        std::fs::write(&path, &whole)?;
    }
    case.server()?.stop().await?;
    case.server()?.again().await?;
    case.heal(&client).await?;
    Ok(said.join("; "))
}
