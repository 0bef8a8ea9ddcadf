//! SQL injection, and state that stays on pooled connections.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use belljar_store::{NewKey, Quota, Scope, Store};
use belljar_testkit::Postgres;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::authorization::EVERYTHING;
use crate::platform::Platform;
use crate::routes;
use crate::world::World;

const HOSTILE: [&str; 10] = [
    "'; drop table sandbox cascade; --",
    "' or '1'='1",
    "\\' or 1=1 --",
    "$1",
    "%",
    "_%'",
    "{\"$ne\": null}",
    "$.*",
    "1); delete from key; --",
    "'||(select pg_sleep(20))||'",
];

/// API-07: no text of a request becomes part of a statement or a pattern.
pub(crate) async fn texts_stay_texts(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(inject(&platform)).await;
    platform.stop().await?;
    seen
}

async fn inject(platform: &Platform) -> anyhow::Result<String> {
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let theirs = b.sandbox(&json!({ "metadata": { "of": "b" } })).await?;
    let own = a.belongings().await?;
    let mut tried = 0;
    for hostile in HOSTILE {
        let escaped: String = hostile.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for (operation, sample) in routes::own() {
            // Each text of a body.
            let mut bodies = Vec::new();
            replaced(&routes::body(operation), hostile, &mut bodies);
            let path = sample.at(&own);
            for body in bodies {
                let answer = a.json(&sample.method, &path, &body).await?;
                ensure!(answer.status < 500, "{} {body}: {}", sample.name, answer.text());
                ensure!(
                    !answer.text().contains(&theirs),
                    "{} {body}: {}",
                    sample.name,
                    answer.text()
                );
                tried += 1;
            }
            // Each path that names something.
            if sample.names_something() && sample.method == "GET" {
                let path = sample.path.split('{').next().unwrap_or_default().to_owned() + &escaped;
                let answer = a.get(&path).await?;
                ensure!(answer.status < 500, "{path}: {}", answer.text());
                tried += 1;
            }
        }
        for query in ["metadata=of%3D", "template=", "after=", "state=", "started_after="] {
            let answer = a.get(&format!("/v1/sandboxes?{query}{escaped}")).await?;
            ensure!(answer.status < 500, "{query}{hostile}: {}", answer.text());
            ensure!(!answer.text().contains(&theirs), "{query}{hostile}: {}", answer.text());
            tried += 1;
        }
        for header in ["idempotency-key", "x-api-key", "x-request-id"] {
            let body = json!({ "metadata": { "text": hostile } }).to_string();
            let who = if header == "x-api-key" { platform.client(None) } else { a.clone() };
            let answer = who.send_with("POST", "/v1/sandboxes", &[(header, hostile)], body).await?;
            ensure!(answer.status < 500, "{header} {hostile}: {}", answer.text());
            // The control: the text is stored as it is.
            if answer.is_success() {
                let made = answer.value()?;
                ensure!(made["metadata"]["text"] == hostile, "{made}");
                let id = made["id"].as_str().context("no id")?;
                a.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?;
            }
            tried += 1;
        }
    }
    let still = b.get(&format!("/v1/sandboxes/{theirs}")).await?.expect(200)?.value()?;
    ensure!(still["metadata"] == json!({ "of": "b" }), "{still}");
    Ok(format!("{tried} texts, none of them part of a statement"))
}

/// Adds copies of a value, in each of which another text is replaced.
fn replaced(value: &Value, with: &str, found: &mut Vec<Value>) {
    let Value::Object(members) = value else { return };
    for (name, member) in members {
        let mut inner = Vec::new();
        match member {
            Value::String(_) => inner.push(json!(with)),
            other => replaced(other, with, &mut inner),
        }
        found.extend(inner.into_iter().map(|member| {
            let mut copy = value.clone();
            copy[name] = member;
            copy
        }));
    }
}

/// API-17: tenants that share one connection see their own rows only. The tenant is an argument of
/// each statement; no setting of a connection names it.
pub(crate) async fn nothing_stays_behind(_: &World) -> anyhow::Result<String> {
    let postgres = tokio::task::spawn_blocking(Postgres::start).await??;
    let store = Store::connect(&postgres.schema(), 1).await?;
    store.migrate().await?;
    let quota = Quota { sandboxes: 200, longest_life: Duration::from_secs(3600) };
    let tenants = ["a", "b", "c"];
    for tenant in tenants {
        store.put_tenant(tenant, None, quota).await?;
        for number in 0..3 {
            let label = format!("{tenant}{number}");
            let hash = Sha256::digest(&label).into();
            let (label, operations) = (label.as_str(), belljar_domain::OperationCap::ALL);
            let scopes = &[Scope::Read];
            let key = NewKey { hash, tenant, label, scopes, lives: None, operations };
            store.add_key(&key).await?;
        }
    }
    let mut asked = 0;
    for _ in 0..50 {
        let of = |tenant: &'static str| {
            let store = store.clone();
            async move { anyhow::Ok((tenant, store.keys(tenant).await?)) }
        };
        let (a, b, c) = tokio::try_join!(of("a"), of("b"), of("c"))?;
        for (tenant, keys) in [a, b, c] {
            // The control: each sees its own three.
            ensure!(keys.len() == 3, "{tenant}: {} keys", keys.len());
            ensure!(keys.iter().all(|key| key.label.starts_with(tenant)), "{tenant}: {keys:?}");
            asked += 1;
        }
    }
    Ok(format!("{asked} questions of three tenants over one connection"))
}
