//! Clients that come again, come all at once, or contradict themselves.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::case::{Case, until};
use crate::client::{Client, reaching};
use crate::evidence::Outcome;
use crate::rig::server::{KEY, Options};

/// F-49: a listener leaves and comes again, a hundred times.
pub(crate) async fn comes_again(case: &mut Case) -> anyhow::Result<String> {
    let (client, oracle) = case.serve_with_oracle(Options::default()).await?;
    let id = client.make_with(&reaching(oracle)).await?;
    ensure!(client.effect(&id, oracle).await == Outcome::Done, "effects do not arrive");
    let path = format!("/v1/sandboxes/{id}/calls");
    let script = "i=0; while [ $i -lt 600 ]; do echo line $i; i=$((i+1)); sleep 0.02; done";
    let (_, call) = client.post(&path, &json!({ "script": script, "background": true })).await;
    let call = call["id"].as_u64().context("no call")?;
    let pid = case.server()?.pid();
    let before = Case::settled(pid).await;
    let events = format!("{path}/{call}/events");
    let mut heard = 0;
    for _ in 0..100 {
        let text = Box::pin(listen(&client, &events, Duration::from_millis(60))).await?;
        heard += usize::from(text.contains("event:"));
    }
    ensure!(heard > 50, "only {heard} of 100 listeners heard anything");
    // One that stays hears the end.
    let text = Box::pin(listen(&client, &events, Duration::from_secs(30))).await?;
    ensure!(text.contains("event: end"), "the end was not told: {text}");
    let after = Case::settled(pid).await;
    case.compare(before, after, 30 << 10);
    Ok(format!("100 listeners left in the middle, {heard} had heard something; the end was told"))
}

