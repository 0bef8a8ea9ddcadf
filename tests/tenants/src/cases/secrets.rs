//! Secrets stay out of the database's files and out of responses.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::authorization::EVERYTHING;
use crate::client::Client;
use crate::platform::Platform;
use crate::routes;
use crate::world::World;

const VALUE: &str = "canary-of-a-secret-4711";

/// Makes a sandbox, and returns its id and a tenant's secrets by name.
async fn made(who: &Client) -> anyhow::Result<(String, Vec<(&'static str, String)>)> {
    let key = who.key.clone().context("no key")?;
    let wish = json!({ "operations": ["echo"], "metadata": { "public": "canary-for-all" } });
    let repeated = [("idempotency-key", "once")];
    let sandbox = who.send_with("POST", "/v1/sandboxes", &repeated, wish.to_string()).await?;
    let sandbox = sandbox.expect(201)?.value()?;
    // A repeated request replays the stored response, which holds the token.
    let again = who.send_with("POST", "/v1/sandboxes", &repeated, wish.to_string()).await?;
    ensure!(again.expect(201)?.value()?["id"] == sandbox["id"], "another one was made");
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let id = text(&sandbox["id"]).context("no id")?;
    let token = text(&sandbox["access_token"]).context("no token")?;
    let path = format!("/v1/sandboxes/{id}/tokens");
    let minted = who.json("POST", &path, &json!({})).await?;
    ensure!(minted.is_success(), "{} {}", minted.status, minted.text());
    let minted = text(&minted.value()?["token"]).context("no token of the gateway's")?;
    let named = json!({ "name": "canary", "value": VALUE });
    who.json("POST", "/secrets", &named).await?.expect(201)?;
    let secrets = vec![
        ("the key", key),
        ("the sandbox's token", token),
        ("the gateway's token", minted),
        ("the secret's value", VALUE.to_owned()),
    ];
    Ok((id, secrets))
}

/// GW-22: a copy of the database, its log included, holds no key, token or secret.
pub(crate) async fn no_secret_at_rest(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(search(&platform)).await;
    platform.stop().await?;
    seen
}

async fn search(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let (id, secrets) = made(&platform.client(Some(&key))).await?;
    platform.postgres.run("checkpoint")?;
    let directory = platform.postgres.directory();
    // The control: the search finds the sandbox's id, which may be there.
    ensure!(finds(directory, id.as_bytes())?.is_some(), "the search does not find the sandbox");
    for (what, secret) in &secrets {
        let found = finds(directory, secret.as_bytes())?;
        ensure!(found.is_none(), "{what} is in {}", found.unwrap_or_default());
        // Nor are the bytes there that a hexadecimal secret spells.
        let hex = secret.rsplit('_').next().unwrap_or(secret);
        let raw: Option<Vec<u8>> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok())
            .collect();
        if let Some(raw) = raw.filter(|raw| raw.len() >= 16) {
            let found = finds(directory, &raw)?;
            ensure!(found.is_none(), "{what}, unpacked, is in {}", found.unwrap_or_default());
        }
    }
    Ok(format!("{} secrets, none in what the database wrote", secrets.len()))
}

/// The first file below a directory that holds these bytes.
fn finds(directory: &Path, bytes: &[u8]) -> anyhow::Result<Option<String>> {
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_dir() {
            // The server removes files meanwhile.
            let Ok(entries) = fs::read_dir(&path) else { continue };
            open.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        } else if kind.is_file() {
            let Ok(content) = fs::read(&path) else { continue };
            if content.windows(bytes.len()).any(|window| window == bytes) {
                return Ok(Some(path.display().to_string()));
            }
        }
    }
    Ok(None)
}

/// GW-23: only the response that makes a token shows it. No response shows a key or the value of
/// a secret again.
pub(crate) async fn no_secret_in_answers(world: &World) -> anyhow::Result<String> {
    let (_, secrets) = made(&world.a).await?;
    let own = world.a.belongings().await?;
    let samples: Vec<_> =
        routes::own().into_iter().map(|(_, sample)| sample).chain(routes::e2b()?).collect();
    let mut asked = 0;
    for sample in samples.iter().filter(|sample| sample.method == "GET") {
        let answer = world.a.get(&sample.at(&own)).await?;
        let text = answer.text();
        for (what, secret) in &secrets {
            // Descriptions of a sandbox show its token to its owner.
            let may = *what == "the sandbox's token" && sample.path.contains("sandboxes");
            ensure!(may || !text.contains(secret.as_str()), "{} shows {what}: {text}", sample.name);
        }
        for name in ["password", "private_key", "secret_value", "credential\""] {
            ensure!(!text.contains(name), "{} has a field {name}: {text}", sample.name);
        }
        asked += 1;
    }
    // Nor do refusals quote a secret.
    let (_, key) = &secrets[0];
    for body in
        [json!({ key.as_str(): 1 }), json!({ "template": key }), json!({ "env": { "A=": key } })]
    {
        let answer = world.a.json("POST", "/v1/sandboxes", &body).await?;
        ensure!(answer.status == 422 || answer.status == 404, "{}", answer.status);
        asked += 1;
    }
    // The control: the search finds metadata, which is shown.
    let list = world.a.get("/v1/sandboxes").await?.expect(200)?.text();
    ensure!(list.contains("canary-for-all"), "{list}");
    world.a.clear(&own).await?;
    Ok(format!("{asked} answers without a secret"))
}
