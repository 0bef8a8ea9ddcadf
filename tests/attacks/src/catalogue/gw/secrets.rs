//! Credentials: used outside, found nowhere inside.

use std::time::Duration;

use anyhow::ensure;
use belljar_domain::User;
use belljar_domain::network::{Policy, Row};
use belljar_node::Command;
use belljar_scripted::Script as Lines;
use serde_json::json;

use super::super::net::{directly, served, works};
use super::{asks_model, own};
use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::memory;
use crate::harness::say::{Script, heard};
use crate::harness::stage::Stage;
use crate::harness::world::{Wish, World, mint};

/// A provider that tells what it was told, in every place there is.
const TELLTALE: &str = r#"
[[turn]]
say = "hello"
[[scene]]
when = "echo-body"
turn = [{ fault = { kind = "echo", place = "body" } }]
[[scene]]
when = "echo-headers"
turn = [{ say = "x", fault = { kind = "echo", place = "headers" } }]
[[scene]]
when = "echo-text"
turn = [{ say = "x", fault = { kind = "echo", place = "text" } }]
[[scene]]
when = "echo-split"
turn = [{ say = "x", fault = { kind = "echo", place = "split" } }]
[[scene]]
when = "away"
turn = [{ fault = { kind = "redirect", status = 307, to = "http://denied.test/hello" } }]
"#;

fn says(text: &str, stream: bool) -> serde_json::Value {
    json!({ "messages": [{ "role": "user", "content": text }], "stream": stream })
}

