//! Runs in flight on a platform whose parts are killed.
//!
//! A run must end with an answer or a typed failure, once. Its transcript has no gap, and no
//! call of it is executed twice: the cases see to that themselves, so invariant I2, which counts
//! the effects of sandboxes, is not theirs.
//!
//! Requirements: A13, P2, P5

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::platform::begin;
use crate::case::{Case, until};
use crate::client::Client;
use crate::evidence::Outcome;
use crate::rig::cluster::{Role, Shape};
use crate::rig::host;

/// Each call leaves a line, so that one that is executed twice shows.
pub(super) const LINES: &str = r#"
    strict = true
    [[turn]]
    delay-ms = 300
    call = [{ tool = "shell", input = { command = "echo 1 >> count" } }]
    [[turn]]
    delay-ms = 300
    call = [{ tool = "shell", input = { command = "sleep 0.3; echo 2 >> count" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Two lines.", files = ["count"] } }]
"#;

/// Calls that take as long as it takes to kill a part, and leave nothing to hand in.
pub(super) const SLOW: &str = r#"
    [[turn]]
    delay-ms = 2000
    call = [{ tool = "shell", input = { command = "touch /tmp/here; sleep 4" } }]
    [[turn]]
    delay-ms = 2000
    call = [{ tool = "shell", input = { command = "sleep 1" } }]
    [[turn]]
    call = [{ tool = "finish", input = { answer = "Done." } }]
"#;

/// The model is asked so often by a run of these scripts that nothing disturbs.
pub(super) const TURNS: usize = 3;

/// A run is over by then: two leases of a worker that died, and the work itself.
const LONGEST: Duration = Duration::from_secs(150);

/// A run that has ended, with all of its transcript.
pub(super) struct Ended {
    run: Value,
    events: Vec<Value>,
}

impl Ended {
    pub(super) fn outcome(&self) -> &str {
        self.run["end"]["outcome"].as_str().unwrap_or_default()
    }

    pub(super) fn count(&self, kind: &str) -> usize {
        self.of_kind(kind).count()
    }

    pub(super) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["kind"] == kind)
    }

    /// The answer that only a run whose calls were each executed once can give.
    pub(super) async fn is_answered(&self, client: &Client) -> anyhow::Result<()> {
        ensure!(self.outcome() == "answered", "it ended as {}", self.run["end"]);
        ensure!(self.run["end"]["result"] == "Two lines.", "the result is {}", self.run["end"]);
        let id = self.run["id"].as_str().context("a run without an id")?;
        let path = format!("/v1/runs/{id}/files/count");
        let key = ("x-api-key", client.key.as_str());
        let (status, text) = client.bare("GET", &path, &[key], None).await?;
        ensure!((status, &*text) == (200, "1\n2\n"), "a call was lost or repeated: {text:?}");
        Ok(())
    }
}

pub(super) fn shape(script: &'static str) -> Shape {
    Shape { script: Some(script), ..Shape::default() }
}

/// Creates a run, at the first client that answers. A repetition finds the same run.
pub(super) async fn create(clients: &[Client], key: &str) -> anyhow::Result<String> {
    let wish = json!({ "question": "How many lines?", "operation": "llm" });
    let began = Instant::now();
    loop {
        for client in clients {
            let (outcome, run) = client.create_run(key, &wish).await;
            match (outcome, run["id"].as_str()) {
                (Outcome::Done, Some(id)) => return Ok(id.to_owned()),
                (Outcome::Refused { status: 400..500, code }, _) => bail!("refused: {code}"),
                _ => {}
            }
        }
        ensure!(began.elapsed() < LONGEST, "no replica creates the run {key}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until the run is over, and reads its transcript, which must be whole.
pub(super) async fn end_of(clients: &[Client], id: &str) -> anyhow::Result<Ended> {
    let began = Instant::now();
    let path = format!("/v1/runs/{id}");
    let run = loop {
        let mut last = None;
        for client in clients {
            if let Ok((200, run)) = client.plain("GET", &path, None).await {
                last = Some(run);
            }
        }
        match last {
            Some(run) if run["state"] == "finished" => break run,
            last if began.elapsed() > LONGEST => bail!("the run never ends: {last:?}"),
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    let mut transcripts = Vec::new();
    for client in clients {
        let key = ("x-api-key", client.key.as_str());
        let (status, text) = client.bare("GET", &format!("{path}/events"), &[key], None).await?;
        ensure!(status == 200, "the transcript is answered {status}");
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        transcripts.push(data.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?);
    }
    let events = transcripts.pop().context("no client asked for the transcript")?;
    ensure!(transcripts.iter().all(|other| *other == events), "replicas tell different things");
    is_whole(&events)?;
    let words = ["answered", "exhausted", "cancelled", "failed"];
    let ended = Ended { run, events };
    ensure!(words.contains(&ended.outcome()), "it ended without a word: {}", ended.run);
    let is_typed = ended.outcome() != "failed" || ended.run["end"]["error"].is_string();
    ensure!(is_typed, "a failure without its kind: {}", ended.run["end"]);
    Ok(ended)
}

/// Events are numbered without gaps, the end is the last one, and each call has one end.
fn is_whole(events: &[Value]) -> anyhow::Result<()> {
    for (place, event) in events.iter().enumerate() {
        let number = u64::try_from(place)? + 1;
        ensure!(event["seq"] == number, "event {number} is {}", event["seq"]);
    }
    let ends = events.iter().filter(|event| event["kind"] == "finished").count();
    let is_last = events.last().is_some_and(|event| event["kind"] == "finished");
    ensure!(ends == 1 && is_last, "the run ends {ends} times");
    let calls = |kind: &str| {
        let found = events.iter().filter(|event| event["kind"] == kind);
        let mut calls: Vec<String> = found.map(|event| event["call"].to_string()).collect();
        calls.sort();
        calls
    };
    let mut ended = calls("tool_finished");
    let all = ended.len();
    ended.dedup();
    ensure!(ended.len() == all, "a call has two ends: {ended:?}");
    Ok(())
}

/// Number of requests to the provider.
fn asked(case: &Case) -> anyhow::Result<usize> {
    let cluster = case.cluster.as_ref();
    let model = cluster.and_then(|cluster| cluster.model.as_ref());
    let model = model.context("the platform has no model")?;
    Ok(model.record().all().len())
}

/// Has the only replica that works die at an event of a run, and the other one go on.
async fn dies_at(case: &mut Case, point: &str) -> anyhow::Result<String> {
    let clients = begin(case, shape(LINES)).await?;
    case.patience = Duration::from_secs(120);
    case.history.may_break(true);
    case.cluster()?.controls[0].arm(&format!("run.{point}:die"))?;
    case.cluster()?.is_whole().await?;
    case.cluster()?.controls[1].kill();
    let key = format!("dies-at-{point}");
    let creating = {
        let (clients, key) = (clients.clone(), key.clone());
        tokio::spawn(async move { create(&clients, &key).await })
    };
    let control = &mut case.cluster()?.controls[0];
    let died = control.program.ended(Duration::from_secs(60)).await;
    died.with_context(|| format!("control does not die at run.{point}"))?;
    let killed = Instant::now();
    for control in &mut case.cluster()?.controls {
        control.start()?;
    }
    case.cluster()?.is_whole().await?;
    let id = creating.await??;
    ensure!(create(&clients[1..], &key).await? == id, "the same key is another run");
    case.history.may_break(false);
    let ended = end_of(&clients, &id).await?;
    ended.is_answered(&clients[1]).await?;
    let asked = asked(case)?;
    // An answer that was not written down is asked for again, once.
    ensure!((TURNS..=TURNS + 1).contains(&asked), "the model was asked {asked} times");
    ensure!(ended.count("llm_responded") == TURNS, "{:?}", ended.events);
    case.heal(&clients[0]).await?;
    Ok(format!("answered {:.1} s after the death", killed.elapsed().as_secs_f64()))
}

/// F-68.
pub(crate) async fn created(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "run_created").await
}

/// F-69.
pub(crate) async fn turn_started(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "prompt_built").await
}

/// F-70.
pub(crate) async fn model_asked(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "llm_requested").await
}

/// F-71.
pub(crate) async fn model_answered(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "llm_responded").await
}

/// F-72.
pub(crate) async fn call_intended(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "tool_intended").await
}

/// F-73.
pub(crate) async fn call_started(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "tool_started").await
}

