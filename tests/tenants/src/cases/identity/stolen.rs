//! The key of one node, in the wrong hands: everything that a thief could ask with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::{EndReason, NodeNumber, SandboxId};
use belljar_identity::{NodeIdentity, Peer};
use belljar_listen::{Doors, Settings};
use belljar_peer_proto::behalf::HEADER;
use belljar_peer_proto::enrolment::{ENROL, RENEW, Trust};
use belljar_peer_proto::member::{
    Gone, Load, REGISTER, Register, Registered, STORED, SYNC, Sync, Synced,
};
use belljar_server::{Cluster, Listener};
use belljar_store::{NewSandbox, SandboxState};
use belljar_testkit::ensure_in_time;
use serde_json::{Value, json};

use super::sign_with;
use crate::cases::authorization::{EVERYTHING, samples};
use crate::client::{Client, HANG_LIMIT};
use crate::peer::{PeerClient, is_refused_handshake};
use crate::platform::{NODE, Platform};
use crate::world::World;

const THIEF: &str = "two";

/// A machine that is enrolled as [`THIEF`], and whoever has taken it over.
pub(super) struct Thief {
    pub(super) identity: NodeIdentity,
    /// To control's port for nodes.
    pub(super) control: PeerClient,
    /// To the other node's port for control.
    node: PeerClient,
}

impl Thief {
    pub(super) async fn of(platform: &Platform) -> anyhow::Result<Self> {
        let identity = platform.enrol(THIEF).await?;
        let endpoint = identity.endpoint();
        let control = PeerClient::new(endpoint, platform.node_port, Peer::Control)?;
        let victim = Peer::Node(platform.identity.number());
        let node = PeerClient::new(endpoint, platform.node, victim)?;
        Ok(Self { identity, control, node })
    }

    pub(super) async fn say(&self, path: &str, message: &Value) -> anyhow::Result<(u16, Value)> {
        let answer = self.control.send("POST", path, &[], message.to_string()).await?;
        Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
    }

    /// Registers as itself, which it may.
    pub(super) async fn register(&self, address: &str) -> anyhow::Result<Registered> {
        let (status, said) = self.say(REGISTER, &register(THIEF, address)?).await?;
        ensure!(status == 200, "{status} {said}");
        Ok(serde_json::from_value(said)?)
    }
}

fn register(name: &str, address: &str) -> anyhow::Result<Value> {
    let register = Register {
        name: name.to_owned(),
        address: address.to_owned(),
        tiers: Vec::new(),
        slots: 1,
        max_limits: None,
        has: Vec::new(),
        protocol: 0,
    };
    Ok(serde_json::to_value(register)?)
}

pub(super) fn sync(number: NodeNumber, epoch: u64, ended: &[&SandboxId]) -> anyhow::Result<Value> {
    let gone = |id: &&SandboxId| Gone {
        id: (*id).clone(),
        reason: EndReason::Killed,
        ran_ms: u64::MAX / 2,
    };
    let sync = Sync {
        number,
        epoch,
        is_whole: false,
        has: Vec::new(),
        ended: ended.iter().map(gone).collect(),
        load: Load::default(),
        sequence: 1 << 40,
        trust: Trust::default().version(),
    };
    Ok(serde_json::to_value(sync)?)
}

/// BUS-03: with a node's key, every route of control and of another node.
pub(crate) async fn opens_nothing_of_others(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(try_every_route(&platform)).await;
    platform.stop().await?;
    seen
}

async fn try_every_route(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let theirs = owner.belongings().await?;
    let thief = Thief::of(platform).await?;
    let (public, tenants) = (platform.client(None), Client { address: platform.public, key: None });
    let mut refused = 0;
    for sample in samples()? {
        let (method, path, body) = (&sample.method, sample.at(&theirs), sample.body.as_str());
        let said = platform.behalf(body, Duration::ZERO)?;
        let word = sign_with(thief.identity.key(), method, &path, &said)?;
        let headers = [(HEADER, word.as_str())];
        // Control's port for nodes serves no tenant.
        let answer = thief.control.send(method, &path, &headers, body.to_owned()).await?;
        ensure!(answer.status == 404, "control: {}: {}", sample.name, answer.status);
        // The other node lets nobody but control in.
        match thief.node.send(method, &path, &headers, body.to_owned()).await {
            Ok(answer) => anyhow::bail!("the node: {}: {}", sample.name, answer.status),
            Err(error) => ensure!(is_refused_handshake(&error), "{error:?}"),
        }
        refused += 2;
        if !sample.keyed {
            continue;
        }
        for client in [&public, &tenants] {
            let answer = client.send_with(method, &path, &headers, body.to_owned()).await?;
            ensure!(answer.status == 401, "{}: {}", sample.name, answer.status);
            refused += 1;
        }
    }
    let path = format!("/v1/sandboxes/{}", theirs.sandbox);
    let still = owner.get(&path).await?.expect(200)?.value()?;
    ensure!(still["state"] == "running", "{still}");
    // The controls: the certificate opens what is its own, and control's opens the node.
    let registered = thief.register("https://127.0.0.1:9").await?;
    ensure!(registered.number == thief.identity.number(), "{registered:?}");
    let said = platform.behalf("", Duration::ZERO)?;
    let word = platform.keyring.sign_request("GET", &path, &said)?;
    platform.as_control()?.send("GET", &path, &[(HEADER, &word)], "").await?.expect(200)?;
    Ok(format!("{refused} requests refused; it registers as itself"))
}

