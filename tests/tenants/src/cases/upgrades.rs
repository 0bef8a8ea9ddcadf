//! Connections that leave HTTP: what passes their bytes on is no request any more, and
//! their places must be theirs all the same.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_server::Settings;
use belljar_testkit::{Undecided, ensure_in_time};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::authorization::EVERYTHING;
use super::floods::{connect_from, send_from};
use crate::client::{Client, HANG_LIMIT};
use crate::platform::{Options, Platform};
use crate::world::World;

/// No other client of the case has either address.
const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

const PLACES: usize = 48;
const PLACES_OF_ONE: usize = 16;
const IDLE: Duration = Duration::from_secs(2);

/// Switches protocols, and says everything again.
const INSIDE: &str = r#"
import http.server
class Inside(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path != "/upgrade":
            self.send_response(204)
            self.end_headers()
            return
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "echo")
        self.end_headers()
        while said := self.connection.recv(4096):
            self.connection.sendall(said)
        self.close_connection = True
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Inside).serve_forever()
"#;

/// API-15/upgraded: one address upgrades more connections than it may have.
pub(crate) async fn keep_their_places(_: &World) -> anyhow::Result<String> {
    let bounds = Settings {
        connections: PLACES,
        connections_per_address: PLACES_OF_ONE,
        idle: IDLE,
        ..Settings::default()
    };
    let platform = Platform::start_with(Options { bounds, ..Options::default() }).await?;
    let seen = Box::pin(upgrade_often(&platform)).await;
    platform.stop().await?;
    seen
}

async fn upgrade_often(platform: &Platform) -> anyhow::Result<String> {
    let (key, _) = platform.key("a", &EVERYTHING, None).await?;
    let host = serve_inside(&platform.client(Some(&key))).await?;
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..2 * PLACES_OF_ONE {
        match upgrade(platform.control, &host).await? {
            Some(stream) => open.push(stream),
            None => refused += 1,
        }
    }
    ensure!(open.len() <= PLACES_OF_ONE, "{} of one address are upgraded", open.len());
    // The control: it has all the places that are its own, for longer than one without a
    // request, and another address is served meanwhile.
    ensure!(open.len() == PLACES_OF_ONE, "only {} are upgraded", open.len());
    let begin = Instant::now();
    while begin.elapsed() < 2 * IDLE {
        let answer = send_from(OTHER, platform.control, &key, "/v1/sandboxes").await?;
        ensure!(answer.status == 200, "another address: {}", answer.status);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for stream in &mut open {
        let mut heard = [0; 4];
        stream.write_all(b"ping").await?;
        let heard_all = tokio::time::timeout(HANG_LIMIT, stream.read_exact(&mut heard)).await;
        heard_all.context("no echo")??;
        ensure!(heard == *b"ping", "{heard:?}");
    }
    let upgraded = open.len();
    drop(open);
    let begin = Instant::now();
    while upgrade(platform.control, &host).await?.is_none() {
        ensure_in_time!(begin.elapsed() < HANG_LIMIT, "places are not given back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(format!("{upgraded} upgraded, {refused} refused"))
}

/// Starts the server in a sandbox. Returns the host that leads to it.
async fn serve_inside(client: &Client) -> anyhow::Result<String> {
    let sandbox = client.sandbox(&json!({})).await?;
    let call = json!({ "argv": ["python3", "-c", INSIDE], "background": true });
    let calls = format!("/v1/sandboxes/{sandbox}/calls");
    client.json("POST", &calls, &call).await?.expect(201)?;
    let to = [("e2b-sandbox-id", sandbox.as_str()), ("e2b-sandbox-port", "8080")];
    let nobody = Client { key: None, ..client.clone() };
    let begin = Instant::now();
    while begin.elapsed() < HANG_LIMIT {
        if nobody.send_with("GET", "/", &to, "").await?.status == 204 {
            return Ok(format!("8080-{sandbox}.example.com"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Undecided("the server inside does not answer".to_owned()).into())
}

/// An upgraded connection to the server inside; none: the port hung up.
async fn upgrade(to: SocketAddr, host: &str) -> anyhow::Result<Option<TcpStream>> {
    let mut stream = connect_from(ATTACKER, to).await?;
    let head = format!(
        "GET /upgrade HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
    );
    // It may hang up before everything was said.
    let _ = stream.write_all(head.as_bytes()).await.is_ok();
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(HANG_LIMIT, stream.read_u8()).await;
        let Ok(byte) = byte.context("no answer")? else { return Ok(None) };
        seen.push(byte);
    }
    let is_upgraded = seen.starts_with(b"HTTP/1.1 101 ");
    ensure!(is_upgraded, "not upgraded: {}", String::from_utf8_lossy(&seen));
    Ok(Some(stream))
}
