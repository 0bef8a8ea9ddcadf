//! Ids of streams and calls: one that was used is never another's.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::client::Client;
use crate::world::World;

const SECRET: &str = "line-of-tenant-a";
const ROUNDS: usize = 8;

/// Starts a call that says the same all the time, and returns its number.
async fn talking(client: &Client, sandbox: &str, words: &str) -> anyhow::Result<String> {
    let script = format!("while :; do echo {words}; sleep 0.05; done");
    let wish = json!({ "script": script, "background": true, "timeout_ms": 60_000 });
    let path = format!("/v1/sandboxes/{sandbox}/calls");
    let made = client.json("POST", &path, &wish).await?.expect(201)?.value()?;
    Ok(made["id"].to_string())
}

fn events(sandbox: &str, call: &str) -> String {
    format!("/v1/sandboxes/{sandbox}/calls/{call}/events")
}

/// BLD-10: the ids of a sandbox and of a call that are over lead to nobody else's lines.
pub(crate) async fn ids_are_used_once(world: &World) -> anyhow::Result<String> {
    let (a, b) = (&world.a, &world.b);
    let first = a.sandbox(&json!({})).await?;
    let call = talking(a, &first, SECRET).await?;
    // The control: the owner's stream carries the lines.
    let mut own = a.open("GET", &events(&first, &call), &[], "").await?;
    own.until(SECRET).await?;
    a.send("DELETE", &format!("/v1/sandboxes/{first}"), "").await?.expect(204)?;
    let mut ids = BTreeSet::from([first.clone()]);
    for _ in 0..ROUNDS {
        let next = b.sandbox(&json!({})).await?;
        ensure!(ids.insert(next.clone()), "the id {next} was used before");
        let number = talking(b, &next, "line-of-tenant-b").await?;
        let mut stream = b.open("GET", &events(&next, &number), &[], "").await?;
        stream.until("line-of-tenant-b").await?;
        ensure!(!stream.seen().contains(SECRET), "the next tenant hears {}", stream.seen());
        b.get(&events(&first, &number)).await?.expect(404)?;
        b.send("DELETE", &format!("/v1/sandboxes/{next}"), "").await?.expect(204)?;
        a.get(&events(&next, &number)).await?.expect(404)?;
        a.get(&events(&first, &call)).await?.expect(404)?;
    }
    // Within one sandbox, too: a number that was used stays that call's.
    let last = a.sandbox(&json!({})).await?;
    let mut numbers = BTreeSet::new();
    for _ in 0..ROUNDS {
        let number = talking(a, &last, SECRET).await?;
        let path = format!("/v1/sandboxes/{last}/calls/{number}");
        a.send("DELETE", &path, "").await?;
        let number: u64 = number.parse().context("a call's number")?;
        ensure!(numbers.insert(number), "the number {number} was used before");
        ensure!(numbers.last() == Some(&number), "the number {number} is smaller than others");
    }
    a.send("DELETE", &format!("/v1/sandboxes/{last}"), "").await?.expect(204)?;
    Ok(format!("{} sandboxes and {ROUNDS} calls, no id twice", ids.len() + 1))
}