/// BUS-03/speak: registering, renewing and syncing for another node, or none.
pub(crate) async fn speaks_for_itself_only(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(speak_for_others(&platform)).await;
    platform.stop().await?;
    seen
}

async fn speak_for_others(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let victims: SandboxId = owner.sandbox(&json!({})).await?.parse()?;
    is_running(platform, &victims).await?;
    let thief = Thief::of(platform).await?;
    let me = thief.register("https://127.0.0.1:9").await?;
    let own = SandboxId::on_node(me.number, [9; 16]);
    let new = NewSandbox {
        id: &own,
        tenant: "b",
        template: "base",
        tier: None,
        facts: &Value::Null,
        request: None,
    };
    platform.store.admit(&new, me.number).await?;
    let victim = platform.identity.number();
    let epoch = epoch_of(platform, victim).await?;
    let both = [&victims, &own];
    let refused = [
        (REGISTER, register(NODE, "https://127.0.0.1:9")?),
        (REGISTER, register("three", "https://127.0.0.1:9")?),
        (REGISTER, register(THIEF, "http://127.0.0.1:9")?),
        (REGISTER, register(THIEF, "https://127.0.0.1:9/path")?),
        (REGISTER, json!({})),
        (SYNC, sync(victim, epoch, &both)?),
        (SYNC, sync(victim, epoch + 1, &both)?),
        (SYNC, json!("nonsense")),
        (ENROL, json!({ "name": NODE })),
        (STORED, json!({ "number": victim, "stored": [] })),
        (
            STORED,
            json!({ "number": me.number, "stored": [{ "tenant": "b", "kind": "gold", "bytes": 1 }] }),
        ),
        ("/internal/nodes/other", json!({})),
    ];
    let count = refused.len();
    for (path, message) in refused {
        let (status, said) = thief.say(path, &message).await?;
        ensure!([400, 403, 404].contains(&status), "{path} {message}: {status} {said}");
    }
    // Without a certificate, with one of another platform, and without TLS.
    let nobody = belljar_identity::Endpoint::new(belljar_identity::PlatformClock::default());
    let authorities = platform.store.authorities().await?.0;
    let authority = authorities.first().context("no authority")?.certificate.clone().into();
    nobody.set_trust([&authority])?;
    let nobody = PeerClient::new(&nobody, platform.node_port, Peer::Control)?;
    let plain = Client { address: platform.node_port, key: None };
    let message = sync(victim, epoch, &both)?.to_string();
    for path in [REGISTER, SYNC, RENEW, STORED] {
        let answer = nobody.send("POST", path, &[], message.clone()).await?;
        ensure!(answer.status == 401, "{path}: {}", answer.status);
        let answer = platform.client(None).send("POST", path, message.clone()).await?;
        ensure!(answer.status == 401, "{path} for clients: {}", answer.status);
        let answer = plain.send("POST", path, message.clone()).await;
        ensure!(answer.is_err(), "{path} without TLS: {answer:?}");
    }
    // Of what it says it keeps, it is believed about the tenant that has a sandbox on it.
    let volumes = |tenant: &str| json!({ "tenant": tenant, "kind": "volumes", "bytes": 1_000_000 });
    let message = json!({ "number": me.number, "stored": [volumes("a"), volumes("b")] });
    let (status, said) = thief.say(STORED, &message).await?;
    ensure!(status == 200 && said["taken"] == 1, "{status} {said}");
    // The control: in its own name the same message ends what is its own, and no more.
    let (status, said) = thief.say(SYNC, &sync(me.number, me.epoch, &both)?).await?;
    let synced: Synced = serde_json::from_value(said.clone())?;
    ensure!(status == 200 && matches!(synced, Synced::Renewed { .. }), "{status} {said}");
    let row = platform.store.sandbox("b", &own).await?.context("its own row")?;
    ensure!(row.state == SandboxState::Ended, "{row:?}");
    let row = platform.store.sandbox("a", &victims).await?.context("the victim's row")?;
    ensure!(row.state == SandboxState::Running, "{row:?}");
    owner.get(&format!("/v1/sandboxes/{victims}")).await?.expect(200)?;
    // What it says it ran is charged for no longer than it was there.
    let charged = platform.store.entries("b", 0, 10).await?;
    let ran = charged.iter().filter_map(|entry| entry.detail["ran_ms"].as_u64()).max();
    ensure!(ran.is_some_and(|ran| ran < 3_600_000), "charged for {ran:?} ms");
    ensure!(epoch_of(platform, victim).await? == epoch, "the victim was put out");
    Ok(format!("{count} messages for others refused; its own sandbox ended, the other's not"))
}

