//! Requests and connections that are only there to take something from others: the
//! database, places at a port, or time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_domain::SandboxId;
use belljar_server::Settings;
use belljar_store::{Quota, SandboxState, Store};
use belljar_testkit::{Flood, ensure_in_time};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::cases::authorization::EVERYTHING;
use crate::client::{Answer, Client, HANG_LIMIT, exchange, whole};
use crate::platform::{Options, Platform};
use crate::world::World;

const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The lease of a node, and some time.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(9);

/// The duration of the flood while sandboxes are created.
const FLOOD: Duration = Duration::from_secs(2);

/// BUS-09: wrong keys take every connection to the database that they get.
pub(crate) async fn leases_outlast_wrong_keys(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(flood(&platform)).await;
    platform.stop().await?;
    seen
}

async fn flood(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    let mut sandboxes = Vec::new();
    for _ in 0..5 {
        sandboxes.push(owner.sandbox(&json!({})).await?);
    }
    let watch = LeaseWatch::begin(platform).await?;
    // The worst case: each look-up takes as long as a statement may, since another holds the
    // table. So many as there are connections wait for it, and everybody else for them.
    let flood = Flood { connections: 8, at_once: 32, per_second: 500, ..flood_of(platform) };
    let flooding = flood.start();
    platform.hold_table("key", LONGER_THAN_A_LEASE).await?;
    flooding.stop().await?;
    let held = watch.shortest();
    ensure!(held > Duration::ZERO, "with the table held, a lease ran out");
    // And as it comes. Here client, control, node and suite are one thread; F-67 has processes.
    let flood = Flood { connections: 30, at_once: 2, per_second: 300, ..flood_of(platform) };
    let flooding = flood.start();
    let mut longest = Duration::ZERO;
    let flooded_since = Instant::now();
    while sandboxes.len() < 10 || flooded_since.elapsed() < FLOOD {
        let begin = Instant::now();
        sandboxes.push(owner.sandbox(&json!({})).await?);
        longest = longest.max(begin.elapsed());
        tokio::time::sleep(FLOOD / 20).await;
    }
    let flooded = flooding.stop().await?;
    let shortest = watch.end().await?;
    ensure!(shortest > Duration::ZERO, "a lease ran out");
    let refused = flooded.of_status(401) + flooded.of_status(429);
    ensure!(refused > 100, "there was no flood: {flooded:?}");
    ensure!(flooded.of_status(200) == 0, "{flooded:?}");
    for sandbox in &sandboxes {
        owner.get(&format!("/v1/sandboxes/{sandbox}")).await?.expect(200)?;
    }
    Ok(format!(
        "{:.0} wrong keys a second, {} sandboxes kept, leases never below {:.1} s, \
         slowest create {:.2} s",
        flooded.per_second(),
        sandboxes.len(),
        shortest.as_secs_f64(),
        longest.as_secs_f64(),
    ))
}

fn flood_of(platform: &Platform) -> Flood {
    Flood { to: platform.control, from: ATTACKER, connections: 1, at_once: 1, per_second: 1 }
}