/// F-74.
pub(crate) async fn call_ended(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "tool_finished").await
}

/// F-75.
pub(crate) async fn ended(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "finished").await
}

/// F-82.
pub(crate) async fn sandbox_attached(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "sandbox_attached").await
}

/// F-84.
pub(crate) async fn result_added(case: &mut Case) -> anyhow::Result<String> {
    dies_at(case, "artifact_added").await
}

/// F-76: the node of a run's sandbox is killed under a call.
pub(crate) async fn node_killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(SLOW)).await?;
    case.patience = Duration::from_secs(120);
    let id = create(&clients, "node-killed").await?;
    let path = format!("/v1/runs/{id}");
    let mut sandbox = None;
    until("a call of the run executes", async || {
        let run = clients[0].plain("GET", &path, None).await;
        let run = run.map_or(Value::Null, |(_, run)| run);
        sandbox = run["sandbox"].as_str().map(str::to_owned);
        let Some(sandbox) = &sandbox else { return false };
        let here = format!("/v1/sandboxes/{sandbox}/files?path=/tmp");
        let listed = clients[0].plain("GET", &here, None).await;
        listed.is_ok_and(|(status, files)| status == 200 && files.to_string().contains("here\""))
    })
    .await?;
    let sandbox = sandbox.context("the run has no sandbox")?;
    let number = case.cluster()?.node_of(&sandbox)?.context("no node has the sandbox")?;
    case.history.may_break(true);
    let node = &mut case.cluster()?.nodes[number];
    node.kill();
    node.start()?;
    case.cluster()?.is_whole().await?;
    case.history.may_break(false);
    let ended = end_of(&clients, &id).await?;
    case.heal(&clients[0]).await?;
    Ok(format!("{} with {} sandboxes", ended.outcome(), ended.count("sandbox_attached")))
}

