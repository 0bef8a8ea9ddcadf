//! What sandboxes reach, and who may know of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandboxes::Ceiling;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::PLENTY;
use crate::client::{Client, HANG_LIMIT};
use crate::world::World;

/// Says the status of the refusal, or that there was nobody to ask.
const ASK: &str = "python3 -c 'import urllib.request as u, urllib.error as e
try: u.urlopen(\"http://b.example/\", timeout=10)
except e.HTTPError as error: print(error.code, error.headers[\"x-belljar-reason\"])
except OSError: print(\"nobody\")'";

async fn told(client: &Client, sandbox: &str) -> anyhow::Result<String> {
    let ran = client.run(sandbox, ASK).await?;
    Ok(ran["stdout"]["data"].as_str().unwrap_or_default().trim().to_owned())
}

/// A policy that is accepted is in force, also one that comes later.
pub(super) async fn policies_hold(a: &Client) -> anyhow::Result<()> {
    let none = a.sandbox(&json!({})).await?;
    ensure!(told(a, &none).await? == "nobody", "a sandbox without a network was answered");
    let allowed = json!({ "network": { "reach": { "allow": [{ "host": "a.example" }] } } });
    let some = a.sandbox(&allowed).await?;
    let first = told(a, &some).await?;
    ensure!(first == "403 not_allowed", "another host: {first}");
    let path = format!("/v1/sandboxes/{some}/network");
    a.json("PUT", &path, &json!({ "deny_hosts": ["b.example"], "reach": "open" }))
        .await?
        .expect(200)?;
    let denied = told(a, &some).await?;
    ensure!(denied == "403 denied_host", "a host that is denied: {denied}");
    let shown = a.get(&path).await?.expect(200)?.value()?;
    ensure!(shown["network"]["reach"] == "open", "{shown}");
    let wrong = a.json("PUT", &path, &json!({ "deny": ["b.example"] })).await?;
    ensure!(wrong.expect(422)?.code()? == "invalid");
    for sandbox in [none, some] {
        a.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
    }
    Ok(())
}

/// A token has what its sandbox was made with, and no more.
pub(super) async fn operations_hold(a: &Client) -> anyhow::Result<()> {
    let with = a.sandbox(&json!({ "operations": ["echo"] })).await?;
    let tokens = |sandbox: &str| format!("/v1/sandboxes/{sandbox}/tokens");
    let made = a.json("POST", &tokens(&with), &json!({})).await?.expect(201)?.value()?;
    ensure!(made["paths"]["echo"].is_string(), "no path for the operation");
    let more = a.json("POST", &tokens(&with), &json!({ "operations": ["other"] })).await?;
    ensure!(more.expect(422)?.code()? == "network_refused");
    let without = a.sandbox(&json!({})).await?;
    let none = a.json("POST", &tokens(&without), &json!({ "operations": ["echo"] })).await?;
    ensure!(none.expect(409)?.code()? == "no_network");
    for sandbox in [with, without] {
        a.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
    }
    Ok(())
}

/// API-01: rows outlive their sandbox, for its owner alone.
pub(crate) async fn rows_are_ones_own(world: &World) -> anyhow::Result<String> {
    let wish = json!({ "network": { "reach": { "allow": [{ "host": "a.example" }] } } });
    let theirs = world.a.sandbox(&wish).await?;
    let call = world.a.run(&theirs, ASK).await?;
    let path = format!("/v1/sandboxes/{theirs}/connections");
    let rows = rows(&world.a, &path).await?;
    ensure!(rows[0]["host"] == "b.example" && rows[0]["decision"] == "denied", "{rows}");
    ensure!(rows[0]["call"]["number"] == call["number"], "{rows}");
    for is_over in [false, true] {
        world.b.get(&path).await?.expect(404)?;
        let events = [("accept", "text/event-stream"), ("last-event-id", "0")];
        let stream = world.b.open("GET", &path, &events, "").await?;
        ensure!(stream.status == 404, "a stream of another's: {}", stream.status);
        // The control.
        ensure!(world.a.get(&path).await?.expect(200)?.value()?["items"] == rows);
        if !is_over {
            world.a.send("DELETE", &format!("/v1/sandboxes/{theirs}"), "").await?.expect(204)?;
        }
    }
    Ok("404 before and after its end; the owner sees them in both".to_owned())
}

/// API-19: whoever may reach package indexes only does not say what an index is, not
/// even by building a template whose package manager is configured for it.
pub(crate) async fn indexes_are_the_operators(world: &World) -> anyhow::Result<String> {
    let below = World::start_below(Ceiling::Packages, PLENTY, &world.planted).await?;
    // The control first: who may reach any host may name an index, too.
    let free = reaches_own_index(&world.a).await?;
    ensure!(free != "403 not_allowed" && free != "nobody", "the control: {free}");
    let bound = reaches_own_index(&below.a).await;
    below.stop().await?;
    let bound = bound?;
    ensure!(bound == "403 not_allowed", "a template's own index was reached for: {bound}");
    Ok(format!("{bound}; where any host may be reached: {free}"))
}

/// What is answered to somebody who built a template with an index of his own.
async fn reaches_own_index(client: &Client) -> anyhow::Result<String> {
    let named = json!({ "name": "own-index" });
    let made = client.json("POST", "/v3/templates", &named).await?.expect(202)?.value()?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("no id");
    let (template, build) = (text(&made["templateID"])?, text(&made["buildID"])?);
    let script = "printf '[global]\\nindex-url = http://b.example/\\n' >/etc/pip.conf";
    let steps =
        json!({ "fromTemplate": "base", "steps": [{ "type": "RUN", "args": [script, "root"] }] });
    let path = format!("/v2/templates/{template}/builds/{build}");
    client.json("POST", &path, &steps).await?.expect(202)?;
    let status = format!("/templates/{template}/builds/{build}/status?logsOffset=0");
    let deadline = Instant::now() + HANG_LIMIT;
    loop {
        let seen = client.get(&status).await?.expect(200)?.value()?;
        match seen["status"].as_str() {
            Some("ready") => break,
            Some("error") => anyhow::bail!("the build failed: {seen}"),
            _ => ensure_in_time!(Instant::now() < deadline, "the build takes long: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let wish = json!({ "template": template, "network": { "packages": true } });
    let sandbox = client.sandbox(&wish).await?;
    let told = told(client, &sandbox).await?;
    client.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
    client.send("DELETE", &format!("/templates/{template}"), "").await?;
    Ok(told)
}

/// Waits for the first row: it is told when the exchange is over.
async fn rows(client: &Client, path: &str) -> anyhow::Result<Value> {
    let deadline = Instant::now() + HANG_LIMIT;
    loop {
        let items = client.get(path).await?.expect(200)?.value()?["items"].clone();
        if items.as_array().is_some_and(|items| !items.is_empty()) {
            return Ok(items);
        }
        ensure_in_time!(Instant::now() < deadline, "no row came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
