//! A tier is what was asked for, or nothing.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_api::Operation;
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use crate::client::{Client, HANG_LIMIT};
use crate::routes;
use crate::world::World;

/// API-16: a tier that is not there is refused, never replaced.
pub(crate) async fn none_is_replaced(world: &World) -> anyhow::Result<String> {
    for tier in ["process", "native", "none", "JAIL", "oci", "oci/", "oci/sh", "../crun", ""] {
        let answer = world.a.json("POST", "/v1/sandboxes", &json!({ "tier": tier })).await?;
        ensure!(answer.status == 422, "{tier}: {} {}", answer.status, answer.text());
        ensure!(answer.code()? == "invalid_body");
    }
    for operation in [Operation::ForkSandbox, Operation::ForkCheckpoint] {
        let own = world.a.belongings().await?;
        let (_, sample) = routes::own().swap_remove(
            Operation::ALL.iter().position(|other| *other == operation).unwrap_or_default(),
        );
        let answer = world.a.json("POST", &sample.at(&own), &json!({ "tier": "process" })).await?;
        ensure!(answer.status == 422, "{}: {}", sample.name, answer.status);
        // Nor is a copy put behind another wall by way of its name.
        let copy = json!({ "template": own.checkpoint, "tier": "oci/crun" });
        let copy = world.a.json("POST", "/v1/sandboxes", &copy).await?.expect(422)?;
        ensure!(copy.code()? == "tier_fixed", "{}", copy.text());
        world.a.clear(&own).await?;
    }
    let mut said = Vec::new();
    for tier in ["oci/crun", "oci/runsc", "microvm"] {
        said.push(format!("{tier} {}", same_or_none(&world.a, tier).await?));
    }
    // The control: the one that there is everywhere, by name; and the sandbox is so.
    let made = world.a.json("POST", "/v1/sandboxes", &json!({ "tier": "jail" })).await?;
    let made = made.expect(201)?.value()?;
    ensure!(made["tier"] == "jail", "{made}");
    let sandbox = made["id"].as_str().unwrap_or_default();
    let seen =
        world.a.run(sandbox, "readlink /proc/self/ns/user; ls /proc | grep -c '^[0-9]'").await?;
    let own = std::fs::read_link("/proc/self/ns/user")?;
    let text = seen["stdout"]["data"].as_str().unwrap_or_default();
    ensure!(!text.is_empty() && !text.contains(&*own.to_string_lossy()), "{seen}");
    Ok(said.join(", "))
}

/// A sandbox of this very tier, or the word that there is none; nothing else.
async fn same_or_none(client: &Client, tier: &str) -> anyhow::Result<&'static str> {
    let answer = client.json("POST", "/v1/sandboxes", &json!({ "tier": tier })).await?;
    if answer.status != 201 {
        let answer = answer.expect(422)?;
        ensure!(answer.code()? == "tier_unavailable", "{tier}: {}", answer.text());
        ensure!(answer.text().contains(tier), "{}", answer.text());
        let list = client.get("/v1/sandboxes").await?.expect(200)?.value()?;
        ensure!(list["items"] == json!([]), "one was made all the same: {list}");
        return Ok("refused");
    }
    let made = answer.value()?;
    ensure!(made["tier"] == tier, "{tier}: {made}");
    let id = made["id"].as_str().context("no id")?;
    let shown = client.get(&format!("/v1/sandboxes/{id}")).await?.expect(200)?.value()?;
    ensure!(shown["tier"] == tier, "{shown}");
    let kernel = client.run(id, "uname -a; dmesg 2>/dev/null | head -3").await?;
    ensure!(kernel["end"]["reason"] == "done", "{kernel}");
    let own = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let text = kernel["stdout"]["data"].as_str().unwrap_or_default();
    let shares = text.contains(own.trim());
    ensure!(shares == (tier == "oci/crun"), "{tier} has the kernel {text}");
    client.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?;
    let ended = client.get("/v1/ended?limit=1").await?.expect(200)?.value()?;
    ensure!(ended["items"][0]["tier"] == tier, "{ended}");
    Ok("made")
}

