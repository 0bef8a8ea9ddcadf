//! A client that writes down everything it is told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::evidence::{Outcome, Told, What};

/// What all clients of a fault were told.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    told: Arc<Mutex<Vec<Told>>>,
    may_break: Arc<AtomicBool>,
}

impl History {
    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on somebody may be killed under a request's feet; or not any more.
    pub(crate) fn may_break(&self, may: bool) {
        self.may_break.store(may, Ordering::SeqCst);
    }

    /// For a control that leaves the key out: what its requests had been under one.
    pub(crate) fn pretend(&self, key: &str, id: &str) {
        self.add(Told {
            what: What::Create { key: Some(key.to_owned()) },
            outcome: Outcome::Made(id.to_owned()),
            took: Duration::ZERO,
            deadline: DEADLINE,
            may_break: false,
        });
    }

    fn add(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) history: History,
    pub(crate) deadline: Duration,
}

/// No request of ours may take longer.
const DEADLINE: Duration = Duration::from_secs(30);

impl Client {
    pub(crate) fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, key: key.to_owned(), history: History::default(), deadline: DEADLINE }
    }

    pub(crate) fn within(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// A request that is not written down; the deadline is the usual one.
    pub(crate) async fn plain(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let key = ("x-api-key", self.key.as_str());
        let (status, text) = self.bare(method, path, &[key], body).await?;
        let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? };
        Ok((status, value))
    }

    /// The same with these headers and no others.
    pub(crate) async fn bare(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> anyhow::Result<(u16, String)> {
        let asked = ask(self.address, method, path, headers, body);
        tokio::time::timeout(self.deadline, asked).await.context("no answer")?
    }

    async fn send(
        &self,
        what: What,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> (Outcome, Value) {
        let may_break = self.history.may_break.load(Ordering::SeqCst);
        let began = Instant::now();
        let mut all = vec![("x-api-key", self.key.as_str())];
        all.extend(headers);
        let asked = ask(self.address, method, path, &all, body);
        let (outcome, value) = match tokio::time::timeout(self.deadline, asked).await {
            Err(_) => (Outcome::Silence, Value::Null),
            Ok(Err(error)) => (Outcome::Broken(format!("{error:#}")), Value::Null),
            Ok(Ok((status, text))) => read(&what, status, &text),
        };
        // Whoever was killed meanwhile may have been the one that was asked.
        let may_break = may_break || self.history.may_break.load(Ordering::SeqCst);
        let (took, deadline) = (began.elapsed(), self.deadline);
        let told = Told { what, outcome: outcome.clone(), took, deadline, may_break };
        self.history.add(told);
        (outcome, value)
    }

    pub(crate) async fn create_with(&self, key: Option<&str>, wish: &Value) -> (Outcome, Value) {
        let what = What::Create { key: key.map(str::to_owned) };
        let header = key.map(|key| [("idempotency-key", key)]);
        let headers = header.as_ref().map_or(&[][..], |header| &header[..]);
        self.send(what, "POST", "/v1/sandboxes", headers, Some(wish)).await
    }

    pub(crate) async fn create(&self, key: Option<&str>) -> Outcome {
        self.create_with(key, &wish()).await.0
    }

    /// Asks for a run, under a key.
    pub(crate) async fn create_run(&self, key: &str, wish: &Value) -> (Outcome, Value) {
        let headers = [("idempotency-key", key)];
        self.send(What::Look, "POST", "/v1/runs", &headers, Some(wish)).await
    }

    /// A sandbox, or an error.
    pub(crate) async fn make(&self) -> anyhow::Result<String> {
        self.make_with(&wish()).await
    }

    pub(crate) async fn make_with(&self, wish: &Value) -> anyhow::Result<String> {
        match self.create_with(None, wish).await.0 {
            Outcome::Made(id) => Ok(id),
            other => anyhow::bail!("no sandbox was made: {other:?}"),
        }
    }

    pub(crate) async fn call(&self, sandbox: &str, script: &str) -> (Outcome, Value) {
        let path = format!("/v1/sandboxes/{sandbox}/calls");
        self.send(What::Call, "POST", &path, &[], Some(&json!({ "script": script }))).await
    }

    /// What a script printed; an error if anything went wrong.
    pub(crate) async fn run(&self, sandbox: &str, script: &str) -> anyhow::Result<String> {
        let (outcome, value) = self.call(sandbox, script).await;
        anyhow::ensure!(outcome == Outcome::Done, "{script}: {outcome:?}");
        let text = value["stdout"]["data"].as_str().unwrap_or_default().to_owned();
        anyhow::ensure!(value["end"]["reason"] == "done", "{script}: {value}");
        Ok(text)
    }

    /// Leaves something running.
    pub(crate) async fn leave(&self, sandbox: &str, script: &str) -> Outcome {
        let path = format!("/v1/sandboxes/{sandbox}/calls");
        let body = json!({ "script": script, "background": true });
        self.send(What::Call, "POST", &path, &[], Some(&body)).await.0
    }

    /// A call that has an effect at the oracle, through the sandbox's gateway.
    pub(crate) async fn effect(&self, sandbox: &str, oracle: SocketAddr) -> Outcome {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let op = format!("op-{}", MADE.fetch_add(1, Ordering::Relaxed));
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128 || exit 3\n\
             printf 'GET http://{oracle}/effect/{op} HTTP/1.1\\r\\nHost: {oracle}\\r\\n\
             Connection: close\\r\\n\\r\\n' >&3\n\
             head -1 <&3 | grep -q ' 200 '"
        );
        let path = format!("/v1/sandboxes/{sandbox}/calls");
        let body = json!({ "argv": ["bash", "-c", script] });
        self.send(What::Effect { op }, "POST", &path, &[], Some(&body)).await.0
    }

    pub(crate) async fn delete(&self, sandbox: &str) -> Outcome {
        let path = format!("/v1/sandboxes/{sandbox}");
        let what = What::Delete { sandbox: sandbox.to_owned() };
        self.send(what, "DELETE", &path, &[], None).await.0
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (Outcome, Value) {
        self.send(What::Look, "POST", path, &[], Some(body)).await
    }

    /// Waits until a sandbox can be made, used and ended; answers how long it took.
    pub(crate) async fn works(&self, within: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let quiet = Self { history: History::default(), ..self.within(Duration::from_secs(15)) };
        loop {
            let tried = async {
                let id = quiet.make().await?;
                let said = quiet.run(&id, "echo $((6*7))").await;
                quiet.delete(&id).await;
                let said = said?;
                anyhow::ensure!(said == "42\n", "it said {said}");
                anyhow::Ok(())
            };
            let tried = tried.await;
            match tried {
                Ok(()) => return Ok(began.elapsed()),
                Err(error) if began.elapsed() > within => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

pub(crate) fn wish() -> Value {
    json!({ "template": "base", "timeout_seconds": 300 })
}

/// A sandbox that may reach one address.
pub(crate) fn reaching(address: SocketAddr) -> Value {
    let rule = json!({ "host": address.ip().to_string(), "ports": [address.port()] });
    json!({
        "template": "base", "timeout_seconds": 300,
        "network": { "reach": { "allow": [rule] } },
    })
}

fn read(what: &What, status: u16, text: &str) -> (Outcome, Value) {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let strange = || Outcome::Strange { status, body: text.chars().take(200).collect() };
    let outcome = match status {
        200..300 => match what {
            What::Create { .. } => match value["id"].as_str() {
                Some(id) => Outcome::Made(id.to_owned()),
                None => strange(),
            },
            // A call that failed is answered well, and had no effect that counts.
            What::Effect { .. } if value["end"]["reason"] != "done" => Outcome::Refused {
                status,
                code: value["end"]["reason"].as_str().unwrap_or_default().to_owned(),
            },
            _ => Outcome::Done,
        },
        _ => match value["code"].as_str() {
            // Even when the server fails, it says so in its own words.
            Some(code) => Outcome::Refused { status, code: code.to_owned() },
            None => strange(),
        },
    };
    (outcome, value)
}

async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> anyhow::Result<(u16, String)> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let answer = sender.send_request(request.body(Full::new(body))?).await?;
    let status = answer.status().as_u16();
    let text = answer.into_body().collect().await?.to_bytes();
    driving.abort();
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}