/// F-77: the gateway that asks the model is killed while it waits for the answer.
pub(crate) async fn gateway_killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(SLOW)).await?;
    case.patience = Duration::from_secs(120);
    let id = create(&clients, "gateway-killed").await?;
    until("the model is asked", async || asked(case).is_ok_and(|asked| asked > 0)).await?;
    let mut killed = 0;
    for control in &case.cluster()?.controls {
        if let Some(gateway) = part(control, "belljar-gateway") {
            host::signal(gateway, Signal::KILL);
            killed += 1;
        }
    }
    ensure!(killed > 0, "no control has a gateway");
    let ended = end_of(&clients, &id).await?;
    case.heal(&clients[0]).await?;
    let failed = ended.count("llm_failed");
    Ok(format!("{killed} gateways killed, {failed} requests failed, {}", ended.outcome()))
}

/// The process of this name below a role.
fn part(role: &Role, name: &str) -> Option<u32> {
    let below = host::below(role.pid());
    below.into_iter().map(|(pid, _)| pid).find(|&pid| host::command(pid) == name)
}

/// F-78: the database is killed three times while runs work.
pub(crate) async fn database_killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(SLOW)).await?;
    case.patience = Duration::from_secs(120);
    let runs = several(&clients).await?;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(1700)).await;
        let postgres = &mut case.cluster()?.postgres;
        postgres.kill();
        postgres.again().await?;
    }
    case.cluster()?.is_whole().await?;
    let ended = ends_of(&clients, &runs).await?;
    case.heal(&clients[0]).await?;
    Ok(format!("3 kills: {ended}"))
}

/// F-79: both controls, and with them all workers, are killed twice while runs work.
pub(crate) async fn controls_killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, shape(SLOW)).await?;
    case.patience = Duration::from_secs(120);
    let runs = several(&clients).await?;
    case.history.may_break(true);
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1700)).await;
        for control in &mut case.cluster()?.controls {
            control.kill();
        }
        for control in &mut case.cluster()?.controls {
            control.start()?;
        }
        case.cluster()?.is_whole().await?;
    }
    case.history.may_break(false);
    let ended = ends_of(&clients, &runs).await?;
    case.heal(&clients[0]).await?;
    Ok(format!("4 kills: {ended}"))
}

async fn several(clients: &[Client]) -> anyhow::Result<Vec<String>> {
    let mut runs = Vec::new();
    for number in 0..4_usize {
        let client = &clients[number % clients.len()];
        runs.push(create(std::slice::from_ref(client), &format!("one-of-{number}")).await?);
    }
    Ok(runs)
}

async fn ends_of(clients: &[Client], runs: &[String]) -> anyhow::Result<String> {
    let mut words = Vec::new();
    for run in runs {
        words.push(end_of(clients, run).await?.outcome().to_owned());
    }
    Ok(words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, kind: &str) -> Value {
        json!({ "seq": seq, "kind": kind, "call": 1 })
    }

    #[test]
    fn a_transcript_with_a_gap_a_second_end_or_a_repeated_call_is_not_whole() {
        let whole = [event(1, "run_created"), event(2, "tool_finished"), event(3, "finished")];
        is_whole(&whole).unwrap();
        let gap = [event(1, "run_created"), event(3, "finished")];
        let two_ends = [event(1, "finished"), event(2, "finished")];
        let open = [event(1, "run_created")];
        let twice = [event(1, "tool_finished"), event(2, "tool_finished"), event(3, "finished")];
        for wrong in [&gap[..], &two_ends, &open, &twice] {
            assert!(is_whole(wrong).is_err(), "{wrong:?}");
        }
    }
}