/// Waits until the node has said of the tenant `a`'s new sandbox that it runs: a moment after
/// the create is answered.
async fn is_running(platform: &Platform, id: &SandboxId) -> anyhow::Result<()> {
    let begin = Instant::now();
    while platform.store.sandbox("a", id).await?.context("no row")?.state != SandboxState::Running {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "its node says nothing of it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn epoch_of(platform: &Platform, number: NodeNumber) -> anyhow::Result<u64> {
    let nodes = platform.store.nodes().await?;
    let node = nodes.iter().find(|node| node.number == number.get()).context("no such node")?;
    ensure!(node.lease_left.is_positive(), "its lease is out");
    Ok(node.epoch)
}

/// BUS-03/address: listening where control looks for another node.
pub(crate) async fn gets_no_requests(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(take_the_place(&platform)).await;
    platform.stop().await?;
    seen
}

/// The thief has the victim's address (its own row says so): control must not talk to it.
async fn take_the_place(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let sandbox = owner.sandbox(&json!({})).await?;
    let path = format!("/v1/sandboxes/{sandbox}");
    owner.get(&path).await?.expect(200)?;
    let thief = Thief::of(platform).await?;
    let heard = Heard::listen(&thief.identity)?;
    // The worst case: DNS or a route is the thief's. Here the row itself is changed, and the
    // victim does not speak meanwhile: it would end its sandboxes, and say where it is.
    platform.silence_node();
    let victim = platform.identity.number();
    platform.set_address(victim, &format!("https://{}", heard.address))?;
    let begin = Instant::now();
    loop {
        let answer = owner.get(&path).await?;
        ensure!(!answer.is_success() || begin.elapsed() < HANG_LIMIT, "never asked there");
        if !answer.is_success() {
            ensure!(answer.status == 503, "{} {}", answer.status, answer.text());
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(heard.requests() == 0, "the thief heard {} requests", heard.requests());
    // The control: what is at the thief's own address is the thief's to hear.
    thief.register(&format!("https://{}", heard.address)).await?;
    let begin = Instant::now();
    let own = SandboxId::on_node(thief.identity.number(), [3; 16]);
    while heard.requests() == 0 {
        owner.get(&format!("/v1/sandboxes/{own}")).await?;
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "control never asked the thief");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok("control hung up on the wrong certificate; the thief heard its own requests only".to_owned())
}

/// A server with a node's certificate that counts what it is asked.
struct Heard {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
    _doors: Doors,
}

impl Heard {
    fn listen(identity: &NodeIdentity) -> anyhow::Result<Self> {
        let listener: Listener =
            Cluster::new(identity.clone()).listen(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = listener.address().context("it has no address")?;
        let count = Arc::<AtomicUsize>::default();
        let counted = count.clone();
        let doors = Doors::open(vec![listener], Settings::default(), move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { http::Response::new(axum::body::Body::empty()) }
        });
        Ok(Self { address, count, _doors: doors })
    }

    fn requests(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// BUS-03/revoked: a node's key after an operator revoked it.
pub(crate) async fn revoked_is_nobody(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(revoke(&platform)).await;
    platform.stop().await?;
    seen
}

async fn revoke(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let sandbox = owner.sandbox(&json!({})).await?;
    let path = format!("/v1/sandboxes/{sandbox}");
    owner.get(&path).await?.expect(200)?;
    let thief = Thief::of(platform).await?;
    // The controls: before, it may speak for itself.
    let me = thief.register("https://127.0.0.1:9").await?;
    let messages = [
        (REGISTER, register(THIEF, "https://127.0.0.1:9")?),
        (SYNC, sync(me.number, me.epoch, &[])?),
        (RENEW, Value::Null),
    ];
    let (status, said) = thief.say(RENEW, &Value::Null).await?;
    ensure!(status == 200 && said["expires_at"].is_u64(), "{status} {said}");
    let lost = platform.store.revoke_node(THIEF).await?;
    ensure!(lost.is_some_and(|lost| lost.is_empty()), "it had nothing");
    for (path, message) in &messages {
        let (status, said) = thief.say(path, message).await?;
        let is_stale = status == 200 && said.get("stale").is_some();
        ensure!(is_stale || status == 403, "{path}: {status} {said}");
    }
    owner.get(&path).await?.expect(200)?;
    // The node that runs sandboxes, revoked, is given up with what is on it.
    let lost = platform.store.revoke_node(NODE).await?.context("no such node")?;
    ensure!(lost.iter().any(|id| id.as_str() == sandbox), "{lost:?}");
    let begin = Instant::now();
    while owner.get(&path).await?.status != 404 {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "control still asks it");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let after = begin.elapsed();
    // It ends its sandboxes by itself, and cannot come back.
    let private = platform.as_control()?;
    let begin = Instant::now();
    loop {
        let answer = private.send("GET", "/v1/health", &[], "").await?;
        if answer.headers.contains_key("belljar-absent") {
            break;
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "the node still serves");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(format!("refused at once; its sandboxes gone after {:.1} s", after.as_secs_f64()))
}
