//! Webhooks: those of another tenant, and those that lead into the host's network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_webhooks::sign::signatures;
use belljar_webhooks::{EventKind, Secret, Shelf};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::authorization::EVERYTHING;
use crate::client::{Client, HANG_LIMIT};
use crate::platform::Platform;
use crate::world::{OPENED, World};

/// A request that a receiver got.
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Listens at an address of loopback and answers with these statuses, then with 204.
async fn receiver(
    address: &str,
    statuses: Vec<&'static str>,
) -> anyhow::Result<(u16, mpsc::UnboundedReceiver<Received>)> {
    let listener = TcpListener::bind((address, 0)).await?;
    let port = listener.local_addr()?.port();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut statuses = statuses.into_iter();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = Vec::new();
            let request = loop {
                let mut part = [0; 4096];
                let Ok(count @ 1..) = stream.read(&mut part).await else { break None };
                bytes.extend_from_slice(&part[..count]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let got = Received { head: head.to_owned(), body: body.to_owned() };
                let length = got.header("content-length").and_then(|it| it.parse().ok());
                if got.body.len() >= length.unwrap_or(0_usize) {
                    break Some(got);
                }
            };
            let status = statuses.next().unwrap_or("204 No Content");
            let location = format!("http://{OPENED}:{port}/elsewhere");
            let answer = format!(
                "HTTP/1.1 {status}\r\nlocation: {location}\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            if let Some(request) = request {
                let _ = sender.send(request);
            }
        }
    });
    Ok((port, received))
}

async fn next(received: &mut mpsc::UnboundedReceiver<Received>) -> anyhow::Result<Received> {
    let next = tokio::time::timeout(HANG_LIMIT, received.recv()).await;
    next.context("the receiver was not called")?.context("the receiver ended")
}

/// A webhook with this URL: its id and its secret.
async fn hook(owner: &Client, url: &str, kind: &str) -> anyhow::Result<(String, Secret)> {
    use base64::Engine as _;
    let new = json!({ "url": url, "kinds": [kind] });
    let made = owner.json("POST", "/v1/webhooks", &new).await?.expect(201)?.value()?;
    let secret = made["secret"].as_str().and_then(|text| text.strip_prefix("whsec_"));
    let secret = secret.context("no secret")?;
    let secret = base64::engine::general_purpose::STANDARD.decode(secret)?;
    Ok((made["id"].as_str().context("no id")?.to_owned(), Secret::from_bytes(secret)))
}

fn is_signed(request: &Received, secret: &Secret) -> anyhow::Result<()> {
    let header = |name| request.header(name).with_context(|| format!("no header {name}"));
    let (id, at) = (header("webhook-id")?, header("webhook-timestamp")?.parse::<i64>()?);
    let wanted = signatures(std::slice::from_ref(secret), id, at, &request.body);
    ensure!(header("webhook-signature")? == wanted, "a wrong signature");
    Ok(())
}

/// API-22: no webhook leads to an address of the host or its network, by whatever name.
pub(crate) async fn stay_outside(world: &World) -> anyhow::Result<String> {
    outside(&world.a).await
}

/// API-22/platform: the same, by control.
pub(crate) async fn stay_outside_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let working = platform.deliver_webhooks()?;
    let seen = Box::pin(outside(&platform.client(Some(&a)))).await;
    working.abort();
    platform.stop().await?;
    seen
}

