//! What a request promises is kept.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::network;
use crate::client::{Client, HANG_LIMIT};
use crate::world::World;

/// What is tried below, for each field of a request that makes a sandbox.
const FIELDS: [&str; 13] = [
    "auto_resume",
    "data",
    "env",
    "limits",
    "metadata",
    "network",
    "on_timeout",
    "operations",
    "private_traffic",
    "profile",
    "template",
    "tier",
    "timeout_seconds",
];

/// API-19: each field that is accepted has an effect that can be seen.
pub(crate) async fn each_field_is_kept(world: &World) -> anyhow::Result<String> {
    let document = world.nobody.get("/v1/openapi.json").await?.expect(200)?.value()?;
    let described = &document["components"]["schemas"]["CreateSandbox"]["properties"];
    let described: Vec<&String> = described.as_object().context("no fields")?.keys().collect();
    ensure!(described == FIELDS, "a field has no attack: {described:?}");
    let a = &world.a;
    template_and_env(a).await?;
    metadata(a).await?;
    deadlines(a).await?;
    private_traffic(world).await?;
    network::policies_hold(a).await?;
    network::operations_hold(a).await?;
    datasets(a).await?;
    profiles(a).await?;
    limits(a).await?;
    call_limits(a).await?;
    Ok(format!("{} fields of a sandbox, 4 of a call", FIELDS.len()))
}

async fn template_and_env(a: &Client) -> anyhow::Result<()> {
    let none = a.json("POST", "/v1/sandboxes", &json!({ "template": "no-such" })).await?;
    ensure!(none.expect(404)?.code()? == "template_not_found");
    let sandbox = a.sandbox(&json!({ "env": { "OWN": "kept" } })).await?;
    let seen = a.run(&sandbox, "echo $OWN").await?;
    ensure!(seen["stdout"]["data"] == "kept\n", "{seen}");
    let path = format!("/v1/sandboxes/{sandbox}/contexts/python/cells");
    let cell = json!({ "code": "import os; print(os.environ.get('OWN'))" });
    let cell = a.json("POST", &path, &cell).await?.expect(200)?.value()?;
    ensure!(cell["stdout"] == "kept\n", "{cell}");
    Ok(())
}

/// A server shows files of nobody's: what is asked for is refused, whatever it is
/// called, and never left out of a sandbox that is made all the same.
async fn datasets(a: &Client) -> anyhow::Result<()> {
    let content = "region,amount\nnorth,1\n";
    let kept = a.send("POST", "/v1/data", content).await?.expect(201)?.value()?;
    let own = kept["sha256"].as_str().context("no digest")?;
    let count = async || -> anyhow::Result<usize> {
        let list = a.get("/v1/sandboxes").await?.expect(200)?.value()?;
        Ok(list["items"].as_array().context("no list")?.len())
    };
    let before = count().await?;
    let none = "0".repeat(64);
    let one = |n| json!({ "name": format!("{n}.csv"), "sha256": own });
    let many: Vec<Value> = (0..33).map(one).collect();
    for (data, status) in [
        (json!([{ "name": "a.csv", "sha256": own }]), 404),
        (json!([{ "name": "a.csv", "sha256": none }]), 404),
        (json!([{ "name": "../../etc/passwd", "sha256": own }]), 422),
        (json!([{ "name": "a.csv", "sha256": "../../../../../etc/passwd" }]), 422),
        (json!([{ "name": "a.csv", "sha256": own.to_uppercase() }]), 422),
        (json!([{ "name": "", "sha256": own }]), 422),
        (json!(vec![json!({ "name": "a.csv", "sha256": own }); 2]), 422),
        (json!([{ "name": "a.csv", "sha256": own, "path": "/etc/passwd" }]), 422),
        (json!(many), 422),
        (json!("/etc/passwd"), 422),
    ] {
        let refused = a.json("POST", "/v1/sandboxes", &json!({ "data": data })).await?;
        ensure!(refused.status == status, "{data}: {}", refused.status);
    }
    let weaker = json!({ "tier": "gvisor", "data": [{ "name": "a.csv", "sha256": own }] });
    let refused = a.json("POST", "/v1/sandboxes", &weaker).await?;
    ensure!((400..500).contains(&refused.status), "gvisor: {}", refused.status);
    ensure!(count().await? == before, "a sandbox was made without its data");
    Ok(())
}

