//! The bus: away, forgetful, mute. It may lose anything, and nothing is lost.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::platform::begin;
use crate::case::{Case, HANG_LIMIT, until};
use crate::client::Client;
use crate::evidence::Outcome;
use crate::load::Load;
use crate::rig::cluster::Shape;
use crate::rig::proxy::Manner;

/// What the stream of the outbox says of itself: how many messages it has.
async fn streamed(url: &str) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(url.trim_start_matches("nats://")).await?;
    let ask = "CONNECT {\"verbose\":false}\r\nSUB _INBOX.faults 1\r\n\
               PUB $JS.API.STREAM.INFO.belljar-outbox _INBOX.faults 0\r\n\r\nPING\r\n";
    stream.write_all(ask.as_bytes()).await?;
    let mut text = String::new();
    let mut piece = [0; 16 << 10];
    let read = async {
        while !text.contains("\"messages\":") {
            let count = stream.read(&mut piece).await?;
            ensure!(count > 0, "the bus hung up");
            text.push_str(&String::from_utf8_lossy(&piece[..count]));
            ensure!(!text.contains("\"error\":"), "{text}");
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(HANG_LIMIT, read).await.context("the bus does not answer")??;
    let json = text.rsplit_once("MSG ").map_or("", |(_, rest)| rest);
    let begin = json.find('{').context("no answer")?;
    let mut values = serde_json::Deserializer::from_str(&json[begin..]).into_iter::<Value>();
    let info = values.next().context("no answer")??;
    info["state"]["messages"].as_u64().context("no count")
}

/// Waits until nothing waits, and every message is in the stream, once.
async fn drained(case: &mut Case) -> anyhow::Result<(Duration, u64)> {
    let cluster = case.cluster.as_ref().context("no cluster")?;
    let unsent = "select count(*) from outbox where published_at is null";
    let took = until("the outbox is empty", async || {
        cluster.postgres.sql(unsent).is_ok_and(|count| count.trim() == "0")
    })
    .await?;
    let mut count = 0;
    for url in cluster.nats.urls() {
        if let Ok(messages) = Box::pin(streamed(&url)).await {
            count = messages;
            break;
        }
    }
    Ok((took, count))
}

/// F-14: one, two, then all three servers of the bus are killed.
pub(crate) async fn killed(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    let oracle = case.cluster()?.oracle.address;
    let load = Load::begin(&clients, oracle, 2);
    for number in 0..3 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        case.cluster()?.nats.kill(number);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let during = load.made();
    let did = load.end().await?;
    ensure!(did.refused == 0 && did.unknown == 0, "somebody noticed: {did}");
    ensure!(during > 4, "hardly anything was asked for: {did}");
    for number in 0..3 {
        case.cluster()?.nats.restart(number)?;
    }
    let (took, count) = Box::pin(drained(case)).await?;
    let rows = case.cluster()?.postgres.sql("select count(*) from outbox")?;
    ensure!(count >= rows.trim().parse()?, "{count} of {} messages are in the stream", rows.trim());
    case.heal(&clients[0]).await?;
    Ok(format!("{did}; {count} messages were in the stream {:.1} s after", took.as_secs_f64()))
}

async fn end_some(clients: &[Client], count: usize) -> anyhow::Result<()> {
    for turn in 0..count {
        let id = clients[turn % clients.len()].make().await?;
        ensure!(clients[turn % clients.len()].delete(&id).await == Outcome::Done, "not ended");
    }
    Ok(())
}

/// F-15: all that the bus had written is gone.
pub(crate) async fn wiped(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    end_some(&clients, 8).await?;
    let (_, before) = Box::pin(drained(case)).await?;
    ensure!(before >= 8, "only {before} messages are in the stream");
    for number in 0..3 {
        case.cluster()?.nats.wipe(number)?;
    }
    end_some(&clients, 4).await?;
    for number in 0..3 {
        case.cluster()?.nats.restart(number)?;
    }
    let cluster = case.cluster.as_ref().context("no cluster")?;
    let mut count = 0;
    let took = until("the stream is filled again", async || {
        for url in cluster.nats.urls() {
            count = count.max(Box::pin(streamed(&url)).await.unwrap_or_default());
        }
        count >= before + 4
    })
    .await
    .with_context(|| format!("{count} messages are there, {before} were before"))?;
    Box::pin(drained(case)).await?;
    case.heal(&clients[0]).await?;
    Ok(format!("{before} messages lost, {count} there again after {:.1} s", took.as_secs_f64()))
}

/// F-18: messages arrive, and no acknowledgement comes back.
pub(crate) async fn mute(case: &mut Case) -> anyhow::Result<String> {
    let clients = begin(case, Shape::default()).await?;
    end_some(&clients, 2).await?;
    Box::pin(drained(case)).await?;
    for proxy in &case.cluster()?.nats_proxies {
        proxy.behave(Manner::LoseReplies);
    }
    end_some(&clients, 6).await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let swallowed: u64 = case.cluster()?.nats_proxies.iter().map(|proxy| proxy.swallowed()).sum();
    for proxy in &case.cluster()?.nats_proxies {
        proxy.behave(Manner::Pass);
        proxy.cut();
    }
    let (took, count) = Box::pin(drained(case)).await?;
    let rows: u64 = case.cluster()?.postgres.sql("select count(*) from outbox")?.trim().parse()?;
    ensure!(swallowed > 0, "no answer was lost");
    ensure!(count >= rows, "{count} of {rows} messages are in the stream");
    let twice = count - rows;
    case.effects = None;
    case.probe(format!("{twice} messages twice in the stream"), twice > 0);
    case.heal(&clients[0]).await?;
    let took = took.as_secs_f64();
    Ok(format!("{swallowed} answers lost; {count} messages for {rows} rows, {took:.1} s after"))
}
