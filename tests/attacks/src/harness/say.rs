//! What hostile clients say, byte by byte: written here, said inside a sandbox.

use std::net::SocketAddr;

use anyhow::Context as _;
use belljar_node::Sandbox;
use belljar_peer_proto::gateway::PORT;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::stage::{Running, Stage};

/// One conversation, over one connection.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    name: String,
    steps: Vec<Value>,
}

/// What became of a conversation.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Said {
    pub(crate) name: String,
    /// The beginning of what came back, a character for each byte.
    pub(crate) got: String,
    /// How many bytes came back in all.
    pub(crate) total: u64,
    /// Whether the other side ended it.
    pub(crate) closed: bool,
    pub(crate) error: Option<String>,
    pub(crate) ms: u64,
    /// SHA-256 of the last answer's body, if it came in whole.
    pub(crate) digest: Option<String>,
}

impl Script {
    /// With the gateway, where it listens inside: for this call, if calls are
    /// told apart by that.
    pub(crate) fn gateway(name: impl Into<String>) -> Self {
        Self { name: name.into(), steps: vec![json!(["gateway", PORT])] }
    }

    /// With whoever listens there.
    pub(crate) fn to(name: impl Into<String>, address: SocketAddr) -> Self {
        let connect = json!(["connect", address.ip().to_string(), address.port()]);
        Self { name: name.into(), steps: vec![connect] }
    }

    fn step(mut self, step: Value) -> Self {
        self.steps.push(step);
        self
    }

    pub(crate) fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(json!(["send", latin(bytes.as_ref())]))
    }

    pub(crate) fn send_often(self, bytes: impl AsRef<[u8]>, times: u64) -> Self {
        self.step(json!(["send", latin(bytes.as_ref()), times]))
    }

    /// TLS for this name, or for none; the greeting in so many pieces.
    pub(crate) fn tls(self, name: Option<&str>, pieces: u32) -> Self {
        self.step(json!(["tls", name, pieces]))
    }

    /// Waits for one answer.
    pub(crate) fn answer(self) -> Self {
        self.step(json!(["head"]))
    }

    /// Waits for so many bytes.
    pub(crate) fn exactly(self, count: u32) -> Self {
        self.step(json!(["exactly", count]))
    }

    /// Takes what comes for so long, or until the end.
    pub(crate) fn rest(self, seconds: f32) -> Self {
        self.step(json!(["rest", seconds]))
    }

    /// The same, but no longer than until one of these texts has come.
    pub(crate) fn rest_until(self, seconds: f32, texts: &[&str]) -> Self {
        self.step(json!(["rest", seconds, texts]))
    }

    pub(crate) fn sleep(self, seconds: f32) -> Self {
        self.step(json!(["sleep", seconds]))
    }

    /// Prints `MARK text`, for the harness to wait for.
    pub(crate) fn mark(self, text: &str) -> Self {
        self.step(json!(["mark", text]))
    }

    /// One request, and its answer.
    pub(crate) fn ask(self, request: impl AsRef<[u8]>) -> Self {
        self.send(request).answer()
    }

    /// A tunnel to `place`, by HTTP.
    pub(crate) fn tunnel(self, place: &str) -> Self {
        self.ask(connect(place))
    }
}

/// The bytes of a request for a tunnel.
pub(crate) fn connect(place: &str) -> String {
    format!("CONNECT {place} HTTP/1.1\r\nhost: {place}\r\n\r\n")
}

/// The bytes of a plain request through the proxy.
pub(crate) fn get(host: &str, path: &str) -> String {
    format!("GET http://{host}{path} HTTP/1.1\r\nhost: {host}\r\n\r\n")
}

/// The bytes of SOCKS that ask for a name.
pub(crate) fn socks(name: &[u8], port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
    [&[5, 1, 0, 3, length], name, &port.to_be_bytes()].concat()
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

impl Said {
    /// The statuses of all answers, in order.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let after = self.got.split("HTTP/1.1 ").skip(1);
        after.filter_map(|text| text.get(..3)?.parse().ok()).collect()
    }

    /// The last status; 0 when there was none.
    pub(crate) fn status(&self) -> u16 {
        self.statuses().last().copied().unwrap_or(0)
    }

    pub(crate) fn reason(&self) -> &str {
        let after = self.got.split_once("x-belljar-reason: ").map_or("", |(_, after)| after);
        after.split("\r\n").next().unwrap_or_default()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.got.contains(text)
    }

    /// For people.
    pub(crate) fn brief(&self) -> String {
        let head = self.got.split("\r\n").next().unwrap_or_default();
        let end = if self.closed { ", closed" } else { "" };
        let error = self.error.as_deref().unwrap_or_default();
        let (total, ms) = (self.total, self.ms);
        let found = format!("{head:?} {} {total} bytes, {ms} ms", self.reason());
        format!("{}: {found}{end} {error}", self.name)
    }
}

impl Stage {
    /// Says all of it in one call, and answers the call's number too.
    pub(crate) async fn say(
        &self,
        sandbox: &Sandbox,
        scripts: &[Script],
    ) -> anyhow::Result<(u32, Vec<Said>)> {
        let running = self.saying(sandbox, scripts, false).await?;
        heard(running).await
    }

    /// The same, all at once.
    pub(crate) async fn say_at_once(
        &self,
        sandbox: &Sandbox,
        scripts: &[Script],
    ) -> anyhow::Result<(u32, Vec<Said>)> {
        let running = self.saying(sandbox, scripts, true).await?;
        heard(running).await
    }

    /// Begins to say it.
    pub(crate) async fn saying(
        &self,
        sandbox: &Sandbox,
        scripts: &[Script],
        side_by_side: bool,
    ) -> anyhow::Result<Running> {
        let list: Vec<Value> = scripts
            .iter()
            .map(|script| json!({ "name": script.name, "steps": script.steps }))
            .collect();
        let text = json!({ "side_by_side": side_by_side, "scripts": list }).to_string();
        self.write(sandbox, "/tmp/script", text.into_bytes()).await?;
        let mut command = self.place(sandbox, "net/say.py", &["/tmp/script"]).await?;
        command.wall = Some(std::time::Duration::from_secs(45));
        self.start(sandbox, &command).await
    }
}

/// What all conversations of a call came to, in the order of their ends.
pub(crate) async fn heard(running: Running) -> anyhow::Result<(u32, Vec<Said>)> {
    let number = running.call.number();
    let ran = running.finish().await?;
    anyhow::ensure!(ran.end.exit_code == Some(0), "the script: {}", ran.ending());
    let said = ran.after("SAID ");
    let said = said.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>();
    Ok((number, said.context("what the script said")?))
}