/// Root has the rights of the profile, and no others.
async fn profiles(a: &Client) -> anyhow::Result<()> {
    let mut rights = Vec::new();
    for profile in ["strict", "full"] {
        let sandbox = a.sandbox(&json!({ "profile": profile })).await?;
        let shown = a.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?.value()?;
        ensure!(shown["profile"] == profile, "{shown}");
        let path = format!("/v1/sandboxes/{sandbox}/calls");
        let call = json!({ "argv": ["grep", "CapEff", "/proc/self/status"], "user": "root" });
        let seen = a.json("POST", &path, &call).await?.expect(200)?.value()?;
        rights.push(seen["stdout"]["data"].clone());
    }
    ensure!(rights[0] == "CapEff:\t0000000000000000\n", "strict: {}", rights[0]);
    ensure!(rights[0] != rights[1], "full: {}", rights[1]);
    Ok(())
}

/// A limit that is chosen is in force, and the others are the template's.
async fn limits(a: &Client) -> anyhow::Result<()> {
    let plain = a.json("POST", "/v1/sandboxes", &json!({})).await?.expect(201)?.value()?;
    let chosen = json!({ "pids": 40, "wall_ms": 700 });
    let made = a.json("POST", "/v1/sandboxes", &json!({ "limits": chosen })).await?;
    let made = made.expect(201)?.value()?;
    let mut want = plain["limits"].clone();
    (want["pids"], want["wall_ms"]) = (json!(40), json!(700));
    ensure!(made["limits"] == want, "{made}");
    let slow = json!({ "argv": ["sleep", "30"] });
    let path = format!("/v1/sandboxes/{}/calls", made["id"].as_str().context("no id")?);
    let late = a.json("POST", &path, &slow).await?.expect(200)?.value()?;
    ensure!(late["end"]["reason"] == "timeout_wall", "{late}");
    let script = "for n in $(seq 80); do sleep 1 & done; wait";
    let many = json!({ "script": script, "timeout_ms": 60_000 });
    let few = a.json("POST", &path, &many).await?.expect(200)?.value()?;
    ensure!(few["end"]["reason"] != "done", "{few}");
    // The control: the same where nothing was chosen.
    let path = format!("/v1/sandboxes/{}/calls", plain["id"].as_str().context("no id")?);
    let all = a.json("POST", &path, &many).await?.expect(200)?.value()?;
    ensure!(all["end"]["reason"] == "done", "{all}");
    Ok(())
}

async fn metadata(a: &Client) -> anyhow::Result<()> {
    let wish = json!({ "metadata": { "team": "red" } });
    let sandbox = a.sandbox(&wish).await?;
    for (team, found) in [("red", 1), ("blue", 0)] {
        let path = format!("/v1/sandboxes?metadata=%7B%22team%22%3A%22{team}%22%7D");
        let list = a.get(&path).await?.expect(200)?.value()?;
        let items = list["items"].as_array().context("no list")?;
        ensure!(items.len() == found, "{team}: {list}");
        ensure!(items.iter().all(|item| item["id"] == sandbox.as_str()), "{list}");
    }
    Ok(())
}

