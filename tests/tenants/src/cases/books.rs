//! The platform's books: closed tenants, idempotency keys, ends, and links without a sandbox.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_api::sandbox::EndedList;
use belljar_domain::{EndReason, NodeNumber, SandboxId};
use belljar_store::NewSandbox;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::authorization::EVERYTHING;
use crate::client::{Client, HANG_LIMIT, Next};
use crate::platform::Platform;
use crate::world::World;

/// API-13/closed: what a closed tenant had ends, and nobody else's.
pub(crate) async fn close_with_their_tenant(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(close(&platform)).await;
    platform.stop().await?;
    seen
}

async fn close(platform: &Platform) -> anyhow::Result<String> {
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let (gone, stays) = (a.sandbox(&json!({})).await?, b.sandbox(&json!({})).await?);
    let (token, other) = (token(&a, &gone).await?, token(&b, &stays).await?);
    let nobody = platform.client(None);
    let at = |id: &str| format!("/v1/sandboxes/{id}/files?path=/tmp");
    let shown = async |id: &str, token: &str| -> anyhow::Result<u16> {
        Ok(nobody.send_with("GET", &at(id), &[("x-access-token", token)], "").await?.status)
    };
    ensure!(shown(&gone, &token).await? == 200 && shown(&stays, &other).await? == 200);
    let mut stream = a.open("GET", "/v1/events", &[], "").await?;
    let began = Instant::now();
    platform.store.close_tenant("a").await?;
    while shown(&gone, &token).await? == 200 {
        ensure!(began.elapsed() < HANG_LIMIT, "its sandbox is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = began.elapsed();
    while stream.next(HANG_LIMIT).await != Next::Closed {
        ensure!(began.elapsed() < HANG_LIMIT, "its stream is still open");
    }
    let closed = platform.store.tenants().await?;
    let closed = closed.iter().find(|entry| entry.tenant.name == "a").context("no tenant")?;
    ensure!(closed.tenant.used == 0, "{} places are taken", closed.tenant.used);
    // The control: the other tenant has what it had.
    ensure!(shown(&stays, &other).await? == 200, "another tenant's sandbox ended");
    b.run(&stays, "true").await?;
    Ok(format!("its sandbox ended {:.1} s after it was closed", took.as_secs_f64()))
}

async fn token(client: &Client, sandbox: &str) -> anyhow::Result<String> {
    let shown = client.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?.value()?;
    Ok(shown["access_token"].as_str().context("no token")?.to_owned())
}

/// API-14/once: one idempotency key for two requests that differ by their path alone.
pub(crate) async fn keys_are_for_one_path(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let seen = Box::pin(one_key(&platform.client(Some(&a)))).await;
    platform.stop().await?;
    seen
}

async fn one_key(client: &Client) -> anyhow::Result<String> {
    let original = client.sandbox(&json!({})).await?;
    let mut kept = Vec::new();
    for content in ["one", "two"] {
        client.run(&original, &format!("echo {content} > /tmp/which")).await?;
        let path = format!("/v1/sandboxes/{original}/checkpoints");
        let made = client.json("POST", &path, &json!({})).await?.expect(201)?.value()?;
        kept.push(made["id"].as_str().context("no checkpoint")?.to_owned());
    }
    let fork = async |checkpoint: &str| {
        let path = format!("/v1/checkpoints/{checkpoint}/fork");
        client.send_with("POST", &path, &[("idempotency-key", "same")], "{}").await
    };
    let first = fork(&kept[0]).await?.expect(201)?.value()?;
    // The control: the same request again is the same sandbox.
    let again = fork(&kept[0]).await?;
    ensure!(again.is_success() && again.value()?["id"] == first["id"], "{}", again.text());
    let other = fork(&kept[1]).await?;
    ensure!(other.status == 409, "{} for another path: {}", other.status, other.text());
    other.code()
}

/// API-19/ended: the list of ends has the form that it is described with.
pub(crate) async fn ends_are_as_described(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(ends(&platform)).await;
    platform.stop().await?;
    seen
}

async fn ends(platform: &Platform) -> anyhow::Result<String> {
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let client = platform.client(Some(&a));
    // One that ended before its node ever spoke of it, and one that its node knew.
    let nodes = platform.store.nodes().await?;
    let node = nodes.first().and_then(|node| NodeNumber::new(node.number)).context("no node")?;
    let id = SandboxId::on_node(node, [7; 16]);
    let new = NewSandbox {
        id: &id,
        tenant: "a",
        template: "base",
        tier: None,
        facts: &Value::Null,
        request: None,
    };
    platform.store.admit(&new, node).await?;
    platform.store.end("a", &id, None, EndReason::Lost).await?;
    let known = client.sandbox(&json!({})).await?;
    let reported = Instant::now();
    while platform.store.sandbox("a", &known.parse()?).await?.is_none_or(|row| row.tier.is_none()) {
        ensure_in_time!(reported.elapsed() < HANG_LIMIT, "its node says nothing of it");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.send("DELETE", &format!("/v1/sandboxes/{known}"), "").await?.expect(204)?;
    let answer = client.get("/v1/ended").await?.expect(200)?;
    let list: EndedList = serde_json::from_slice(&answer.body).with_context(|| answer.text())?;
    ensure!(list.items.len() == 2, "{}", answer.text());
    let tiers = answer.value()?;
    let null = tiers["items"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|item| item.as_object().is_some_and(|item| item.values().any(Value::is_null)));
    ensure!(!null, "a field is null: {tiers}");
    Ok("two ends, one of them without a tier, as described".to_owned())
}

/// API-21/links: a link without a well-formed signature opens nothing, and a good one what it
/// was made for.
pub(crate) async fn links_are_signed(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(links(&platform)).await;
    platform.stop().await?;
    seen
}

/// As E2B's SDKs sign: with Python's own libraries, inside a sandbox.
const SIGN: &str = "import hashlib, base64, sys
text = f'{sys.argv[1]}:read:user:{sys.argv[2]}'
made = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')
from urllib.parse import quote
print(quote('v1_' + made, safe=''))";

async fn links(platform: &Platform) -> anyhow::Result<String> {
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let client = platform.client(Some(&a));
    let id = client.sandbox(&json!({})).await?;
    client.run(&id, "echo linked > /home/user/file").await?;
    let token = token(&client, &id).await?;
    let path = "/home/user/file";
    let signed = json!({ "argv": ["python3", "-c", SIGN, path, token] });
    let signed = client.json("POST", &format!("/v1/sandboxes/{id}/calls"), &signed).await?;
    let signed = signed.expect(200)?.value()?;
    let signature = signed["stdout"]["data"].as_str().context("no signature")?.trim().to_owned();
    let to = |signature: &str| format!("/files?path={path}&username=user{signature}");
    let wrong = format!("v1_{}", "A".repeat(43));
    let mut refused = 0;
    for address in [platform.control, platform.public] {
        let nobody = Client { address, key: None };
        for bad in [
            String::new(),
            "&signature=".to_owned(),
            "&signature=v1_".to_owned(),
            format!("&signature={}", &signature[..signature.len() - 1]),
            format!("&signature={signature}A"),
            format!("&signature=v2_{}", signature.trim_start_matches("v1_")),
            format!("&signature={wrong}"),
        ] {
            let answer = nobody.get(&to(&bad)).await?;
            ensure!(answer.status == 401, "{bad}: {} {}", answer.status, answer.text());
            refused += 1;
        }
        // The control: a good one.
        let answer = nobody.get(&to(&format!("&signature={signature}"))).await?.expect(200)?;
        ensure!(answer.text() == "linked\n", "{}", answer.text());
    }
    Ok(format!("{refused} links refused, a good one opened its file"))
}
