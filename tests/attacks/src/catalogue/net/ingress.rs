//! From outside in: the ports of a sandbox, and what a caller's request carries.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_node::PoolSize;
use belljar_sandboxes::{Actions, Config, Keys};
use belljar_server::{EngineGone, Listener, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::attack::Seen;
use crate::harness::findings::Findings;
use crate::harness::memory;
use crate::harness::stage::Stage;

const KEY: &str = "e2b_cacacacacacacacacacacacacacacacacacacaca";

/// Answers on each of these ports with the head that it was sent.
const ECHO: &str = r#"
import socket, sys, threading
def serve(port):
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError:
        return
    while True:
        one, _ = listener.accept()
        data = b""
        while b"\r\n\r\n" not in data:
            more = one.recv(65536)
            if not more:
                break
            data += more
        body = f"port {port}\n".encode() + data
        one.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        one.close()
threads = [threading.Thread(target=serve, args=(int(port),)) for port in sys.argv[1:]]
[thread.start() for thread in threads]
open("/tmp/ready", "w").close()
"#;

/// A server of ours with one tenant, and a sandbox of that tenant's that listens.
pub(super) struct Front {
    pub(super) address: SocketAddr,
    sandbox: String,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), EngineGone>>,
    _directory: TempDir,
}

impl Front {
    pub(super) async fn start(ports: &[u16], wish: &Value) -> anyhow::Result<Self> {
        let template = belljar_warmed::template()?;
        let directory = tempfile::tempdir()?;
        // The user ids of sandboxes must be able to pass through.
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
        let keys = directory.path().join("keys");
        std::fs::write(&keys, format!("{KEY} tenant\n"))?;
        let store = std::env::var_os("BELLJAR_STORE").filter(|value| !value.is_empty());
        let store = store.map_or_else(|| "/var/lib/belljar/templates".into(), PathBuf::from);
        let mut config = Config::new(directory.path().join("state"), store);
        config.aliases = BTreeMap::from([("base".to_owned(), vec![template.name])]);
        config.engine_state = Some(directory.path().join("engine"));
        config.pool = PoolSize { least: 0, ..config.pool };
        let actions = Actions::start(config, Keys::read(&keys)?).await?;
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None)?;
        let address = listener.address().context("the server has no address")?;
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(actions, Settings::default());
        let running =
            async move { server.run(vec![listener], async { drop(stopped.await) }).await };
        let server = tokio::spawn(running);
        let mut front =
            Self { address, sandbox: String::new(), stop, server, _directory: directory };
        let made = front.api("POST", "/v1/sandboxes", wish).await?;
        front.sandbox =
            made["id"].as_str().with_context(|| format!("no sandbox: {made}"))?.to_owned();
        let ports = ports.iter().map(u16::to_string);
        let argv: Vec<String> =
            ["python3", "-c", ECHO].map(str::to_owned).into_iter().chain(ports).collect();
        let calls = format!("/v1/sandboxes/{}/calls", front.sandbox);
        front.api("POST", &calls, &json!({ "argv": argv, "background": true })).await?;
        let wait = "while [ ! -e /tmp/ready ]; do sleep 0.02; done; sleep 0.2";
        front.api("POST", &calls, &json!({ "script": wait })).await?;
        Ok(front)
    }

    /// Asks our own API.
    async fn api(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {KEY}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = self.send(&request).await?;
        let status = answer.get(9..12).unwrap_or_default();
        ensure!(status.starts_with('2'), "{method} {path}: {answer}");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let (first, last) = (body.find('{'), body.rfind('}'));
        let text = first.zip(last).map_or("null", |(first, last)| &body[first..=last]);
        Ok(serde_json::from_str(text).unwrap_or_default())
    }

    /// Sends bytes, and reads what comes until the end.
    pub(super) async fn send(&self, bytes: &str) -> anyhow::Result<String> {
        let talk = async {
            let mut stream = tokio::net::TcpStream::connect(self.address).await?;
            stream.write_all(bytes.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        tokio::time::timeout(Duration::from_secs(20), talk).await.context("no answer")?
    }

    /// Asks a port of the sandbox, as a host spells it, with more headers.
    async fn port(&self, spelled: &str, more: &str) -> anyhow::Result<String> {
        let request = format!(
            "GET /x HTTP/1.1\r\nhost: {spelled}-{}.localhost\r\n{more}connection: close\r\n\r\n",
            self.sandbox
        );
        self.send(&request).await
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let path = format!("/v1/sandboxes/{}", self.sandbox);
        self.api("DELETE", &path, &json!({})).await?;
        let _ = self.stop.send(());
        self.server.await.context("the server panicked")?.context("the server ended by itself")
    }
}

/// Ports that are answered by us, spelled so that a check could miss them.
pub(super) async fn spellings(_: Stage, control: bool) -> anyhow::Result<Seen> {
    if control {
        let front = Front::start(&[8080, 3128], &json!({})).await?;
        let said = [front.port("8080", "").await?, front.port("3128", "").await?];
        front.stop().await?;
        let reached = said[0].contains("port 8080") && said[1].contains("port 3128");
        return Ok(super::works(reached, "a port of the code's own is reached", &[]));
    }
    // Whatever listens there inside is not meant.
    let wish = json!({"network": {"reach": "open"}});
    let front = Front::start(&[8080, 49983, 49999], &wish).await?;
    let mut findings = Findings::default();
    // Who came in by the gateway's own port would go out as the sandbox.
    let said = front.port("3128", "").await?;
    let gateway = said.contains("x-belljar-reason") || said.contains("\"ok\"");
    findings.expect(!gateway && said.get(9..10) == Some("5"), "not the way out", said);
    for port in ["49983", "49999"] {
        let number: u64 = port.parse()?;
        let spelled = [
            port.to_owned(),
            format!("0{port}"),
            format!("00{port}"),
            format!("+{port}"),
            format!("{port}."),
            format!("0x{number:x}"),
            format!("{}", number + 65536),
            format!("{}", number + (1 << 32)),
            format!("{port}%00"),
            format!("%20{port}"),
            format!("-{port}"),
            format!("{port}e0"),
        ];
        for spelled in spelled {
            let by_host = front.port(&spelled, "").await?;
            let request = format!(
                "GET /x HTTP/1.1\r\nhost: localhost\r\ne2b-sandbox-id: {}\r\n\
                 e2b-sandbox-port: {spelled}\r\nconnection: close\r\n\r\n",
                front.sandbox
            );
            let by_header = front.send(&request).await?;
            for said in [by_host, by_header] {
                let inside = said.contains("\nport ") || said.contains("port 49");
                let refused = said.get(9..10) == Some("4") || said.get(9..10) == Some("5");
                let first = said.lines().next().unwrap_or_default().to_owned();
                findings.expect(
                    refused && !said.contains("GET /x"),
                    "never what listens inside",
                    format!("{spelled}: {first} {inside}"),
                );
            }
        }
    }
    // And a port of the code's own is one number, however it is spelled.
    for spelled in ["08080", "+8080", "8080."] {
        let said = front.port(spelled, "").await?;
        let fine = said.contains("port 8080") || said.get(9..10) == Some("4");
        findings.expect(fine, "parsed once", format!("{spelled}: {said}"));
    }
    front.stop().await?;
    Ok(findings.seen())
}

/// The caller's own key, on a request that is passed on into the sandbox.
pub(crate) async fn caller_key(_: Stage, control: bool) -> anyhow::Result<Seen> {
    let front = Front::start(&[8080], &json!({})).await?;
    let begin = Instant::now();
    let mut findings = Findings::default();
    if control {
        // A key that is not ours is the sandbox's business, and arrives.
        let theirs = "sk-of-somebody-else-entirely";
        let said = front.port("8080", &format!("x-api-key: {theirs}\r\n")).await?;
        let pids = memory::processes_of(&front.sandbox);
        let found = pids.iter().any(|pid| !memory::search(*pid, theirs.as_bytes()).0.is_empty());
        front.stop().await?;
        let both = said.contains(theirs) && found;
        return Ok(super::works(both, "what is not stripped is seen, and is in memory", &[]));
    }
    for line in [
        format!("x-api-key: {KEY}"),
        format!("X-API-KEY: {KEY}"),
        format!("authorization: Bearer {KEY}"),
        format!("authorization: bearer {KEY}"),
        format!("authorization: BEARER  {KEY}"),
        format!("authorization: {KEY}"),
        format!("x-access-token: {KEY}"),
        format!("x-api-key: other\r\nx-api-key: {KEY}"),
        format!("authorization: Basic eA==\r\nauthorization: Bearer {KEY}"),
        format!("e2b-traffic-access-token: {KEY}"),
    ] {
        let said = front.port("8080", &format!("{line}\r\n")).await?;
        let name = line.split(KEY).next().unwrap_or_default().to_owned();
        findings.expect(!said.contains(KEY), "stripped on the way in", name);
    }
    let pids = memory::processes_of(&front.sandbox);
    ensure!(!pids.is_empty(), "no processes are found");
    let mut places = Vec::new();
    for pid in pids {
        places.extend(memory::search(pid, KEY.as_bytes()).0);
    }
    findings.expect(places.is_empty(), "and in no memory inside", places.join(", "));
    findings.held(format!("{} ms", begin.elapsed().as_millis()));
    front.stop().await?;
    Ok(findings.seen())
}
