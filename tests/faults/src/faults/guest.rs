//! What is inside a sandbox dies or stands still, or its machine does.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use serde_json::json;

use crate::case::{Case, until};
use crate::client::{Client, reaching};
use crate::evidence::Outcome;
use crate::rig::host;
use crate::rig::oracle::Manner;
use crate::rig::server::Options;

/// The processes of a sandbox, by its cgroup.
fn processes(case: &mut Case, sandbox: &str) -> anyhow::Result<Vec<u32>> {
    let state = case.server()?.state.clone();
    let found = host::inhabited(&state).into_iter().find(|(id, _)| id == sandbox);
    Ok(found.context("the sandbox has no cgroup")?.1)
}

fn guest(case: &mut Case, sandbox: &str) -> anyhow::Result<u32> {
    let all = processes(case, sandbox)?;
    let guest = all.into_iter().find(|&pid| host::command(pid).contains("belljar-guest"));
    guest.context("the sandbox has no guest")
}

async fn ended(client: &Client, id: &str) -> anyhow::Result<String> {
    let mut reason = String::new();
    until("the sandbox's end is on record", async || {
        let asked = client.plain("GET", "/v1/ended?limit=100", None).await;
        let items = asked.map(|(_, value)| value["items"].clone()).unwrap_or_default();
        let found = items.as_array().into_iter().flatten().find(|item| item["id"] == id);
        reason = found.map(|item| item["reason"].to_string()).unwrap_or_default();
        found.is_some()
    })
    .await?;
    Ok(reason)
}

/// F-05: the guest stands still, then is killed. Whoever asks hears so in time.
pub(crate) async fn wedged(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let id = client.make().await?;
    client.run(&id, "true").await?;
    let pid = guest(case, &id)?;
    host::signal(pid, Signal::STOP);
    let began = Instant::now();
    // A guest has half a minute to answer.
    let patient = client.within(Duration::from_secs(45));
    let (outcome, _) = patient.call(&id, "echo hello").await;
    let took = began.elapsed();
    let typed = matches!(&outcome, Outcome::Refused { status: 503, .. });
    ensure!(typed, "a sandbox whose guest stands still was answered {outcome:?} after {took:?}");
    // It goes on where it was, or is ended; both must work.
    host::signal(pid, Signal::CONT);
    let other = client.make().await?;
    let pid = guest(case, &other)?;
    host::signal(pid, Signal::STOP);
    let deleted = client.delete(&other).await;
    ensure!(deleted == Outcome::Done, "it cannot be ended: {deleted:?}");
    let third = client.make().await?;
    let pid = guest(case, &third)?;
    host::signal(pid, Signal::KILL);
    let reason = ended(&client, &third).await?;
    Ok(format!("answered after {:.1} s: {outcome:?}; killed: {reason}", took.as_secs_f64()))
}

/// F-06: pid 1 dies under a call that has an effect outside.
pub(crate) async fn init_dies(case: &mut Case) -> anyhow::Result<String> {
    let (client, oracle) = case.serve_with_oracle(Options::default()).await?;
    let id = client.make_with(&reaching(oracle)).await?;
    ensure!(client.effect(&id, oracle).await == Outcome::Done, "effects do not arrive");
    // It arrives at once and is answered late: the kill falls in between.
    let before = case.oracle.as_ref().context("no oracle")?.seen().len();
    case.oracle.as_ref().context("no oracle")?.behave(Manner::After(Duration::from_secs(5)));
    let calling = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move { client.effect(&id, oracle).await }
    });
    until("the effect arrives", async || {
        case.oracle.as_ref().is_some_and(|oracle| oracle.seen().len() > before)
    })
    .await?;
    let pid = guest(case, &id)?;
    host::signal(pid, Signal::KILL);
    let outcome = calling.await?;
    ensure!(matches!(outcome, Outcome::Refused { .. }), "the call was answered {outcome:?}");
    let reason = ended(&client, &id).await?;
    ensure!(reason == "\"lost\"", "its end is {reason}");
    Ok(format!("the call: {outcome:?}; the sandbox: {reason}"))
}

/// F-07: the emulator of a virtual machine is killed.
pub(crate) async fn machine_killed(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?.within(Duration::from_secs(120));
    let wish = json!({ "template": "base", "timeout_seconds": 300, "tier": "microvm" });
    let id = client.make_with(&wish).await?;
    client.run(&id, "uname -r").await?;
    let all = processes(case, &id)?;
    let machine = all.into_iter().find(|&pid| host::command(pid).contains("qemu"));
    let machine = machine.context("no machine runs")?;
    let calling = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move { client.call(&id, "sleep 60").await.0 }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    host::signal(machine, Signal::KILL);
    let outcome = calling.await?;
    let reason = ended(&client, &id).await?;
    let took = began.elapsed();
    ensure!(reason == "\"lost\"", "its end is {reason}");
    case.history.may_break(false);
    Ok(format!("the call: {outcome:?}; the place was free after {} ms", took.as_millis()))
}

/// F-56: nothing in the sandbox runs any more, so nothing can help to end it.
pub(crate) async fn stuck(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let pid = case.server()?.pid();
    let before = Case::settled(pid).await;
    let mut slowest = Duration::ZERO;
    for how in ["stopped", "late", "busy"] {
        let id = client.make().await?;
        client.leave(&id, "mkfifo /tmp/f; cat /tmp/f").await;
        client.leave(&id, "cd /tmp; exec 3</tmp; sleep 1000").await;
        let all = processes(case, &id)?;
        ensure!(all.len() >= 3, "{how}: only {} processes", all.len());
        if how != "busy" {
            all.iter().for_each(|&pid| host::signal(pid, Signal::STOP));
        }
        let began = Instant::now();
        let outcome = client.delete(&id).await;
        slowest = slowest.max(began.elapsed());
        ensure!(outcome == Outcome::Done, "{how}: {outcome:?}");
        if how == "late" {
            // The deadline ends one as well that nobody deletes.
            let wish = json!({ "template": "base", "timeout_seconds": 1 });
            let late = client.make_with(&wish).await?;
            let all = processes(case, &late)?;
            all.iter().for_each(|&pid| host::signal(pid, Signal::STOP));
            ended(&client, &late).await?;
        }
    }
    let after = Case::settled(pid).await;
    case.compare(before, after, 20 << 10);
    Ok(format!("the slowest end took {} ms", slowest.as_millis()))
}
