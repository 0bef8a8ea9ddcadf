//! The public port: operator pages, requests by browsers, and JSON with repeated keys.

use anyhow::ensure;
use serde_json::{Value, json};

use super::authorization::EVERYTHING;
use crate::client::Client;
use crate::platform::Platform;
use crate::routes;
use crate::world::World;

/// Paths under which servers usually serve pages for operators.
const OPERATORS: [&str; 22] = [
    "/metrics",
    "/debug",
    "/debug/pprof",
    "/debug/pprof/heap",
    "/debug/vars",
    "/admin",
    "/v1/admin",
    "/v1/tenants",
    "/v1/keys",
    "/v1/nodes",
    "/internal",
    "/internal/nodes",
    "/internal/nodes/register",
    "/internal/nodes/sync",
    "/actuator/env",
    "/server-status",
    "/status",
    "/config",
    "/env",
    "/.env",
    "/.git/config",
    "/graphql",
];

/// API-10: the public port serves no operator page, with a key or without.
pub(crate) async fn operators_pages_are_elsewhere(world: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let control = [platform.client(Some(&key)), platform.client(None)];
    let node = Client { address: platform.public, key: Some(key.clone()) };
    let askers = [&world.a, &world.nobody, &control[0], &control[1], &node];
    let mut asked = 0;
    for who in askers {
        // The control: the port does answer.
        who.get("/v1/health").await?.expect(200)?;
        for path in OPERATORS {
            for method in ["GET", "POST"] {
                let answer = who.send(method, path, "").await?;
                let is_nothing = matches!(answer.status, 400 | 401 | 403 | 404 | 405);
                ensure!(is_nothing, "{method} {path}: {} {}", answer.status, answer.text());
                let text = answer.text();
                let told = ["# HELP", "# TYPE", "heap profile", "goroutine", "postgres://"];
                ensure!(!told.iter().any(|word| text.contains(word)), "{method} {path}: {text}");
                asked += 1;
            }
        }
    }
    platform.stop().await?;
    Ok(format!("{asked} requests, no page of an operator"))
}

/// API-11: a hostile page in a tenant's browser gains no rights: no route takes a key from a
/// cookie, sets one, or shares credentials with another origin.
pub(crate) async fn browsers_carry_no_rights(world: &World) -> anyhow::Result<String> {
    let own = world.a.belongings().await?;
    let key = world.a.key.clone().unwrap_or_default();
    let cookie =
        format!("x-api-key={key}; X-API-Key={key}; authorization=Bearer {key}; session={key}");
    let samples: Vec<_> =
        routes::own().into_iter().map(|(_, sample)| sample).chain(routes::e2b()?).collect();
    let samples: Vec<_> = samples.into_iter().chain(routes::pages()).collect();
    let mut asked = 0;
    for sample in &samples {
        let path = sample.at(&own);
        let origin = ("origin", "https://evil.example");
        // As a form or a script of the page would: the browser adds the cookie by itself.
        let by_cookie = [origin, ("cookie", cookie.as_str())];
        let answer = world.nobody.send_with(&sample.method, &path, &by_cookie, "").await?;
        ensure!(!sample.keyed || answer.status == 401, "{}: {}", sample.name, answer.status);
        let preflight = [
            origin,
            ("access-control-request-method", sample.method.as_str()),
            ("access-control-request-headers", "x-api-key"),
        ];
        let before = world.nobody.send_with("OPTIONS", &path, &preflight, "").await?;
        for answer in [answer, before] {
            let has = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
            ensure!(has("set-cookie").is_none(), "{} sets a cookie", sample.name);
            let credentials = has("access-control-allow-credentials");
            ensure!(credentials != Some("true"), "{} shares credentials", sample.name);
            asked += 1;
        }
    }
    // The control: with the key in its header, the same origin is served.
    let origin = [("origin", "https://evil.example")];
    world.a.send_with("GET", "/v1/sandboxes", &origin, "").await?.expect(200)?;
    world.a.clear(&own).await?;
    Ok(format!("{asked} answers, no cookie and no shared credential"))
}

/// API-18: control and nodes refuse an object with a repeated key, or read it in the same way.
pub(crate) async fn twice_is_refused(world: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let control = platform.client(Some(&key));
    let mut tried = 0;
    for who in [&world.a, &control] {
        for body in [
            r#"{"template":"base","template":"other"}"#,
            r#"{"template":"base","timeout_seconds":60,"timeout_seconds":90}"#,
            r#"{"template":"base","network":{"reach":"none","reach":"open"}}"#,
        ] {
            let answer = who.send("POST", "/v1/sandboxes", body).await?;
            ensure!(answer.status == 422, "{body}: {} {}", answer.status, answer.text());
            tried += 1;
        }
        let e2b = r#"{"templateID":"base","templateID":"other","timeout":60}"#;
        let answer = who.send("POST", "/sandboxes", e2b).await?;
        ensure!((400..500).contains(&answer.status), "{e2b}: {} {}", answer.status, answer.text());
        // Metadata has free keys. If a repeated one is accepted, every view shows the same value.
        let pairs = r#"{"template":"base","metadata":{"a":"1","a":"2"}}"#;
        let made = who.send("POST", "/v1/sandboxes", pairs).await?;
        if made.is_success() {
            let made = made.value()?;
            let path = format!("/v1/sandboxes/{}", made["id"].as_str().unwrap_or_default());
            let told = who.get(&path).await?.expect(200)?.value()?;
            let list = who.get("/v1/sandboxes?metadata=a%3D1").await?;
            let is_found =
                list.is_success() && list.text().contains(path.rsplit('/').next().unwrap_or("?"));
            ensure!(told["metadata"] == made["metadata"], "{told} and {made}");
            ensure!(!is_found || told["metadata"] == json!({ "a": "1" }), "{}", list.text());
        } else {
            ensure!(made.status == 422, "{} {}", made.status, made.text());
        }
        tried += 2;
        // The control: each once is understood.
        let once = json!({ "template": "base", "timeout_seconds": 60, "metadata": { "a": "1" } });
        let made: Value = who.json("POST", "/v1/sandboxes", &once).await?.expect(201)?.value()?;
        ensure!(made["metadata"] == json!({ "a": "1" }), "{made}");
    }
    platform.stop().await?;
    Ok(format!("{tried} bodies with a key twice"))
}