/// API-16: neither a request nor a copy gets below a tenant's floor.
pub(crate) async fn floors_hold(world: &World) -> anyhow::Result<String> {
    let (a, b) = (&world.a, &world.b);
    // The control: without a floor, all of this is allowed.
    let jail = json!({ "tier": "jail" });
    let old = b.sandbox(&jail).await?;
    let put_away = b.sandbox(&json!({})).await?;
    let path = format!("/v1/sandboxes/{put_away}/pause");
    b.json("POST", &path, &json!({ "keep": "files" })).await?.expect(200)?;
    let path = format!("/v1/sandboxes/{old}/checkpoints");
    let kept = b.json("POST", &path, &json!({})).await?.expect(201)?.value()?;
    let kept = kept["id"].as_str().context("no checkpoint")?;
    let copies: [(String, Value); 4] = [
        (format!("/v1/sandboxes/{old}/fork"), json!({ "count": 1 })),
        (format!("/v1/checkpoints/{kept}/fork"), json!({})),
        ("/v1/sandboxes".to_owned(), json!({ "template": kept })),
        ("/sandboxes".to_owned(), json!({ "templateID": kept })),
    ];
    for (path, body) in &copies {
        b.json("POST", path, body).await?.expect(201)?;
    }

    world.raise("gvisor")?;
    let begin = Instant::now();
    loop {
        let answer = b.json("POST", "/v1/sandboxes", &jail).await?;
        if answer.status == 422 {
            break;
        }
        ensure_in_time!(
            begin.elapsed() < HANG_LIMIT,
            "the floor was never heard of: {}",
            answer.text()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let before = jails(b).await?;
    for tier in ["jail", "oci/crun", "oci/runc"] {
        let answer =
            b.json("POST", "/v1/sandboxes", &json!({ "tier": tier })).await?.expect(422)?;
        ensure!(answer.code()? == "tier_too_weak", "{}", answer.text());
        let both = answer.text().contains(tier) && answer.text().contains("oci/runsc");
        ensure!(both, "the tiers are not named: {}", answer.text());
    }
    for (path, body) in &copies {
        let answer = b.json("POST", path, body).await?;
        let refused = if path == "/sandboxes" { 400 } else { 422 };
        ensure!(answer.status == refused, "{path}: {} {}", answer.status, answer.text());
        ensure!(answer.text().contains("tier_too_weak"), "{path}: {}", answer.text());
    }
    let path = format!("/v1/sandboxes/{put_away}/resume");
    let back = b.json("POST", &path, &json!({})).await?.expect(422)?;
    ensure!(back.code()? == "tier_too_weak", "{}", back.text());
    // Where nobody names a tier, the floor itself is given, or nothing.
    let raised = [("/v1/sandboxes", json!({})), ("/sandboxes", json!({ "templateID": "base" }))];
    let mut given = "refused";
    for (path, body) in raised {
        let answer = b.json("POST", path, &body).await?;
        if answer.is_success() {
            given = "given";
            let made = answer.value()?;
            let id = made["id"].as_str().or(made["sandboxID"].as_str()).context("no id")?;
            let shown = b.get(&format!("/v1/sandboxes/{id}")).await?.expect(200)?.value()?;
            ensure!(shown["tier"] == "oci/runsc", "{path}: {shown}");
        } else {
            ensure!(answer.text().contains("tier_unavailable"), "{path}: {}", answer.text());
        }
    }
    ensure!(jails(b).await? == before, "one was made below the floor");
    // It is not everybody's floor.
    a.sandbox(&jail).await?;
    Ok(format!("3 tiers, {} copies and a return refused; gVisor {given}", copies.len()))
}

async fn jails(client: &Client) -> anyhow::Result<usize> {
    let list = client.get("/v1/sandboxes").await?.expect(200)?.value()?;
    let items = list["items"].as_array().context("no list")?;
    Ok(items.iter().filter(|item| item["tier"] == "jail").count())
}
