//! A node that was taken over answers control: about sandboxes of others, at any length,
//! with anything.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use axum::body::Body;
use belljar_domain::SandboxId;
use belljar_listen::{Doors, Settings};
use belljar_peer_proto::enrolment::{ENROL, RENEW};
use belljar_peer_proto::member::{REGISTER, SYNC};
use belljar_server::Cluster;
use belljar_testkit::ensure_in_time;
use http::{Request, Response};
use serde_json::{Value, json};

use super::stolen::{Thief, sync};
use crate::cases::authorization::EVERYTHING;
use crate::client::{Client, HANG_LIMIT};
use crate::platform::Platform;
use crate::world::World;

/// BUS-05: lists, figures and events of a hostile node.
pub(crate) async fn nodes_answer_for_themselves(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(answer_for_others(&platform)).await;
    platform.stop().await?;
    seen
}

/// What the hostile node answers to everything.
type Script = Arc<Mutex<Answer>>;

#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    keys: String,
    kind: &'static str,
    body: String,
}

impl Answer {
    fn json(keys: &str, body: &Value) -> Self {
        let (keys, body) = (keys.to_owned(), body.to_string());
        Self { status: 200, keys, kind: "application/json", body }
    }

    fn response(&self) -> Response<Body> {
        let response = Response::builder()
            .status(self.status)
            .header("content-type", self.kind)
            .header("belljar-keys", &self.keys)
            .header("belljar-behalf", "planted");
        response.body(Body::from(self.body.clone())).unwrap_or_default()
    }
}

