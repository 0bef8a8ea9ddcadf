//! What is behind control: the database and the bus, and what of a tenant's gets there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_store::Message;
use belljar_testkit::{Nats, ensure_in_time};
use serde_json::{Value, json};

use crate::cases::authorization::{EVERYTHING, samples};
use crate::client::{Client, HANG_LIMIT};
use crate::platform::{Options, Platform};
use crate::world::World;

/// Says for each port whether it answers directly, and what the way out says to each name.
const REACH: &str = r"
import json, socket, sys
seen = {}
for port in map(int, sys.argv[1:]):
    try:
        socket.create_connection(('127.0.0.1', port), timeout=5).close()
        seen[f'direct {port}'] = 'open'
    except OSError:
        seen[f'direct {port}'] = 'refused'
    for host in ['127.0.0.1', 'localhost', '[::1]', '0.0.0.0', '2130706433', '[::ffff:127.0.0.1]']:
        with socket.create_connection(('127.0.0.1', 3128), timeout=20) as way:
            way.sendall(f'CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n'.encode())
            head = way.makefile('rb').readline().decode().split(' ')
            seen[f'{host} {port}'] = head[1] if len(head) > 1 else 'hung up'
print(json.dumps(seen))
";

/// BUS-01: the bus, control's port for nodes and a node's for control, from inside.
pub(crate) async fn services_are_out_of_reach(_: &World) -> anyhow::Result<String> {
    let nats = tokio::task::spawn_blocking(Nats::cluster).await??;
    let urls = nats.urls();
    let ports = urls.iter().map(|url| url.trim_start_matches("nats://").parse());
    let bus = ports.collect::<Result<Vec<SocketAddr>, _>>()?;
    let (opened, closed) = bus.split_first().context("no bus")?;
    let platform = Platform::start_with(Options { opening: Some(*opened), ..Options::default() });
    let platform = platform.await?;
    let seen = Box::pin(reach_services(&platform, *opened, closed)).await;
    platform.stop().await?;
    seen
}

async fn reach_services(
    platform: &Platform,
    opened: SocketAddr,
    closed: &[SocketAddr],
) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let mut targets = closed.to_vec();
    targets.extend([platform.node_port, platform.node, platform.control]);
    for target in &targets {
        // The control: it is there, for who is on this host.
        tokio::net::TcpStream::connect(target).await.with_context(|| target.to_string())?;
    }
    let ports: Vec<_> = targets.iter().map(|target| target.port().to_string()).collect();
    let rules = json!([{ "host": "127.0.0.1" }, { "host": "localhost" }]);
    let mut refused = 0;
    for reach in [json!("open"), json!({ "allow": rules })] {
        let sandbox = owner.sandbox(&json!({ "network": { "reach": reach } })).await?;
        for (what, said) in look(&owner, &sandbox, &ports.join(" ")).await? {
            ensure!(said != "open" && said != "200", "{what} with {reach}: {said}");
            refused += 1;
        }
    }
    // And what an operator opened is reached, so the way out is one.
    let rule = json!({ "host": "127.0.0.1", "ports": [opened.port()] });
    let sandbox = owner.sandbox(&json!({ "network": { "reach": { "allow": [rule] } } })).await?;
    let seen = look(&owner, &sandbox, &opened.port().to_string()).await?;
    let way = format!("{} {}", Ipv4Addr::LOCALHOST, opened.port());
    ensure!(seen.get(&way).is_some_and(|said| said == "200"), "the control: {seen:?}");
    Ok(format!("{refused} ways refused; the port that was opened answers"))
}

async fn look(
    owner: &Client,
    sandbox: &str,
    ports: &str,
) -> anyhow::Result<serde_json::Map<String, Value>> {
    let ran = owner.run(sandbox, &format!("python3 -c \"{REACH}\" {ports}")).await?;
    let said = ran["stdout"]["data"].as_str().context("no output")?;
    serde_json::from_str(said).with_context(|| ran.to_string())
}

/// What a subject or a message id must not be made of.
const HOSTILE: &str = "a.*.>.b";

/// BUS-02: a tenant's text in a subject.
pub(crate) async fn subjects_are_ours(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(choose_subjects(&platform)).await;
    platform.stop().await?;
    seen
}

async fn choose_subjects(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let headers = [("idempotency-key", HOSTILE)];
    let owner = platform.client(Some(&key));
    owner.send_with("POST", "/v1/sandboxes", &headers, "{}").await?.expect(422)?;
    let sandbox = make_and_end(platform, "a", "plain").await?;
    let messages = told(platform, &[&sandbox]).await?;
    for message in &messages {
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'.');
        ensure!(message.subject == "sandbox.ended", "{message:?}");
        ensure!(is_plain(&message.subject), "{message:?}");
        let text = format!("{message:?}");
        ensure!(!text.contains(HOSTILE) && !text.contains("\\r\\n"), "{text}");
    }
    Ok(format!("{} messages, all about ids of ours", messages.len()))
}

