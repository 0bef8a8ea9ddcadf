//! Charges of another tenant.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::SandboxId;
use belljar_domain::network::{Bytes, Charge, Decision, Kind, Reason};
use belljar_domain::rows::{AttributedRow, ConnectionRow, RowBody};
use belljar_journal::RowStore as _;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::authorization::EVERYTHING;
use crate::client::{Client, HANG_LIMIT};
use crate::platform::Platform;
use crate::world::World;

/// API-04/usage: a tenant sees its own charges alone.
pub(crate) async fn is_ones_own(world: &World) -> anyhow::Result<String> {
    charge_a_sandbox(&world.a, &world.b).await
}

/// API-04/usage/platform: the same, by control and from the database, and for answers of models.
pub(crate) async fn is_ones_own_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let seen = Box::pin(charge_a_sandbox(&a, &b)).await?;
    // An answer without a price is charged too, and one that comes twice is charged once.
    let answers = [answer("one", 0), answer("two", 7)];
    platform.store.rows().put(&answers).await?;
    platform.store.rows().put(&answers).await?;
    let models = of_account(&usage(&a, "?by=account").await?, "models")["used"].clone();
    ensure!(models["charges"] == 2 && models["tokens"]["output"] == 10, "{models}");
    ensure!(models["nano_dollars"] == 7, "{models}");
    let theirs = usage(&b, "?by=model").await?;
    ensure!(theirs["items"] == json!([]), "charges of another tenant: {theirs}");
    platform.stop().await?;
    Ok(format!("{seen}; two answers, each charged once"))
}

/// Ends a sandbox of `a`, and waits until its time is charged.
async fn charge_a_sandbox(a: &Client, b: &Client) -> anyhow::Result<String> {
    let before = (sandbox_ms(a, "").await?, sandbox_ms(b, "").await?);
    let id = a.sandbox(&json!({})).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    a.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?.expect(204)?;
    let begin = Instant::now();
    let charged = loop {
        let charged = sandbox_ms(a, "").await? - before.0;
        if charged > 0 {
            break charged;
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "the sandbox is not charged");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    ensure!((100..=60_000).contains(&charged), "{charged} ms were charged");
    for query in ["", "?by=account", "?by=run,day"] {
        let theirs = sandbox_ms(b, query).await?;
        ensure!(theirs == before.1, "{query}: {theirs} ms of another tenant");
    }
    for query in ["?by=tenant", "?tenant=a", "?run=x", "?by=colour", "?limit=0"] {
        b.get(&format!("/v1/usage{query}")).await?.expect(422)?;
    }
    // Sums of groups are the total.
    let whole = usage(a, "?by=account,day").await?;
    let items = whole["items"].as_array().context("no groups")?;
    let sum: u64 = items.iter().filter_map(|item| item["used"]["sandbox_ms"].as_u64()).sum();
    ensure!(whole["total"]["sandbox_ms"] == sum, "{whole}");
    Ok(format!("{charged} ms of a sandbox, seen by its owner alone"))
}

async fn usage(who: &Client, query: &str) -> anyhow::Result<Value> {
    who.get(&format!("/v1/usage{query}")).await?.expect(200)?.value()
}

async fn sandbox_ms(who: &Client, query: &str) -> anyhow::Result<u64> {
    let usage = usage(who, query).await?;
    usage["total"]["sandbox_ms"].as_u64().context("no sandbox time")
}

fn of_account(usage: &Value, account: &str) -> Value {
    let mut items = usage["items"].as_array().into_iter().flatten();
    items.find(|item| item["account"] == account).cloned().unwrap_or_default()
}

/// A row of a request that the worker of a run of `a` made.
fn answer(id: &str, nano_dollars: u64) -> AttributedRow {
    let charge = Charge { model: "m".to_owned(), output: 5, nano_dollars, ..Charge::default() };
    let began = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    AttributedRow {
        id: format!("usage-{id}"),
        tenant: "a".to_owned(),
        sandbox: SandboxId::from_random([9; 16]),
        attribution: None,
        began: u64::try_from(began.as_micros()).unwrap_or_default(),
        micros: 1,
        body: RowBody::Connection(ConnectionRow {
            sequence: 1,
            kind: Kind::Operation,
            decision: Decision::Allowed,
            reason: Reason::Operation,
            host: None,
            port: None,
            operation: Some("llm".to_owned()),
            method: None,
            path: None,
            status: Some(200),
            bytes: Bytes { out: 1, into: 1 },
            charge: Some(charge),
            is_late: false,
        }),
    }
}
