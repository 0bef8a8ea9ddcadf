//! Requests that name two hosts: control and a node must not read them differently.
//!
//! One host is the API's, the other that of the attacker's own sandbox, where a server
//! answers 204 to everything. If anybody passes such a request on, that server answers in the
//! API's place, and control takes its 204 for the end of another tenant's sandbox.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_peer_proto::behalf::HEADER;
use belljar_testkit::Undecided;
use serde_json::json;

use super::authorization::{EVERYTHING, samples};
use crate::client::{Client, HANG_LIMIT};
use crate::peer::PeerClient;
use crate::platform::Platform;
use crate::wire::{Door, Hosts, Wire, status};
use crate::world::{Belongings, World};

const API: &str = "api.example.com";
const WIRES: [Wire; 2] = [Wire::Http1, Wire::Http2];

/// Answers 204 to everything, and counts what it was asked.
const INSIDE: &str = r#"
import http.server
class Inside(http.server.BaseHTTPRequestHandler):
    hits = 0
    def do_GET(self):
        if self.path == "/hits":
            said = str(Inside.hits).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
            return
        Inside.hits += 1
        self.send_response(204)
        self.end_headers()
    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Inside).serve_forever()
"#;

/// API-01/hosts: on a server by itself.
pub(crate) async fn differ_on_a_server(world: &World) -> anyhow::Result<String> {
    let attacker = Attacker::start(&world.a).await?;
    let victim = Victim::start(&world.b).await?;
    differ(&attacker, &victim, &|_, _, _| Ok(Vec::new())).await
}

/// API-01/hosts/platform: by control.
pub(crate) async fn differ_by_control(_: &World) -> anyhow::Result<String> {
    on_platform(async |platform, attacker, victim| {
        let seen = differ(&attacker, &victim, &|_, _, _| Ok(Vec::new())).await?;
        let nodes = platform.store.nodes().await?;
        ensure!(nodes.iter().all(|node| node.lease_left.is_positive()), "a lease was missed");
        Ok(seen)
    })
    .await
}

/// API-01/hosts/node: on a node, with control's signature. One host is enough there: who
/// comes in a tenant's name is never for a server inside.
pub(crate) async fn never_route_what_control_signed(_: &World) -> anyhow::Result<String> {
    on_platform(async |platform, attacker, victim| {
        let signed = |method: &str, path: &str, body: &str| {
            let behalf = platform.behalf(body, Duration::ZERO)?;
            let word = platform.keyring.sign_request(method, path, &behalf)?;
            Ok(vec![(HEADER.to_owned(), word)])
        };
        let node = Attacker {
            client: platform.client(None),
            sandbox: attacker.sandbox.clone(),
            peer: Some(platform.as_control()?),
        };
        let differing = differ(&node, &victim, &signed).await?;
        let before = attacker.hits().await?;
        let mut asked = 0;
        for sample in samples()?.into_iter().filter(|sample| sample.keyed) {
            let path = sample.at(&victim.theirs);
            for wire in WIRES {
                let headers = signed(&sample.method, &path, &sample.body)?;
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let hosts = Hosts { target: None, fields: &[&attacker.host()] };
                let at = (sample.method.as_str(), path.as_str());
                let seen = status(node.door(), wire, hosts, at, &headers, &sample.body).await?;
                let own = !sample.names_something();
                ensure!(own || (400..500).contains(&seen), "{}: {seen}", sample.name);
                let hits = attacker.hits().await?;
                ensure!(hits == before, "{} by {wire:?} reached the server inside", sample.name);
                asked += 1;
            }
        }
        victim.is_untouched().await?;
        Ok(format!("{differing}; {asked} signed ones with a sandbox's host stayed outside"))
    })
    .await
}

async fn on_platform(
    act: impl AsyncFnOnce(&Platform, Attacker, Victim) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let platform = Platform::start_warm().await?;
    let seen = Box::pin(async {
        let (a, _) = platform.key("a", &EVERYTHING, None).await?;
        let (b, _) = platform.key("b", &EVERYTHING, None).await?;
        let attacker = Attacker::start(&platform.client(Some(&a))).await?;
        let victim = Victim::start(&platform.client(Some(&b))).await?;
        act(&platform, attacker, victim).await
    })
    .await;
    platform.stop().await?;
    seen
}

/// Whoever has a sandbox with a server in it.
struct Attacker {
    client: Client,
    sandbox: String,
    /// Sends with control's certificate, to a node.
    peer: Option<PeerClient>,
}