/// BUS-06: one idempotency key of two tenants.
pub(crate) async fn message_ids_are_ours(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(choose_message_ids(&platform)).await;
    platform.stop().await?;
    seen
}

async fn choose_message_ids(platform: &Platform) -> anyhow::Result<String> {
    let first = make_and_end(platform, "a", "the-same").await?;
    let second = make_and_end(platform, "b", "the-same").await?;
    ensure!(first != second, "one tenant's key found another's sandbox");
    let messages = told(platform, &[&first, &second]).await?;
    let mut ids: Vec<_> = messages.iter().map(|message| message.id.as_str()).collect();
    ensure!(ids.iter().all(|id| !id.contains("the-same")), "{ids:?}");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    ensure!(ids.len() == count, "one suppresses another: {messages:?}");
    Ok(format!("{count} messages under ids of their own"))
}

/// Makes a sandbox with hostile text wherever a tenant may write some, and ends it.
async fn make_and_end(platform: &Platform, tenant: &str, text: &str) -> anyhow::Result<String> {
    let (key, _) = platform.key(tenant, &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let hostile = format!("{HOSTILE} \r\nPUB belljar.told 1");
    let wish = json!({ "metadata": { "name": hostile }, "env": { "NAME": hostile } });
    let headers = [("idempotency-key", text)];
    let made = owner.send_with("POST", "/v1/sandboxes", &headers, wish.to_string()).await?;
    let id = made.expect(201)?.value()?["id"].as_str().context("no id")?.to_owned();
    owner.send("DELETE", &format!("/v1/sandboxes/{id}"), "").await?.expect(204)?;
    Ok(id)
}

/// Waits until the outbox tells of these sandboxes. Nothing publishes it here.
async fn told(platform: &Platform, sandboxes: &[&str]) -> anyhow::Result<Vec<Message>> {
    let begin = Instant::now();
    loop {
        let messages = platform.store.outgoing(100).await?.messages;
        let is_told = |id: &&str| messages.iter().any(|message| message.body["sandbox"] == **id);
        if sandboxes.iter().all(is_told) {
            return Ok(messages);
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "not told: {messages:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// BUS-08: text that the database cannot store, in each field of each route.
pub(crate) async fn odd_text_stalls_nothing(world: &World) -> anyhow::Result<String> {
    let on_server = say_odd_text(&world.a).await.context("on a server")?;
    let platform = Platform::start().await?;
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let seen = Box::pin(say_odd_text(&owner)).await;
    let well = owner.sandbox(&json!({})).await;
    platform.stop().await?;
    let by_control = seen.context("by control")?;
    well.context("afterwards")?;
    Ok(format!("{on_server} requests on a server, {by_control} by control: none failed"))
}

async fn say_odd_text(owner: &Client) -> anyhow::Result<usize> {
    let theirs = owner.belongings().await?;
    let mut said = 0;
    for sample in samples()? {
        let Ok(body) = serde_json::from_str::<Value>(&sample.body) else { continue };
        let (method, path) = (&sample.method, sample.at(&theirs));
        for field in texts(&body) {
            let mut odd = body.clone();
            let place = odd.pointer_mut(&field).context("no such field")?;
            *place = Value::from("odd\u{0}text");
            let answer = owner.send(method, &path, odd.to_string()).await?;
            ensure!(
                answer.status < 500,
                "{} {field}: {} {}",
                sample.name,
                answer.status,
                answer.text()
            );
            said += 1;
        }
        // Bytes that are no text at all.
        let broken = [br#"{"x":""#.as_slice(), &[0xff, 0xfe, 0xc3], br#""}"#.as_slice()].concat();
        let answer = owner.send(method, &path, broken).await?;
        ensure!(answer.status < 500, "{}: {} {}", sample.name, answer.status, answer.text());
        said += 1;
    }
    ensure!(said > 20, "{said} requests");
    Ok(said)
}

/// The places of texts in a value, as pointers.
fn texts(value: &Value) -> Vec<String> {
    let below = |key: String, value: &Value| {
        texts(value).into_iter().map(move |rest| format!("/{key}{rest}")).collect::<Vec<_>>()
    };
    let escaped = |key: &String| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::String(_) => vec![String::new()],
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.flat_map(|(number, item)| below(number.to_string(), item)).collect()
        }
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, field)| below(escaped(key), field)).collect()
        }
        _ => Vec::new(),
    }
}