/// Looks at the lease of the node all the time, by a connection of its own.
struct LeaseWatch {
    stop: Arc<AtomicBool>,
    shortest: Arc<std::sync::Mutex<Duration>>,
    watching: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl LeaseWatch {
    async fn begin(platform: &Platform) -> anyhow::Result<Self> {
        let store = Store::connect(&platform.database, 1).await?;
        let (stop, shortest) = (Arc::<AtomicBool>::default(), Duration::from_secs(3600));
        let shortest = Arc::new(std::sync::Mutex::new(shortest));
        let (stopped, seen) = (stop.clone(), shortest.clone());
        let watching = tokio::spawn(async move {
            while !stopped.load(Ordering::Relaxed) {
                for node in store.nodes().await? {
                    let left = Duration::try_from(node.lease_left).unwrap_or_default();
                    if let Ok(mut seen) = seen.lock() {
                        *seen = left.min(*seen);
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        });
        Ok(Self { stop, shortest, watching })
    }

    fn shortest(&self) -> Duration {
        self.shortest.lock().map(|shortest| *shortest).unwrap_or_default()
    }

    async fn end(self) -> anyhow::Result<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let shortest = self.shortest();
        self.watching.await??;
        Ok(shortest)
    }
}

/// API-20: limits that are for one address, or one tenant.
pub(crate) async fn limits_are_not_evaded(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(evade(&platform)).await;
    platform.stop().await?;
    seen
}

async fn evade(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    owner.get("/v1/sandboxes").await?.expect(200)?;
    // One wrong key is one wrong key.
    let wrong = |number: u64| format!("e2b_{number:040x}");
    let stranger = platform.client(Some(&wrong(1 << 40)));
    stranger.get("/v1/sandboxes").await?.expect(401)?;
    // Many of them, each over another connection and for somebody else, as a header says.
    let flood = Flood { connections: 16, at_once: 4, per_second: 2000, ..flood_of(platform) };
    let flooding = flood.start();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let flooded = flooding.stop().await?;
    let (asked, refused) = (flooded.of_status(401), flooded.of_status(429));
    let allowed = 200.0 + 20.0 * flooded.took.as_secs_f64() + 64.0;
    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    let is_bounded = (asked as f64) <= allowed;
    ensure!(is_bounded, "{asked} wrong keys of one address were looked up: {flooded:?}");
    ensure!(refused > 0, "none was refused unseen: {flooded:?}");
    // A few are forgiven while this is asked.
    let mut limited = stranger.get("/v1/sandboxes").await?;
    for number in 0..200 {
        if limited.status == 429 {
            break;
        }
        limited = platform.client(Some(&wrong((2 << 40) + number))).get("/v1/sandboxes").await?;
    }
    ensure!(limited.status == 429, "{} {}", limited.status, limited.text());
    ensure!(limited.code()? == "too_many_wrong_keys", "{}", limited.text());
    ensure!(limited.headers.contains_key("retry-after"), "{:?}", limited.headers);
    // The controls: a key that was good before is good from there, and other addresses are
    // not concerned.
    owner.get("/v1/sandboxes").await?.expect(200)?;
    let path = "/v1/sandboxes";
    let answer = send_from(OTHER, platform.control, &wrong(3 << 40), path).await?;
    ensure!(answer.status == 401, "another address: {}", answer.status);
    let (new, _) = platform.key("b", &EVERYTHING, None).await?;
    let answer = send_from(OTHER, platform.control, &new, path).await?;
    ensure!(answer.status == 200, "a new key from another address: {}", answer.status);

    // What is a tenant's is a tenant's: with many keys, connections and headers.
    let quota = Quota { sandboxes: 3, longest_life: Duration::from_secs(3600) };
    platform.store.put_tenant("a", None, quota).await?;
    let mut clients = vec![owner.clone()];
    for _ in 0..3 {
        let (key, _) = platform.key("a", &EVERYTHING, None).await?;
        let answer = send_from(OTHER, platform.control, &key, path).await?;
        ensure!(answer.status == 200, "a new key: {}", answer.status);
        clients.push(platform.client(Some(&key)));
    }
    let asked = clients.iter().cycle().take(12).enumerate().map(async |(number, client)| {
        let from = format!("10.9.8.{number}");
        let headers = [("x-forwarded-for", from.as_str()), ("x-real-ip", from.as_str())];
        client.send_with("POST", "/v1/sandboxes", &headers, "{}").await
    });
    let answers = futures_util::future::join_all(asked).await;
    let answers = answers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let made = answers.iter().filter(|answer| answer.is_success()).count();
    let over = answers.iter().filter(|answer| answer.status == 429).count();
    ensure!(made == 3 && made + over == answers.len(), "{made} made, {over} refused");
    Ok(format!(
        "{asked_total} wrong keys looked up, {refused} refused unseen; 3 of 12 creates",
        asked_total = flooded.of_status(401)
    ))
}

/// One request by a connection that comes from this address.
pub(super) async fn send_from(
    from: IpAddr,
    to: SocketAddr,
    key: &str,
    path: &str,
) -> anyhow::Result<Answer> {
    let host = to.to_string();
    let headers = [("host", host.as_str()), ("x-api-key", key)];
    let answer = exchange(connect_from(from, to).await?, "GET", path, &headers, "".into());
    whole(tokio::time::timeout(HANG_LIMIT, answer).await??).await
}

pub(super) async fn connect_from(from: IpAddr, to: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    Ok(tokio::time::timeout(HANG_LIMIT, socket.connect(to)).await??)
}

const PLACES: usize = 48;
const PLACES_OF_ONE: usize = 24;
const IDLE: Duration = Duration::from_secs(2);

/// API-15: connections that say nothing, little, or too much.
pub(crate) async fn connections_are_bounded(world: &World) -> anyhow::Result<String> {
    let on_server = say_too_much(&world.a).await.context("on a server")?;
    let bounds = Settings {
        connections: PLACES,
        connections_per_address: PLACES_OF_ONE,
        idle: IDLE,
        ..Settings::default()
    };
    let platform = Platform::start_with(Options { bounds, ..Options::default() }).await?;
    let seen = Box::pin(connect_often(&platform)).await;
    platform.stop().await?;
    Ok(format!("{on_server}; {}", seen?))
}

async fn connect_often(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let owner = platform.client(Some(&key));
    say_too_much(&owner).await.context("by control")?;
    let sandbox: SandboxId = owner.sandbox(&json!({})).await?.parse()?;
    let watch = LeaseWatch::begin(platform).await?;
    // Twice as many connections as there are places, from one address.
    let mut silent = Vec::new();
    for _ in 0..2 * PLACES {
        silent.push(connect_from(ATTACKER, platform.control).await?);
    }
    let answer = send_from(OTHER, platform.control, &key, "/v1/sandboxes").await?;
    ensure!(answer.status == 200, "another address: {}", answer.status);
    // Those that speak HTTP/2, answer pings and ask for nothing, are sent away. The first
    // ones hold their places for as long as they may say nothing.
    drop(silent);
    let begin = Instant::now();
    let stream = TokioIo::new(connect_from(OTHER, platform.control).await?);
    let (sender, connection) = hyper::client::conn::http2::handshake::<
        _,
        _,
        http_body_util::Full<bytes::Bytes>,
    >(TokioExecutor::new(), stream)
    .await?;
    let closed = tokio::time::timeout(HANG_LIMIT, connection).await;
    ensure_in_time!(closed.is_ok(), "an idle HTTP/2 connection is open after {HANG_LIMIT:?}");
    let idle = begin.elapsed();
    drop(sender);
    // And every place of the port taken: nodes have a port of their own.
    let mut silent = Vec::new();
    for from in [ATTACKER, OTHER] {
        for _ in 0..PLACES_OF_ONE {
            silent.push(connect_from(from, platform.control).await?);
        }
    }
    tokio::time::sleep(LONGER_THAN_A_LEASE).await;
    let shortest = watch.end().await?;
    ensure!(shortest > Duration::ZERO, "a lease ran out");
    let row = platform.store.sandbox("a", &sandbox).await?.context("no row")?;
    ensure!(row.state == SandboxState::Running, "{row:?}");
    drop(silent);
    let begin = Instant::now();
    while owner.get("/v1/sandboxes").await.is_err() {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "places are not given back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(format!(
        "idle HTTP/2 closed after {:.1} s, lease never below {:.1} s",
        idle.as_secs_f64(),
        shortest.as_secs_f64()
    ))
}

/// Heads that are too large, come too slowly, or never end.
async fn say_too_much(client: &Client) -> anyhow::Result<String> {
    let key = client.key.as_deref().context("no key")?;
    let head =
        format!("GET /v1/sandboxes HTTP/1.1\r\nHost: {}\r\nX-API-Key: {key}\r\n", client.address);
    // A megabyte of headers.
    let mut large = head.clone();
    for number in 0..1024 {
        large.push_str(&format!("x-{number}: {}\r\n", "a".repeat(1000)));
    }
    let status = speak(client.address, &format!("{large}\r\n")).await?;
    ensure!(matches!(status, None | Some(431 | 400)), "a megabyte of headers: {status:?}");
    // A chunked body whose extensions never end.
    let body = format!(
        "POST /v1/sandboxes HTTP/1.1\r\nHost: {}\r\nX-API-Key: {key}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;{}",
        client.address,
        "x=y;".repeat(64 << 10)
    );
    let status = speak(client.address, &body).await?;
    ensure!(status.is_none_or(|status| status >= 400), "endless extensions: {status:?}");
    // The control: the same request, as it should be.
    let status = speak(client.address, &format!("{head}\r\n")).await?;
    ensure!(status == Some(200), "{status:?}");
    // A head that comes a letter at a time is cut off, and nobody waits for it meanwhile.
    let mut slow = TcpStream::connect(client.address).await?;
    slow.write_all(head.as_bytes()).await?;
    let begin = Instant::now();
    loop {
        client.get("/v1/sandboxes").await?.expect(200)?;
        let sent = slow.write_all(b"x").await;
        let mut seen = [0; 64];
        let read = tokio::time::timeout(Duration::from_millis(500), slow.read(&mut seen)).await;
        if sent.is_err() || matches!(read, Ok(Ok(0) | Err(_))) {
            break;
        }
        if let Ok(Ok(_)) = read {
            let said = String::from_utf8_lossy(&seen).into_owned();
            ensure!(said.starts_with("HTTP/1.1 4"), "{said}");
            break;
        }
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "a slow head is still read");
    }
    Ok(format!("a slow head is cut off after {:.0} s", begin.elapsed().as_secs_f64()))
}

/// Says this, and answers the status of what comes back; none: it hung up.
async fn speak(to: SocketAddr, said: &str) -> anyhow::Result<Option<u16>> {
    let mut stream = TcpStream::connect(to).await?;
    // It may hang up before everything was said.
    let _ = stream.write_all(said.as_bytes()).await.is_ok();
    let mut seen = vec![0; 1024];
    let read = tokio::time::timeout(HANG_LIMIT, stream.read(&mut seen)).await;
    let read = read.context("no answer")?.unwrap_or_default();
    let seen = String::from_utf8_lossy(&seen[..read]).into_owned();
    let status = seen.split(' ').nth(1).map(str::parse).transpose();
    status.with_context(|| format!("not HTTP: {seen}"))
}