async fn answer_for_others(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let victim = owner.sandbox(&json!({})).await?;
    let thief = Thief::of(platform).await?;
    let own = SandboxId::on_node(thief.identity.number(), [5; 16]).to_string();
    let nothing = Answer::json("", &json!({ "items": [] }));
    let script: Script = Arc::new(Mutex::new(nothing.clone()));
    let (address, _doors) = serve(&thief, script.clone())?;
    let me = thief.register(&format!("https://{address}")).await?;
    let say = |answer: Answer| *script.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    // It keeps its lease, as it may.
    let number = thief.identity.number();
    let renewing = async {
        for sequence in 2.. {
            let mut message = sync(number, me.epoch, &[])?;
            message["sequence"] = ((1u64 << 40) + sequence).into();
            thief.say(SYNC, &message).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        anyhow::Ok(())
    };
    let asking = async {
        let items = json!({ "items": [
            { "id": victim, "state": "planted" }, { "id": own, "state": "own" },
        ] });
        let keys = format!("9.{victim},8.{own}");
        say(Answer::json(&keys, &items));
        let list = wait_for(&owner, "/v1/sandboxes", &own).await?;
        let shown: Vec<_> = list["items"].as_array().context("no list")?.iter().collect();
        let of = |id: &str| shown.iter().filter(|item| item["id"] == id).collect::<Vec<_>>();
        ensure!(of(&victim).len() == 1 && of(&victim)[0]["state"] == "running", "{list}");
        // The control: of its own sandboxes it says what it likes.
        ensure!(of(&own).len() == 1 && of(&own)[0]["state"] == "own", "{list}");
        // The key of one and the body of another.
        let swapped = json!({ "items": [{ "id": victim, "state": "planted" }] });
        say(Answer::json(&format!("9.{own}"), &swapped));
        let list = owner.get("/v1/sandboxes").await?.expect(200)?.text();
        ensure!(!list.contains("planted"), "{list}");
        // It cannot break the list of everybody, or fill control's memory.
        for answer in [
            Answer { status: 500, ..nothing.clone() },
            Answer { body: "nonsense".to_owned(), ..nothing.clone() },
            Answer { body: format!("[{}1]", "1,".repeat(6 << 20)), ..nothing.clone() },
        ] {
            say(answer);
            let list = owner.get("/v1/sandboxes").await?.expect(200)?;
            ensure!(list.text().contains(&victim), "{}", list.text());
            let incomplete = list.headers.get("belljar-incomplete");
            ensure!(incomplete.is_some_and(|count| count == "1"), "{:?}", list.headers);
        }
        // Nobody hears of an end that did not happen.
        let ended = |id: &str| {
            let event = json!({
                "id": 1, "at": "2026-01-01T00:00:00Z", "sandbox": id, "kind": "ended",
            });
            format!("id: 1\nevent: ended\ndata: {event}\n\n")
        };
        // Some clients end lines where others do not.
        let hidden = format!(": \r{}", ended(&victim).replace('\n', "\r"));
        let body = [ended(&victim), format!("{hidden}\n\n"), ended(&own)].concat();
        say(Answer { kind: "text/event-stream", body, ..nothing.clone() });
        let mut events = owner.open("GET", "/v1/events", &[], "").await?;
        events.until(&own).await?;
        ensure!(!events.seen().contains(&victim), "{}", events.seen());
        // What only control says does not come from a node.
        say(nothing.clone());
        let answer = owner.get(&format!("/v1/sandboxes/{own}")).await?.expect(200)?;
        ensure!(!answer.headers.contains_key("belljar-behalf"), "{:?}", answer.headers);
        owner.get(&format!("/v1/sandboxes/{victim}")).await?.expect(200)?;
        Ok("planted items, events, errors and 12 MB of nonsense changed nothing".to_owned())
    };
    tokio::select! {
        seen = asking => seen,
        ended = renewing => { ended?; anyhow::bail!("the lease was given up") }
    }
}

fn serve(thief: &Thief, script: Script) -> anyhow::Result<(SocketAddr, Doors)> {
    let cluster = Cluster::new(thief.identity.clone());
    let listener = cluster.listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = listener.address().context("it has no address")?;
    let doors = Doors::open(vec![listener], Settings::default(), move |_: Request<Body>| {
        let answer = script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        async move { answer.response() }
    });
    Ok((address, doors))
}

/// Asks until the answer has this text in it: control hears of a node within a second.
async fn wait_for(client: &Client, path: &str, text: &str) -> anyhow::Result<Value> {
    let begin = Instant::now();
    loop {
        let answer = client.get(path).await?.expect(200)?;
        if answer.text().contains(text) {
            return answer.value();
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "never: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// BUS-05/poison: messages of a node that nobody can read, or that never end.
pub(crate) async fn poison_is_refused(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(say_poison(&platform)).await;
    platform.stop().await?;
    seen
}

async fn say_poison(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let sandbox = owner.sandbox(&json!({})).await?;
    let thief = Thief::of(platform).await?;
    let me = thief.register("https://127.0.0.1:9").await?;
    let good = sync(me.number, me.epoch, &[])?;
    let mut poison: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("no text", vec![0xff; 64]),
        ("a deep list", vec![b'['; 1 << 20]),
        ("a deep object", br#"{"a":"#.repeat(1 << 18)),
        ("17 MiB", format!("{{\"name\":\"{}\"}}", "a".repeat(17 << 20)).into_bytes()),
        ("another schema", br#"{"number":"one"}"#.to_vec()),
        ("huge numbers", br#"{"number":1e400,"epoch":-1}"#.to_vec()),
    ];
    // Everything else is as it should be, and one field is not.
    for field in ["epoch", "sequence", "has", "ended", "load"] {
        let mut message = good.clone();
        message[field] = json!("\u{0}");
        poison.push((field, message.to_string().into_bytes()));
    }
    for path in [REGISTER, SYNC, ENROL, RENEW] {
        for (name, body) in &poison {
            let answer = thief.control.send("POST", path, &[], body.clone()).await;
            // A body that is too long may be answered before it is sent.
            let Ok(answer) = answer else { continue };
            let is_refused = (400..500).contains(&answer.status) || path == RENEW;
            ensure!(is_refused && answer.status < 500, "{path} {name}: {}", answer.status);
        }
    }
    // The control: the message itself is heard, and nobody else has suffered.
    let (status, said) = thief.say(SYNC, &good).await?;
    ensure!(status == 200 && said.get("renewed").is_some(), "{status} {said}");
    owner.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?;
    owner.sandbox(&json!({})).await?;
    Ok(format!("{} kinds at 4 routes refused", poison.len()))
}
