//! Streams: whose events they carry, and when they end.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_testkit::{Undecided, ensure_in_time};
use serde_json::json;

use crate::client::{HANG_LIMIT, Next, Stream};
use crate::world::World;

/// API-03: whose events come follows from the key, whatever the request says.
pub(crate) async fn only_ones_own_events(world: &World) -> anyhow::Result<String> {
    let owned = world.a.sandbox(&json!({})).await?;
    let claims = [
        ("/v1/events".to_owned(), vec![]),
        ("/v1/events?tenant=a&tenant_id=a&organization=a".to_owned(), vec![]),
        (format!("/v1/events?sandbox={owned}"), vec![]),
        (
            "/v1/events".to_owned(),
            vec![("x-tenant", "a"), ("x-team-id", "a"), ("last-event-id", "0")],
        ),
    ];
    let mut listeners = Vec::new();
    for (path, headers) in &claims {
        let stream = world.b.open("GET", path, headers, "").await?;
        ensure!(stream.status == 200, "{path}: {}", stream.status);
        listeners.push(stream);
    }
    let mut owner = world.a.open("GET", "/v1/events", &[], "").await?;
    let of_one = format!("/v1/sandboxes/{owned}/events");
    world.b.get(&of_one).await?.expect(404)?;
    let theirs = world.a.sandbox(&json!({ "metadata": { "secret": "of-a" } })).await?;
    // The control: the owner hears of it, and so do others of what is theirs.
    owner.until(&theirs).await?;
    let own = world.b.sandbox(&json!({})).await?;
    for listener in &mut listeners {
        listener.until(&own).await?;
        ensure!(!listener.seen().contains(&theirs), "told of another's: {}", listener.seen());
    }
    ensure!(!owner.seen().contains(&own), "told of another's: {}", owner.seen());
    Ok(format!("{} ways to claim another tenant, none heard of its sandboxes", claims.len()))
}

/// API-13: a key that is taken away ends what it began.
pub(crate) async fn cut_with_the_key(world: &World) -> anyhow::Result<String> {
    let (a, b) = (&world.a, &world.b);
    let (kept, lost) = (a.sandbox(&json!({})).await?, b.sandbox(&json!({})).await?);
    let endless = json!({ "script": "while :; do date; sleep 0.2; done", "timeout_ms": 600_000 });
    let endless = endless.to_string();
    let events = [("accept", "text/event-stream")];
    let calls = |id: &str| format!("/v1/sandboxes/{id}/calls");
    // One of two keys: its tenant stays, and so do the sandboxes.
    let spare = world.spare();
    let mut cut = vec![
        spare.open("GET", "/v1/events", &[], "").await?,
        spare.open("POST", &calls(&kept), &events, endless.clone()).await?,
        b.open("GET", "/v1/events", &[], "").await?,
        b.open("POST", &calls(&lost), &events, endless.clone()).await?,
    ];
    let mut control = [
        a.open("GET", "/v1/events", &[], "").await?,
        a.open("POST", &calls(&kept), &events, endless).await?,
    ];
    for running in [1, 3] {
        cut[running].until("stdout").await?;
    }
    control[1].until("stdout").await?;
    // One that waits for its answer, too.
    let waiting = {
        let (b, path) = (b.clone(), calls(&lost));
        // Far longer than anybody waits here.
        let body = json!({ "script": "sleep 600", "timeout_ms": 600_000 });
        tokio::spawn(async move { b.json("POST", &path, &body).await })
    };
    let begin = Instant::now();
    world.revoke()?;
    for stream in &mut cut {
        closed(stream, begin).await?;
    }
    let answer = tokio::time::timeout(HANG_LIMIT, waiting).await.context("still waiting")??;
    if let Ok(answer) = answer {
        // Either it was turned away, or told that its sandbox went away.
        let lost = answer.is_success() && answer.value()?["end"]["reason"] != "done";
        ensure!(answer.status == 401 || lost, "{} {}", answer.status, answer.text());
    }
    let took = begin.elapsed();
    for revoked in [b, &spare] {
        revoked.get("/v1/sandboxes").await?.expect(401)?;
    }
    // The sandboxes are reaped: nobody is left who could end them.
    let reaped = format!("/v1/sandboxes/{kept}/calls");
    a.get(&reaped).await?.expect(200)?;
    gone(&lost, begin).await?;
    // The control: whoever still has a key goes on.
    let before = control[1].seen().len();
    control[1].next(HANG_LIMIT).await;
    ensure!(control[1].seen().len() > before, "the other tenant's stream stopped, too");
    ensure!(control[0].next(Duration::from_millis(300)).await != Next::Closed);
    Ok(format!("streams cut after {:.1} s, sandbox reaped", took.as_secs_f64()))
}

async fn closed(stream: &mut Stream, begin: Instant) -> anyhow::Result<()> {
    loop {
        let left = HANG_LIMIT.saturating_sub(begin.elapsed());
        match stream.next(left).await {
            Next::Closed => return Ok(()),
            Next::Silence => ensure_in_time!(false, "still open after {HANG_LIMIT:?}"),
            Next::Text => {}
        }
    }
}

/// Waits until no cgroup bears the sandbox's name any more.
async fn gone(id: &str, begin: Instant) -> anyhow::Result<()> {
    while begin.elapsed() < HANG_LIMIT {
        if !is_alive(id)? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Undecided("the sandbox is still there".to_owned()).into())
}

/// Whether a process of the host is in a cgroup of this name.
fn is_alive(id: &str) -> anyhow::Result<bool> {
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path().join("cgroup");
        if std::fs::read_to_string(path).is_ok_and(|groups| groups.contains(id)) {
            return Ok(true);
        }
    }
    Ok(false)
}