async fn outside(a: &Client) -> anyhow::Result<String> {
    let (port, mut closed) = receiver("127.0.0.1", vec![]).await?;
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::ffff:127.0.0.1]:{port}/"),
        format!("https://[::ffff:7f00:1]:{port}/"),
        "https://169.254.169.254/latest/meta-data/".to_owned(),
        "https://10.0.0.1/".to_owned(),
        "https://[::1]/".to_owned(),
        "https://user:word@hooks.invalid/".to_owned(),
        "http://hooks.invalid/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
    ];
    for url in &urls {
        let new = json!({ "url": url, "kinds": ["sandbox.ended"] });
        let refused = a.json("POST", "/v1/webhooks", &new).await?;
        ensure!(refused.expect(422)?.code()? == "webhook_url_refused", "{url}");
    }
    // A name is refused when it is resolved: `localhost` leads to loopback.
    let (named, _) = hook(a, &format!("https://localhost:{port}/"), "sandbox.ended").await?;
    a.json("POST", &format!("/v1/webhooks/{named}/test"), &json!({})).await?.expect(202)?;
    let ended = wait(a, &named, |it| it["state"] == "failed").await?;
    ensure!(ended["error"] == "the address of the receiver is not public", "{ended}");
    ensure!(closed.try_recv().is_err(), "an address that is closed was called");
    // A redirect is a failure, and is not followed.
    let found = vec!["302 Found", "302 Found", "302 Found"];
    let (port, mut redirecting) = receiver(OPENED, found).await?;
    let (hooked, _) = hook(a, &format!("http://{OPENED}:{port}/"), "sandbox.ended").await?;
    a.json("POST", &format!("/v1/webhooks/{hooked}/test"), &json!({})).await?.expect(202)?;
    let ended = wait(a, &hooked, |it| it["state"] == "failed").await?;
    ensure!(ended["status"] == 302 && ended["attempts"] == 3, "{ended}");
    for _ in 0..3 {
        let request = next(&mut redirecting).await?;
        ensure!(request.head.starts_with("POST / "), "{}", request.head);
    }
    ensure!(redirecting.try_recv().is_err(), "a redirect was followed");
    // The control: what the operator opened is called, signed, and again until it accepts.
    let refuses = vec!["500 Internal Server Error", "503 Service Unavailable"];
    let (port, mut opened) = receiver(OPENED, refuses).await?;
    let (open, secret) = hook(a, &format!("http://{OPENED}:{port}/in"), "sandbox.ended").await?;
    let sandbox = a.sandbox(&json!({})).await?;
    a.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let request = next(&mut opened).await?;
        is_signed(&request, &secret)?;
        let body: Value = serde_json::from_str(&request.body)?;
        ensure!(body["type"] == "sandbox.ended" && body["data"]["sandbox"] == sandbox, "{body}");
        ids.push(request.header("webhook-id").unwrap_or_default().to_owned());
    }
    ensure!(ids.iter().all(|id| *id == ids[0]), "another id for the same message: {ids:?}");
    let done = wait(a, &open, |it| it["state"] == "delivered").await?;
    ensure!(done["attempts"] == 3, "{done}");
    Ok(format!("{} URLs refused; redirects not followed; one delivered", urls.len()))
}