/// Deadlines come from the server's own clock; nothing inside can stop them.
async fn deadlines(a: &Client) -> anyhow::Result<()> {
    let wish = |on: &str| json!({ "timeout_seconds": 2, "on_timeout": on });
    let killed = a.sandbox(&wish("kill")).await?;
    let paused = a.sandbox(&wish("pause")).await?;
    let stays = a.sandbox(&json!({ "timeout_seconds": 60 })).await?;
    let mut woken = wish("pause");
    woken["auto_resume"] = json!(true);
    let woken = a.sandbox(&woken).await?;
    for id in [&killed, &paused] {
        let busy = json!({ "script": "trap '' TERM INT; while :; do :; done", "background": true });
        let begun = a.json("POST", &format!("/v1/sandboxes/{id}/calls"), &busy).await?;
        ensure_in_time!(begun.status == 201, "the deadline came before the call: {}", begun.text());
    }
    let begin = Instant::now();
    let state = async |id: &str| -> anyhow::Result<Value> {
        let answer = a.get(&format!("/v1/sandboxes/{id}")).await?;
        Ok(if answer.status == 404 { Value::Null } else { answer.value()?["state"].clone() })
    };
    while state(&killed).await? != Value::Null || state(&paused).await? == "running" {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "a deadline passed without effect");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(state(&paused).await? == "paused", "it was not paused");
    ensure!(state(&stays).await? == "running", "it had another deadline");
    // It is found no more as soon as it ends, and on record once nothing of it is left.
    loop {
        let ended = a.get("/v1/ended").await?.expect(200)?.value()?;
        let items = ended["items"].as_array().context("no list")?;
        if let Some(entry) = items.iter().find(|entry| entry["id"] == killed.as_str()) {
            ensure!(entry["reason"] == "timeout_wall", "{ended}");
            break;
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "its end is not on record: {ended}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // One that does not wish so stays as it is; the other is woken by use.
    let path = |id: &str| format!("/v1/sandboxes/{id}/files?path=/tmp");
    let answer = a.get(&path(&paused)).await?.expect(409)?;
    ensure!(answer.code()? == "sandbox_paused");
    while state(&woken).await? != "paused" {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "it was not paused");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    a.get(&path(&woken)).await?.expect(200)?;
    ensure!(state(&woken).await? == "running");
    Ok(())
}

/// A port of a sandbox that is private answers only whoever shows its token.
async fn private_traffic(world: &World) -> anyhow::Result<()> {
    let wish = json!({ "private_traffic": true });
    let made = world.a.json("POST", "/v1/sandboxes", &wish).await?.expect(201)?.value()?;
    let token = made["traffic_token"].as_str().context("no token")?;
    let open = world.a.sandbox(&json!({})).await?;
    let private = made["id"].as_str().context("no id")?;
    let serve = json!({
        "script": "cd /tmp && echo served > index.html && exec python3 -m http.server 8000",
        "background": true,
    });
    for id in [private, &open] {
        world.a.json("POST", &format!("/v1/sandboxes/{id}/calls"), &serve).await?.expect(201)?;
    }
    let ask = async |id: &str, token: Option<&str>| -> anyhow::Result<u16> {
        let mut headers = vec![("e2b-sandbox-id", id), ("e2b-sandbox-port", "8000")];
        headers.extend(token.map(|token| ("e2b-traffic-access-token", token)));
        let answer = world.nobody.send_with("GET", "/index.html", &headers, "").await?;
        Ok(answer.status)
    };
    let begin = Instant::now();
    while ask(&open, None).await? != 200 || ask(private, Some(token)).await? != 200 {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "the servers inside do not answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for wrong in [None, Some(""), Some("0000"), Some(&token[1..])] {
        let status = ask(private, wrong).await?;
        ensure!((401..=403).contains(&status), "{wrong:?}: {status}");
    }
    Ok(())
}

/// What a call may take, where it runs and as whom.
async fn call_limits(a: &Client) -> anyhow::Result<()> {
    let sandbox = a.sandbox(&json!({})).await?;
    let path = format!("/v1/sandboxes/{sandbox}/calls");
    let call = async |body: Value| -> anyhow::Result<Value> {
        a.json("POST", &path, &body).await?.expect(200)?.value()
    };
    let late = call(json!({ "script": "trap '' TERM; sleep 30", "timeout_ms": 300 })).await?;
    ensure!(late["end"]["reason"] == "timeout_wall", "{late}");
    let there = call(json!({ "argv": ["pwd"], "cwd": "/tmp" })).await?;
    ensure!(there["stdout"]["data"] == "/tmp\n", "{there}");
    for (user, uid) in [("root", "0\n"), ("user", "1000\n")] {
        let who = call(json!({ "argv": ["id", "-u"], "user": user })).await?;
        ensure!(who["stdout"]["data"] == uid, "{who}");
    }
    let read = call(json!({ "argv": ["cat"], "stdin": "given" })).await?;
    ensure!(read["stdout"]["data"] == "given", "{read}");
    // Processes that would outlive a call end with it.
    call(json!({ "script": "sleep 300 & echo" })).await?;
    let left =
        call(json!({ "script": "ps -e -o comm= 2>/dev/null | grep -c sleep || true" })).await?;
    ensure!(left["stdout"]["data"].as_str().is_some_and(|n| n.trim() != "1"), "{left}");
    Ok(())
}