/// What comes on a stream for so long, or until it ends.
async fn listen(client: &Client, path: &str, time: Duration) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(client.address).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nx-api-key: {KEY}\r\nlast-event-id: 7\r\n\r\n",
        client.address
    );
    stream.write_all(head.as_bytes()).await?;
    let mut text = Vec::new();
    let began = Instant::now();
    let mut piece = [0; 16 << 10];
    while let Some(left) = time.checked_sub(began.elapsed()) {
        match tokio::time::timeout(left, stream.read(&mut piece)).await {
            Ok(Ok(count)) if count > 0 => text.extend_from_slice(&piece[..count]),
            _ => break,
        }
        if text.ends_with(b"0\r\n\r\n") {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// F-50: the same request ten times at once, under one key.
pub(crate) async fn same_key(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let made = at_once(&client, true).await?;
    ensure!(made > 0, "nobody got a sandbox");
    Ok(format!("5 times 10 requests at once, {made} answered with a sandbox"))
}

/// The same without the key: to the server these are different requests.
pub(crate) async fn no_key(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    at_once(&client, false).await?;
    Ok("no key was sent".to_owned())
}

async fn at_once(client: &Client, keyed: bool) -> anyhow::Result<usize> {
    let mut made = 0;
    for round in 0..5 {
        let key = format!("same-{round}");
        let mut asked = Vec::new();
        for _ in 0..10 {
            let (client, key) = (client.clone(), key.clone());
            asked.push(tokio::spawn(async move {
                let sent = if keyed { key.clone() } else { format!("{key}-{}", unique()) };
                let mut outcome = client.create(Some(&sent)).await;
                // Whoever hears that it is under way asks again.
                while matches!(&outcome, Outcome::Refused { status: 409, .. }) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    outcome = client.create(Some(&sent)).await;
                }
                (key, outcome)
            }));
        }
        let mut ids = std::collections::BTreeSet::new();
        for one in asked {
            let (_, outcome) = one.await?;
            if let Outcome::Made(id) = outcome {
                made += 1;
                ids.insert(id);
            }
        }
        if !keyed {
            // What the checker is shown: the same request, many sandboxes.
            for id in ids {
                client.history.pretend(&key, &id);
            }
        }
    }
    Ok(made)
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MADE: AtomicU64 = AtomicU64::new(0);
    MADE.fetch_add(1, Ordering::Relaxed)
}

/// F-51: delete against a call, pause against a call, delete against delete.
pub(crate) async fn races(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let mut ends = 0;
    for round in 0..24_u64 {
        let id = client.make().await?;
        let calling = tokio::spawn({
            let (client, id) = (client.clone(), id.clone());
            async move { client.call(&id, "sleep 0.03; echo done").await.0 }
        });
        tokio::time::sleep(Duration::from_millis(round * 3)).await;
        let path = format!("/v1/sandboxes/{id}");
        match round % 3 {
            0 => {
                let pair = (client.delete(&id), client.delete(&id));
                let (one, other) = tokio::join!(pair.0, pair.1);
                let done = [&one, &other].iter().filter(|it| ***it == Outcome::Done).count();
                ensure!(done >= 1, "neither delete worked: {one:?}, {other:?}");
                ends += 1;
            }
            1 => {
                let (paused, _) = client.post(&format!("{path}/pause"), &json!({})).await;
                let (resumed, _) = client.post(&format!("{path}/resume"), &json!({})).await;
                let both = [&paused, &resumed];
                let odd = both.iter().find(|it| matches!(it, Outcome::Strange { .. }));
                ensure!(odd.is_none(), "{odd:?}");
            }
            _ => {
                let pausing = format!("{path}/pause");
                let body = json!({});
                let pair = (client.post(&pausing, &body), client.delete(&id));
                let ((_, _), deleted) = tokio::join!(pair.0, pair.1);
                let fine = matches!(&deleted, Outcome::Done | Outcome::Refused { .. });
                ensure!(fine, "{deleted:?}");
            }
        }
        let _ = calling.await?;
        client.delete(&id).await;
    }
    let left = client.plain("GET", "/v1/sandboxes", None).await?.1;
    ensure!(left["items"] == Value::Array(Vec::new()), "some are left: {left}");
    Ok(format!("24 races, {ends} of them between two deletes"))
}

/// F-52: many reach their deadline in the same second.
pub(crate) async fn all_expire(case: &mut Case) -> anyhow::Result<String> {
    const COUNT: usize = 150;
    let client = case.serve(Options::default()).await?;
    let mut made = Vec::new();
    for _ in 0..COUNT {
        made.push(client.make().await?);
    }
    let began = Instant::now();
    for id in &made {
        let body = json!({ "timeout_seconds": 3 });
        let (status, said) =
            client.plain("PATCH", &format!("/v1/sandboxes/{id}"), Some(&body)).await?;
        ensure!(status == 200, "{status}: {said}");
    }
    let set = began.elapsed();
    let state = case.server()?.state.clone();
    let after =
        until("all are gone", async || crate::rig::host::inhabited(&state).is_empty()).await?;
    case.heal(&client).await?;
    let (set, after) = (set.as_secs_f64(), after.as_secs_f64());
    Ok(format!("{COUNT} deadlines within {set:.1} s, all gone {after:.1} s after the last was set"))
}

/// F-60: keys are replaced under load, and once by something unreadable.
pub(crate) async fn keys_change(case: &mut Case) -> anyhow::Result<String> {
    let client = case.serve(Options::default()).await?;
    let file = case.rig.dir.join("keys");
    let other = "e2b_0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";
    let works = async |key: &str| {
        let client = Client { key: key.to_owned(), ..client.clone() };
        client.plain("GET", "/v1/sandboxes", None).await.is_ok_and(|(status, _)| status == 200)
    };
    let id = client.make().await?;
    // Nobody can read this: the old keys stay, and nobody else gets in.
    std::fs::write(&file, "this is \u{0} no key file {{{\n")?;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    ensure!(works(KEY).await, "a file that cannot be read took every key away");
    case.probe("a key of nobody", works(other).await);
    let tenant = crate::rig::server::TENANT;
    std::fs::write(&file, format!("{KEY} {tenant}\n{other} {tenant}\n"))?;
    until("both keys open", async || works(other).await && works(KEY).await).await?;
    client.run(&id, "true").await?;
    std::fs::write(&file, format!("{other} {tenant}\n"))?;
    let dead = until("the old key is dead", async || !works(KEY).await).await?;
    case.probe("the key that was taken away", works(KEY).await);
    let new = Client { key: other.to_owned(), ..client.clone() };
    new.run(&id, "true").await?;
    new.delete(&id).await;
    std::fs::write(&file, format!("{KEY} {tenant}\n"))?;
    until("the first key opens again", async || works(KEY).await).await?;
    Ok(format!("the old key was dead after {:.1} s", dead.as_secs_f64()))
}