impl Attacker {
    async fn start(client: &Client) -> anyhow::Result<Self> {
        let sandbox = client.sandbox(&json!({})).await?;
        let call = json!({ "argv": ["python3", "-c", INSIDE], "background": true });
        let calls = format!("/v1/sandboxes/{sandbox}/calls");
        client.json("POST", &calls, &call).await?.expect(201)?;
        let attacker = Self { client: client.clone(), sandbox, peer: None };
        let begin = Instant::now();
        while begin.elapsed() < HANG_LIMIT {
            if attacker.ask_inside("/hits").await?.0 == 200 {
                return Ok(attacker);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(Undecided("the server inside does not answer".to_owned()).into())
    }

    /// The host that leads to the server inside.
    fn host(&self) -> String {
        format!("8080-{}.example.com", self.sandbox)
    }

    async fn ask_inside(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let to = [("e2b-sandbox-id", self.sandbox.as_str()), ("e2b-sandbox-port", "8080")];
        let nobody = Client { key: None, ..self.client.clone() };
        let answer = nobody.send_with("GET", path, &to, "").await?;
        Ok((answer.status, answer.text()))
    }

    async fn hits(&self) -> anyhow::Result<u64> {
        let (status, text) = self.ask_inside("/hits").await?;
        text.parse().with_context(|| format!("{status}: {text}"))
    }

    fn door(&self) -> Door<'_> {
        self.peer.as_ref().map_or(Door::Plain(self.client.address), Door::Peer)
    }

    /// Returns the status of a request with this attacker's key and `more`, which may count once only.
    async fn ask(
        &self,
        wire: Wire,
        hosts: Hosts<'_>,
        (method, path): (&str, &str),
        body: &str,
        more: &More<'_>,
    ) -> anyhow::Result<u16> {
        let mut headers = more(method, path, body)?;
        headers.extend(self.client.key.clone().map(|key| ("x-api-key".to_owned(), key)));
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        status(self.door(), wire, hosts, (method, path), &headers, body).await
    }
}

/// Whoever has something that the attacker knows the ids of.
struct Victim {
    client: Client,
    theirs: Belongings,
}

impl Victim {
    async fn start(client: &Client) -> anyhow::Result<Self> {
        Ok(Self { client: client.clone(), theirs: client.belongings().await? })
    }

    async fn is_untouched(&self) -> anyhow::Result<()> {
        let Belongings { sandbox, checkpoint, template, volume, secret, run, data, .. } =
            &self.theirs;
        let at = format!("/v1/sandboxes/{sandbox}");
        let still = self.client.get(&at).await?.expect(200)?.value()?;
        ensure!(still["state"] == "running", "the victim's sandbox: {still}");
        let file = self.client.get(&format!("{at}/files/content?path=/tmp/secret")).await?;
        ensure!(file.expect(200)?.text() == "the owner's");
        for (path, name) in [
            ("/v1/checkpoints", checkpoint),
            ("/templates", template),
            ("/volumes", volume),
            ("/secrets", secret),
            ("/v1/runs", run),
            ("/v1/data", data),
        ] {
            let listed = self.client.get(path).await?.expect(200)?.text();
            ensure!(listed.contains(name.as_str()), "{name} is not in {path}: {listed}");
        }
        Ok(())
    }
}

type More<'a> = dyn Fn(&str, &str, &str) -> anyhow::Result<Vec<(String, String)>> + 'a;

/// Every keyed route with two hosts, both ways round; `more` headers for each.
async fn differ(attacker: &Attacker, victim: &Victim, more: &More<'_>) -> anyhow::Result<String> {
    let inside = attacker.host();
    let before = attacker.hits().await?;
    let (mut refused, mut same) = (0, 0);
    // What it is all about, before anything else: the end of another tenant's sandbox.
    for below in ["/v1/sandboxes", "/sandboxes"] {
        let path = format!("{below}/{}", victim.theirs.sandbox);
        for wire in WIRES {
            let hosts = Hosts { target: Some(API), fields: &[&inside] };
            let seen = attacker.ask(wire, hosts, ("DELETE", &path), "", more).await?;
            // Longer than a node takes to say what it has, and to hear what it must not have.
            tokio::time::sleep(Duration::from_secs(3)).await;
            victim.is_untouched().await.with_context(|| format!("DELETE by {wire:?}: {seen}"))?;
        }
    }
    for sample in samples()?.into_iter().filter(|sample| sample.keyed) {
        let path = sample.at(&victim.theirs);
        let at = (sample.method.as_str(), path.as_str());
        for wire in WIRES {
            let ask = |target, fields| {
                attacker.ask(wire, Hosts { target, fields }, at, &sample.body, more)
            };
            let user = format!("{inside}@{API}");
            let both: [(Option<&str>, &[&str]); 4] = [
                (Some(API), &[&inside]),
                (Some(&inside), &[API]),
                (None, &[API, &inside]),
                (Some(&user), &[&inside]),
            ];
            for (target, fields) in both {
                if wire == Wire::Http2 && target == Some(user.as_str()) {
                    // The library that speaks HTTP/2 here sends no user information.
                    continue;
                }
                let seen = ask(target, fields).await?;
                let name = &sample.name;
                ensure!(seen == 400, "{name} by {wire:?}, {target:?} and {fields:?}: {seen}");
                refused += 1;
            }
            // The control: one host, said twice, is what it is without the second.
            if sample.method == "GET" {
                let (once, twice) = (ask(None, &[API]).await?, ask(Some(API), &[API]).await?);
                ensure!(once == twice && twice != 400, "{}: {once}, {twice}", sample.name);
                let capital = API.to_uppercase();
                let third = ask(Some(API), &[&capital]).await?;
                ensure!(third == once, "{}: {once}, {third}", sample.name);
                same += 1;
            }
        }
    }
    let hits = attacker.hits().await?;
    ensure!(hits == before, "{} requests reached the attacker's server", hits - before);
    victim.is_untouched().await?;
    // The control: where both say so, the server inside answers.
    for wire in WIRES {
        let hosts = Hosts { target: Some(&inside), fields: &[&inside] };
        let seen = status(attacker.door(), wire, hosts, ("DELETE", "/x"), &[], "").await?;
        ensure!(seen == 204, "the server inside is not reached by {wire:?}: {seen}");
    }
    ensure!(attacker.hits().await? == before + 2, "the server inside does not count");
    ensure!(refused > 500, "only {refused} requests");
    Ok(format!("{refused} requests with two hosts, all 400; {same} with one are as before"))
}