/// Waits until the newest message to a webhook is as wanted.
async fn wait(
    owner: &Client,
    webhook: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let begin = Instant::now();
    let path = format!("/v1/webhooks/{webhook}/deliveries");
    loop {
        let found = owner.get(&path).await?.expect(200)?.value()?;
        let newest = &found["items"][0];
        if is_wanted(newest) {
            return Ok(newest.clone());
        }
        ensure!(begin.elapsed() < HANG_LIMIT, "{found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// API-04/webhooks: a tenant's webhooks hear of its own sandboxes alone, and no other tenant sees
/// or changes them.
pub(crate) async fn are_ones_own(world: &World) -> anyhow::Result<String> {
    own(&world.a, &world.b).await
}

/// API-04/webhooks/platform: the same by control; a message whose worker died is sent by another.
pub(crate) async fn are_ones_own_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let (a, _) = platform.key("a", &EVERYTHING, None).await?;
    let (b, _) = platform.key("b", &EVERYTHING, None).await?;
    let (a, b) = (platform.client(Some(&a)), platform.client(Some(&b)));
    let shelf: Arc<dyn Shelf> = Arc::new(platform.store.webhooks());
    let (port, mut received) = receiver(OPENED, vec![]).await?;
    hook(&a, &format!("http://{OPENED}:{port}/dead"), "sandbox.ended").await?;
    let sandbox = a.sandbox(&json!({})).await?;
    a.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
    // A worker claims the message and dies.
    let begin = Instant::now();
    let lease = Duration::from_millis(300);
    let claimed = loop {
        let claimed = shelf.claim(10, &[], lease).await?;
        if !claimed.is_empty() || begin.elapsed() > HANG_LIMIT {
            break claimed;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    ensure!(claimed.len() == 1 && claimed[0].message.kind == EventKind::SandboxEnded);
    let working = platform.deliver_webhooks()?;
    let request = next(&mut received).await?;
    ensure!(request.header("webhook-id") == Some(claimed[0].message.id.as_str()));
    let seen = Box::pin(own(&a, &b)).await;
    working.abort();
    platform.stop().await?;
    seen
}

async fn own(a: &Client, b: &Client) -> anyhow::Result<String> {
    let (port, mut received) = receiver(OPENED, vec![]).await?;
    let url = format!("http://{OPENED}:{port}/own");
    let (hooked, first) = hook(a, &url, "sandbox.ended").await?;
    let listed = b.get("/v1/webhooks").await?.expect(200)?;
    ensure!(!listed.text().contains(&hooked), "{}", listed.text());
    let at = |rest: &str| format!("/v1/webhooks/{hooked}{rest}");
    for (method, rest) in [
        ("GET", ""),
        ("GET", "/deliveries"),
        ("POST", "/test"),
        ("POST", "/rotate"),
        ("POST", "/enable"),
        ("DELETE", ""),
    ] {
        let refused = b.send(method, &at(rest), "").await?.expect(404)?;
        ensure!(refused.code()? == "webhook_not_found", "{method} {rest}");
    }
    for owner in [b, a] {
        let sandbox = owner.sandbox(&json!({})).await?;
        owner.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), "").await?.expect(204)?;
        if std::ptr::eq(owner, a) {
            // The control: the owner hears of its own sandbox, and of nothing before.
            let request = next(&mut received).await?;
            is_signed(&request, &first)?;
            ensure!(request.body.contains(&sandbox), "{}", request.body);
        }
    }
    // Two secrets are valid at once, and the secret is not shown again.
    let rotated = a.send("POST", &at("/rotate"), "").await?.expect(200)?.value()?;
    ensure!(rotated["secret"].is_string(), "{rotated}");
    a.send("POST", &at("/test"), "").await?.expect(202)?;
    let request = next(&mut received).await?;
    let signed = request.header("webhook-signature").unwrap_or_default();
    ensure!(signed.split(' ').count() == 2, "{signed}");
    let shown = a.get(&at("")).await?.expect(200)?.value()?;
    ensure!(shown["secret"].is_null(), "the secret is shown again");
    ensure!(received.try_recv().is_err(), "a message too many");
    a.send("DELETE", &at(""), "").await?.expect(204)?;
    // A disabled webhook takes no tests until it is enabled.
    let (port, mut received) = receiver(OPENED, vec!["410 Gone"]).await?;
    let (gone, _) = hook(a, &format!("http://{OPENED}:{port}/gone"), "sandbox.ended").await?;
    let at = |rest: &str| format!("/v1/webhooks/{gone}{rest}");
    a.send("POST", &at("/test"), "").await?.expect(202)?;
    let begin = Instant::now();
    loop {
        let shown = a.get(&at("")).await?.expect(200)?.value()?;
        if shown["disabled"] == "gone" {
            break;
        }
        ensure!(begin.elapsed() < HANG_LIMIT, "{shown}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let refused = a.send("POST", &at("/test"), "").await?.expect(409)?;
    ensure!(refused.code()? == "webhook_disabled");
    a.send("POST", &at("/enable"), "").await?.expect(200)?;
    a.send("POST", &at("/test"), "").await?.expect(202)?;
    for _ in 0..2 {
        next(&mut received).await?;
    }
    a.send("DELETE", &at(""), "").await?.expect(204)?;
    Ok("6 requests of another tenant refused".to_owned())
}