/// Headers that come back, errors with the key in them, redirects that take it along.
pub(super) async fn echoes(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let wish = Wish { lines: Lines::parse(TELLTALE)?, ..Wish::default() };
    let world = World::with(wish).await?;
    let key = world.credential.clone();
    let kinds = ["echo-body", "echo-headers", "echo-text", "echo-split"];
    if control {
        let body = super::message(&says("echo-body", false));
        let naive = own("POST", "/v1/messages", &key, &body);
        let said =
            directly(&stage, &[Script::to("naive", world.model.address()).ask(naive)]).await?;
        return Ok(works(said[0].has(&key), "who forwards the answer forwards the key", &said));
    }
    let sandbox = served(&stage, &world, Policy::default()).await?;
    let token = mint(&sandbox, &["model", "plain"]).await?.token;
    let mut scripts = Vec::new();
    for kind in kinds.into_iter().chain(["away"]) {
        scripts.push(asks_model(kind, &token, &says(kind, false)));
        let body = super::message(&says(kind, true));
        let request = own("POST", "/v1/messages", &token, &body);
        let over = ["message_stop", "event: error", "HTTP/1.1 4", "HTTP/1.1 5"];
        let script = Script::gateway(format!("{kind}, streamed")).send(request);
        scripts.push(script.rest_until(20.0, &over));
    }
    scripts.push(Script::gateway("plain").ask(own("GET", "/operations/plain/echo", &token, "")));
    let redirect = "/operations/plain/redirect?to=http://denied.test/hello";
    scripts.push(Script::gateway("plain redirect").ask(own("GET", redirect, &token, "")));
    let (_, said) = stage.say(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    for said in &said {
        // In a stream the pieces stand in events of their own.
        let joined: String = said.got.split('"').collect();
        let told = said.has(&key) || joined.contains(&key) || holds_halves(&said.got, &key);
        findings.expect(!told && said.total > 0, "the key does not come back", said.brief());
        findings.expect(!said.has("denied.test"), "no redirect is passed on", said.brief());
    }
    let rows = world.count(&sandbox, scripts.len(), |row: &Row| row.operation.is_some()).await;
    findings.expect(rows == scripts.len(), "each is one row", rows);
    let told = serde_json::to_string(&world.rows(sandbox.id()))?.contains(&key);
    findings.expect(!told, "nor in the rows", "it is there");
    findings.expect(!world.names.was_asked("denied.test"), "nobody followed", "somebody did");
    Ok(findings.seen())
}

/// Whether both halves of a key are there, as a stream that is cut in the middle
/// of it would have them.
fn holds_halves(text: &str, key: &str) -> bool {
    let (first, second) = key.split_at(key.len() / 2);
    text.contains(first) && text.contains(second)
}

/// Environment, arguments, files and memory of everything inside.
pub(super) async fn search(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let lines = Lines::parse("[[turn]]\nsay = \"hello\"")?;
    let world = World::with(Wish { lines, ..Wish::default() }).await?;
    let key = world.credential.clone();
    let sandbox = served(&stage, &world, Policy::default()).await?;
    let token = mint(&sandbox, &["model", "plain"]).await?.token;
    let used = asks_model("used", &token, &json!({}));
    let used = used.ask(own("GET", "/operations/plain/hello", &token, "")).mark("used").sleep(20.0);
    let mut running = stage.saying(&sandbox, &[used], false).await?;
    running.until("MARK used").await?;
    let mut planted = None;
    if control {
        let mut command = Command::shell("echo ready; printf %s \"$KEY\" > /tmp/planted; sleep 20");
        command.env = vec![(b"KEY".to_vec(), key.clone().into_bytes())];
        let mut other = stage.start(&sandbox, &command).await?;
        other.until("ready").await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        planted = Some(other);
    }
    let pids = memory::processes_of(sandbox.id().as_str());
    ensure!(pids.len() >= 2, "no processes are found: {pids:?}");
    let (mut places, mut looked) = (Vec::new(), 0);
    for pid in &pids {
        let (found, seen) = memory::search(*pid, key.as_bytes());
        places.extend(found);
        looked += seen;
    }
    ensure!(looked > 1 << 20, "only {looked} bytes were looked at");
    // The token is there: the search sees what is in use.
    let with_token = pids.iter().any(|pid| !memory::search(*pid, token.as_bytes()).0.is_empty());
    ensure!(with_token, "not even the token is found: the search does not work");
    // Files, by whoever may read all of them; the pattern itself is in no file.
    let mut grep = stage.place(&sandbox, "gw/find.py", &[hex(&key)]).await?;
    grep.user = User::Root;
    grep.wall = Some(Duration::from_secs(20));
    let ran = stage.exec(&sandbox, &grep).await?;
    places.extend(ran.after("FOUND "));
    ensure!(ran.text().contains("LOOKED "), "the search of files: {}", ran.ending());
    running.call.kill();
    let _ = heard(running).await;
    if let Some(other) = planted {
        other.call.kill();
        other.finish().await?;
        let kinds = ["environ", "stack", "/tmp/planted"];
        let all = kinds.iter().all(|kind| places.iter().any(|place| place.contains(kind)));
        return Ok(works(all, &format!("what is planted is found: {}", places.join(", ")), &[]));
    }
    let came = world.model.record().all().iter().any(|asked| asked.credential);
    ensure!(came, "the upstream was not shown the credential at all");
    let mut findings = Findings::default();
    findings.expect(places.is_empty(), "it is nowhere inside", places.join(", "));
    let rows = serde_json::to_string(&world.rows(sandbox.id()))?;
    findings.expect(!rows.contains(&key) && !rows.contains(&token), "nor in the rows", "it is");
    let bundle = stage.exec(&sandbox, &Command::shell("cat /etc/belljar/*")).await?;
    let private = bundle.text().contains("PRIVATE KEY");
    findings.expect(!private, "the authority's key is not inside either", "it is");
    let said = format!("{} processes, {} MiB, {}", pids.len(), looked >> 20, ran.text().trim());
    findings.held(said);
    Ok(findings.seen())
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Everything that can be asked, by a process that is not the agent's.
pub(super) async fn every_operation(stage: Stage, control: bool) -> anyhow::Result<Seen> {
    let lines = Lines::parse("[[turn]]\nsay = \"hello\"")?;
    let world = World::with(Wish { lines, ..Wish::default() }).await?;
    let key = world.credential.clone();
    if control {
        let naive = own("GET", "/echo", &key, "");
        let said = directly(&stage, &[Script::to("naive", world.at(80)).ask(naive)]).await?;
        return Ok(works(said[0].has(&key), "an upstream that echoes tells the key", &said));
    }
    let sandbox = served(&stage, &world, Policy::default()).await?;
    let token = mint(&sandbox, &["model", "plain"]).await?.token;
    let mut scripts = Vec::new();
    for path in [
        "/healthz",
        "/v1/models",
        "/operations/model/v1/models",
        "/operations/plain/hello",
        "/operations/plain/echo",
        "/operations/plain/echo?x=1",
        "/operations",
        "/operations/model",
        "/credentials",
        "/config",
        "/debug",
        "/metrics",
        "/proc/self/environ",
    ] {
        for method in ["GET", "POST", "OPTIONS", "TRACE", "HEAD"] {
            let script = Script::gateway(format!("{method} {path}"));
            scripts.push(script.send(own(method, path, &token, "")).rest(0.15));
        }
    }
    let (_, said) = stage.say_at_once(&sandbox, &scripts).await?;
    let mut findings = Findings::default();
    for said in &said {
        findings.expect(!said.has(&key), "no operation tells a secret", said.brief());
        let path = world.folder().to_string_lossy();
        findings.expect(!said.has(&path), "nor a path of the host", said.brief());
    }
    let worked = said.iter().filter(|said| said.status() == 200).count();
    findings.expect(worked >= 3, "any process may use the token", worked);
    let rows = world.count(&sandbox, scripts.len(), |_| true).await;
    findings.expect(rows >= scripts.len(), "each is written down", rows);
    Ok(findings.seen())
}
