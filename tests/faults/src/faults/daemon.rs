//! The daemon of one machine is killed: at rest, while it makes, while it ends.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::json;

use crate::case::{Case, HANG_LIMIT, until};
use crate::client::Client;
use crate::evidence::{Outcome, Shown};
use crate::rig::host;
use crate::rig::server::Options;

/// F-01: killed with twenty that run; the next one begins where it left off.
pub(crate) async fn killed(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        let (token, id) = token_of(&client).await?;
        case.tokens.push(show(&client, &id, &token, false).await?);
        fill(&client, 20).await?;
        slowest = slowest.max(kill_and_watch(case).await?);
        case.server()?.again().await?;
        case.tokens.push(show(&client, &id, &token, true).await?);
        let roster = case.server()?.books().await?;
        let open = roster.rows.iter().filter(|row| row.is_open()).count();
        ensure!(open == 0, "{open} are served again that ended with the daemon");
    }
    case.heal(&client).await?;
    client.make().await?;
    Ok(format!("3 times 20, the last process gone after {} ms", slowest.as_millis()))
}

/// The same, and nobody starts it again.
pub(crate) async fn killed_for_good(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let (token, id) = token_of(&client).await?;
    case.tokens.push(show(&client, &id, &token, true).await?);
    fill(&client, 5).await?;
    kill_and_watch(case).await?;
    Ok("nobody started it again".to_owned())
}

/// F-03: killed at moments spread over the making of a sandbox; the daemon, or the
/// process that makes sandboxes.
pub(crate) async fn killed_while_making(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let (mut broken, mut made) = (0, 0);
    for round in 0..16_u64 {
        let making = tokio::spawn({
            let client = client.clone();
            async move { client.create(None).await }
        });
        case.history.may_break(true);
        tokio::time::sleep(Duration::from_millis(round * 4)).await;
        let server = case.server()?;
        let below = host::below(server.pid());
        match server.part("belljar-spawner").filter(|_| round % 4 == 3) {
            Some(spawner) => {
                host::signal(spawner, Signal::KILL);
                let status = server.program.ended(HANG_LIMIT).await?;
                ensure!(!status.success(), "it ended well without its spawner");
            }
            None => server.program.kill(),
        }
        gone(&below).await?;
        match making.await? {
            Outcome::Made(_) => made += 1,
            _ => broken += 1,
        }
        case.server()?.again().await?;
        case.history.may_break(false);
    }
    ensure!(broken > 0, "no create was hit");
    case.heal(&client).await?;
    client.make().await?;
    Ok(format!("16 kills, {broken} creates were hit, {made} had just answered"))
}

/// F-04: killed at moments spread over the ending of a sandbox.
pub(crate) async fn killed_while_ending(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let mut hit = 0;
    for round in 0..12_u64 {
        let id = client.make().await?;
        client.leave(&id, "sleep 100").await;
        // Looked for before, as an end takes a few milliseconds only.
        let below = processes(case)?;
        case.history.may_break(true);
        let ending = tokio::spawn({
            let (client, id) = (client.clone(), id.clone());
            async move { client.delete(&id).await }
        });
        tokio::time::sleep(Duration::from_millis(round / 2)).await;
        kill(case, &below).await?;
        if ending.await? != Outcome::Done {
            hit += 1;
        }
        case.server()?.again().await?;
        case.history.may_break(false);
        // Whoever did not hear the answer asks again.
        let again = client.delete(&id).await;
        let fine = matches!(&again, Outcome::Done | Outcome::Refused { status: 404, .. });
        ensure!(fine, "the second delete: {again:?}");
    }
    ensure!(hit > 0, "no delete was hit");
    case.heal(&client).await?;
    Ok(format!("12 kills, {hit} deletes were hit"))
}

pub(crate) async fn fill(client: &Client, count: usize) -> anyhow::Result<Vec<String>> {
    let mut made = Vec::new();
    for _ in 0..count {
        let id = client.make().await?;
        let left = client.leave(&id, "sleep 1000").await;
        ensure!(left == Outcome::Done, "{left:?}");
        made.push(id);
    }
    Ok(made)
}

/// Kills the daemon, and waits until everything of it is gone.
async fn kill_and_watch(case: &mut Case) -> anyhow::Result<Duration> {
    let below = processes(case)?;
    kill(case, &below).await
}

/// What runs below the daemon.
fn processes(case: &mut Case) -> anyhow::Result<Vec<(u32, u64)>> {
    let below = host::below(case.server()?.pid());
    ensure!(!below.is_empty(), "the daemon has no processes");
    Ok(below)
}

async fn kill(case: &mut Case, below: &[(u32, u64)]) -> anyhow::Result<Duration> {
    let began = Instant::now();
    case.server()?.program.kill();
    gone(below).await?;
    Ok(began.elapsed())
}

async fn gone(below: &[(u32, u64)]) -> anyhow::Result<()> {
    until("everything of the daemon is gone", async || {
        below.iter().all(|&(pid, start)| host::start_of(pid) != Some(start))
    })
    .await?;
    Ok(())
}

/// A sandbox with the token that opens its data plane.
pub(crate) async fn token_of(client: &Client) -> anyhow::Result<(String, String)> {
    let wish = json!({ "templateID": "base", "timeout": 300 });
    let (status, made) = client.plain("POST", "/sandboxes", Some(&wish)).await?;
    ensure!(status == 201, "{status}: {made}");
    let text = |name: &str| made[name].as_str().map(str::to_owned);
    let token = text("envdAccessToken").context("no token")?;
    Ok((token, text("sandboxID").context("no id")?))
}

/// Shows it: does it open the sandbox's files?
pub(crate) async fn show(
    client: &Client,
    id: &str,
    token: &str,
    is_dead: bool,
) -> anyhow::Result<Shown> {
    let headers = [("e2b-sandbox-id", id), ("x-access-token", token)];
    let asked = client.bare("GET", "/files?path=/etc/hostname", &headers, None).await;
    let opened = asked.is_ok_and(|(status, _)| status == 200);
    ensure!(is_dead || opened, "the token of a living sandbox opens nothing");
    Ok(Shown { sandbox: id.to_owned(), what: "the data plane's token", is_dead, opened })
}
