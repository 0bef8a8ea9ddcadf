//! Cursors of lists and streams that belong to another tenant.

use anyhow::{Context as _, ensure};
use serde_json::json;

use crate::client::Client;
use crate::world::World;

/// API-04: a foreign or tampered cursor is refused, or applied to the caller's own items.
pub(crate) async fn are_ones_own(world: &World) -> anyhow::Result<String> {
    let (a, b) = (&world.a, &world.b);
    let mut theirs = Vec::new();
    for _ in 0..3 {
        theirs.push(a.sandbox(&json!({})).await?);
    }
    let own = b.sandbox(&json!({})).await?;
    let first = a.get("/v1/sandboxes?limit=1").await?.expect(200)?.value()?;
    let next = first["next"].as_str().context("a page without a next one")?.to_owned();
    // The control: the cursor gives its owner the next page.
    let second = a.get(&format!("/v1/sandboxes?limit=1&after={next}")).await?.expect(200)?;
    let follows = theirs.iter().any(|id| second.text().contains(id.as_str()));
    ensure!(follows && second.value()? != first, "{}", second.text());
    let tampered = [next.clone(), next[..next.len() / 2].to_owned(), format!("{next}a")];
    let hostile =
        ["-1", "99999999999999999999", "%00", "null", "a'--", "%ff%fe", "../../x", "e30="];
    let mut tried = 0;
    for cursor in tampered.iter().map(String::as_str).chain(hostile) {
        for list in [
            "/v1/sandboxes?limit=100&after=",
            "/v1/checkpoints?after=",
            "/v1/runs?after=",
            "/v2/sandboxes?nextToken=",
            "/secrets?nextToken=",
        ] {
            shows_none(b, &format!("{list}{cursor}"), &theirs).await?;
            tried += 1;
        }
    }
    // Another tenant's stream, resumed.
    let events = [("last-event-id", "0")];
    for path in [
        format!("/v1/sandboxes/{}/connections", theirs[0]),
        format!("/v1/sandboxes/{}/events", theirs[0]),
    ] {
        let answer = b.send_with("GET", &path, &events, "").await?;
        ensure!(answer.status == 404, "{path}: {}", answer.status);
    }
    for id in ["-1", "99999999999999999999", "x\u{e9}", "0; drop"] {
        let path = format!("/v1/sandboxes/{own}/connections");
        let answer = b.send_with("GET", &path, &[("last-event-id", id)], "").await?;
        ensure!(answer.status < 500, "{id}: {} {}", answer.status, answer.text());
        tried += 1;
    }
    Ok(format!("{tried} cursors, none shows what is another's"))
}

async fn shows_none(who: &Client, path: &str, theirs: &[String]) -> anyhow::Result<()> {
    let answer = who.get(path).await?;
    ensure!(answer.status < 500, "{path}: {} {}", answer.status, answer.text());
    let text = answer.text();
    ensure!(!theirs.iter().any(|id| text.contains(id.as_str())), "{path}: {text}");
    Ok(())
}
