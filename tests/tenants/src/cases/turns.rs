//! Turns of runs: what each reached and changed, and who may know of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{Attribution, EndReason, Sequence};
use belljar_journal::event::{
    Block, Body, CallRef, LlmRequested, LlmResponded, SandboxAttached, Tokens, ToolFinished,
    ToolIntended, ToolStarted, Used,
};
use belljar_journal::{Address, Journal, Lease, NewEvent};
use belljar_objects::Digest;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::authorization::EVERYTHING;
use crate::client::{Client, HANG_LIMIT};
use crate::platform::Platform;
use crate::world::World;

/// The host that each turn asks for. The policy has the first; nothing answers there.
const HOSTS: [&str; 2] = ["a.example", "b.example"];

/// API-01/turns: a turn shows what its own call reached, to its owner alone.
pub(crate) async fn are_ones_own(world: &World) -> anyhow::Result<String> {
    let run = act(&world.a, &world.journal).await?;
    let turns = look(&world.a, &world.b, &run).await?;
    Ok(format!("{} turns, seen by their owner alone", turns.len()))
}

/// API-01/turns/platform: the same by control, also after the node was killed.
pub(crate) async fn outlive_their_node(_: &World) -> anyhow::Result<String> {
    let mut platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let run = act(&a, &platform.store.runs()).await?;
    let before = look(&a, &b, &run).await?;
    platform.kill_node();
    let after = look(&a, &b, &run).await?;
    platform.stop().await?;
    ensure!(before == after, "{before:?} became {after:?}");
    Ok(format!("{} turns are as they were without their node", after.len()))
}

/// Has a run of two turns, each with one call, as a worker does it.
async fn act(a: &Client, journal: &dyn Journal) -> anyhow::Result<String> {
    let wish = json!({ "network": { "reach": { "allow": [{ "host": HOSTS[0] }] } } });
    let sandbox = a.sandbox(&wish).await?;
    let question = json!({ "question": "Who answers?" });
    let made = a.json("POST", "/v1/runs", &question).await?.expect(201)?.value()?;
    let run = made["id"].as_str().context("a run without an id")?.to_owned();
    let address = Address { tenant: "a".to_owned(), run: run.parse()? };
    let lease = journal.claim(&address, "test", HANG_LIMIT).await?;
    let attached = SandboxAttached {
        sandbox: sandbox.parse()?,
        number: 1,
        template: "base".to_owned(),
        restored: None,
        data: None,
        environment: None,
    };
    append(journal, &lease, attached).await?;
    for (turn, host) in (1..).zip(HOSTS) {
        take_turn(a, journal, &lease, &sandbox, (turn, host)).await?;
    }
    journal.release(&lease).await?;
    Ok(run)
}

async fn take_turn(
    a: &Client,
    journal: &dyn Journal,
    lease: &Lease,
    sandbox: &str,
    (turn, host): (u32, &str),
) -> anyhow::Result<()> {
    let script = format!(
        "echo {turn} > /home/user/turn-{turn}; python3 -c 'import urllib.request as u
try: u.urlopen(\"http://{host}/\", timeout=10)
except OSError as error: print(error)'"
    );
    let call = CallRef { turn, id: "call".to_owned() };
    let (run, name) = (lease.address.run.clone(), "shell".to_owned());
    let exec = call.exec(&run, 1);
    let (attempt, prompt) = (1, Digest::of(b"prompt"));
    let model = "model".to_owned();
    let asked = LlmRequested { turn, attempt, model, prompt, reservation: None, last: false };
    let asked = append(journal, lease, asked).await?;
    let input = json!({ "command": script });
    let block = Block::ToolUse { id: call.id.clone(), name: name.clone(), input };
    let answer = LlmResponded {
        turn,
        asked,
        blocks: vec![block],
        stop: "tool_use".to_owned(),
        tokens: Tokens { input: 3, ..Tokens::default() },
        nano_dollars: 5,
        assumed: false,
        upstream_request: None,
        raw: None,
        first_token_micros: None,
        micros: 1000,
    };
    append(journal, lease, answer).await?;
    let intended = ToolIntended { call: call.clone(), name, arguments: Digest::of(b"") };
    append(journal, lease, intended).await?;
    let started = ToolStarted {
        call: call.clone(),
        exec: exec.clone(),
        attempt,
        sandbox: sandbox.parse()?,
        generation: lease.generation,
        timeout_ms: None,
        cpu_ms: None,
    };
    append(journal, lease, started).await?;
    let attribution = Attribution { run, turn, call: Some(exec.clone()) }.to_string();
    let headers = [("run-attribution", attribution.as_str()), ("content-type", "application/json")];
    let path = format!("/v1/sandboxes/{sandbox}/calls");
    let body = json!({ "script": script }).to_string();
    let ran = a.send_with("POST", &path, &headers, body).await?.expect(200)?.value()?;
    let finished = ToolFinished {
        call,
        exec: Some(exec),
        reason: EndReason::Done,
        exit_code: Some(0),
        shown: ran["stdout"]["data"].as_str().unwrap_or_default().to_owned(),
        cut: None,
        outputs: Vec::new(),
        fault: None,
        used: Used::default(),
    };
    append(journal, lease, finished).await.map(drop)
}

async fn append(
    journal: &dyn Journal,
    lease: &Lease,
    body: impl Into<Body>,
) -> anyhow::Result<Sequence> {
    Ok(journal.append(lease, NewEvent::new(body)).await?.seq())
}

/// The turns as their owner sees them, once each has its row and its connection.
async fn look(a: &Client, b: &Client, run: &str) -> anyhow::Result<Vec<Value>> {
    let mut turns = Vec::new();
    for (turn, host) in (1..).zip(HOSTS) {
        let path = format!("/v1/runs/{run}/turns/{turn}");
        let shown = complete(a, &path).await?;
        let (call, connections) = (&shown["calls"][0], &shown["connections"]);
        for connection in connections.as_array().context("no connections")? {
            ensure!(connection["host"] == host, "turn {turn}: {connection}");
            ensure!(connection["call"] == call["call"], "turn {turn}: {connection}");
            let is_denied = connection["decision"] == "denied";
            ensure!(is_denied == (host == HOSTS[1]), "turn {turn}: {connection}");
        }
        ensure!(call["changes"][0]["path"] == format!("/home/user/turn-{turn}"), "{shown}");
        ensure!(call["changes"].as_array().is_some_and(|files| files.len() == 1), "{shown}");
        ensure!(shown["used"]["nano_dollars"] == 5, "{shown}");
        let foreign = b.get(&path).await?.expect(404)?;
        ensure!(foreign.code()? == "run_not_found", "{}", foreign.text());
        turns.push(shown);
    }
    let none = a.get(&format!("/v1/runs/{run}/turns/3")).await?.expect(404)?;
    ensure!(none.code()? == "turn_not_found", "{}", none.text());
    Ok(turns)
}

/// Waits for the rows: they are told a moment after the call.
async fn complete(a: &Client, path: &str) -> anyhow::Result<Value> {
    let deadline = Instant::now() + HANG_LIMIT;
    loop {
        let shown = a.get(path).await?.expect(200)?.value()?;
        let has = |items: &Value| items.as_array().is_some_and(|items| !items.is_empty());
        if has(&shown["connections"]) && has(&shown["calls"][0]["changes"]) {
            return Ok(shown);
        }
        ensure_in_time!(Instant::now() < deadline, "no rows came: {shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
