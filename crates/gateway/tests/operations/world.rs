//! A gateway with operations, a scripted model behind it, and sandboxes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use belljar_domain::SandboxId;
use belljar_domain::approval::{ApprovalRequest, ToolApprovals};
use belljar_domain::network::{Policy, Row, Subject, Throttle};
use belljar_gateway::{Config, Gateway};
use belljar_peer_proto::gateway::{Budget, FromGateway, Grant, Session};
use belljar_scripted::{Model, Options, Script};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Nothing takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What no sandbox may ever see.
pub(crate) const KEY: &str = "sk-canary-5d41402abc4b2a76";

/// Nano-dollars for a token of each kind.
pub(crate) const PRICES: &str = "[[price]]\nmodels = [\"claude-*\", \"gpt-*\"]\ninput = 3000\n\
                          cache_read = 300\ncache_write_5m = 3750\noutput = 15000\n";

pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) model: Model,
    rows: watch::Receiver<Vec<Row>>,
    approvals: watch::Receiver<Vec<(u64, ApprovalRequest)>>,
    folder: tempfile::TempDir,
}

pub(crate) struct Sandbox {
    pub(crate) id: SandboxId,
    pub(crate) address: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The connection was cut before the end.
    pub(crate) cut: bool,
}

impl World {
    /// `script` is the model's; `settings` are more lines of the operation `llm`,
    /// or other tables.
    pub(crate) async fn start(script: &str, settings: &str) -> Self {
        let script = Script::parse(script).unwrap();
        let credential = Some(KEY.to_owned());
        let keep_bodies = true;
        let watch = vec!["bjt_".to_owned()];
        let options = Options { script, credential, keep_bodies, watch, ..Options::default() };
        let model = Model::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), KEY).unwrap();
        std::fs::write(folder.path().join("prices.toml"), PRICES).unwrap();
        let text = settings_of(model.address(), folder.path(), settings);
        let config = Config::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (gateway, mut events) = Gateway::new(config).unwrap();
        let (sender, rows) = watch::channel(Vec::new());
        let (asked, approvals) = watch::channel(Vec::new());
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    FromGateway::Rows { rows } => sender.send_modify(|all| all.extend(rows)),
                    FromGateway::Approval { question, request } => {
                        asked.send_modify(|all| all.push((question, *request)));
                    }
                    _ => {}
                }
            }
        });
        Self { gateway, model, rows, approvals, folder }
    }

    /// A sandbox whose tokens may be for anything that is configured.
    pub(crate) fn sandbox(&self, tenant: &str) -> Sandbox {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let id = SandboxId::from_random([NEXT.fetch_add(1, Ordering::Relaxed); 16]);
        let address = self.open(&id, tenant);
        Sandbox { id, address }
    }

    /// Opens it again, as after a pause.
    pub(crate) fn open(&self, id: &SandboxId, tenant: &str) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let subject = Subject {
            tenant: tenant.to_owned(),
            sandbox: id.clone(),
            run: None,
            turn: None,
            call: None,
            process: None,
        };
        let throttle =
            Throttle { connections: 4096, connections_per_second: 4096, ..Throttle::default() };
        let policy = Policy { throttle, ..Policy::default() };
        let operations = ["llm", "plain", "other", "code"].map(str::to_owned).to_vec();
        let session = Session { subject, policy, operations, charged: None };
        self.gateway.open(session, Some(listener), None).unwrap();
        address
    }

    pub(crate) fn token(&self, sandbox: &Sandbox) -> String {
        self.token_for(sandbox, &["llm"], 300, None)
    }

    pub(crate) fn token_for(
        &self,
        sandbox: &Sandbox,
        operations: &[&str],
        seconds: u32,
        budget: Option<Budget>,
    ) -> String {
        let operations = operations.iter().map(|&name| name.to_owned()).collect();
        let grant = Grant { operations, agent: None, seconds, budget, approvals: None };
        self.gateway.mint(&sandbox.id, grant).unwrap().token
    }

    /// A token for the model whose tool calls wait for a human.
    pub(crate) fn held_token(&self, sandbox: &Sandbox, policy: &str, seconds: u64) -> String {
        let approvals = Some(ToolApprovals { policy: policy.parse().unwrap(), seconds });
        let operations = vec!["llm".to_owned()];
        let grant = Grant { operations, agent: None, seconds: 300, budget: None, approvals };
        self.gateway.mint(&sandbox.id, grant).unwrap().token
    }

    /// The number of questions so far.
    pub(crate) fn asked(&self) -> usize {
        self.approvals.borrow().len()
    }

    /// Takes over other settings.
    pub(crate) fn reload(&self, settings: &str) {
        let text = settings_of(self.model.address(), self.folder.path(), settings);
        self.gateway.reload(Config::parse(&text).unwrap()).unwrap();
    }

    /// Has requests for the model sent to another address from now on.
    pub(crate) fn move_model(&self, to: SocketAddr) {
        let text = settings_of(to, self.folder.path(), "");
        self.gateway.reload(Config::parse(&text).unwrap()).unwrap();
    }

    /// The question about the request that waits as the `number`th.
    pub(crate) async fn approval(&self, number: usize) -> (u64, ApprovalRequest) {
        let mut approvals = self.approvals.clone();
        let waiting = approvals.wait_for(|all| all.len() >= number);
        let all = tokio::time::timeout(PATIENCE, waiting).await.expect("a question").unwrap();
        all[number - 1].clone()
    }

    /// The rows of requests of a sandbox, once there are so many.
    pub(crate) async fn rows(&self, sandbox: &Sandbox, count: usize) -> Vec<Row> {
        let mut rows = self.rows.clone();
        let of = |rows: &[Row]| -> Vec<Row> {
            let is_its = |row: &&Row| {
                row.subject.sandbox == sandbox.id
                    && row.kind == belljar_domain::network::Kind::Operation
            };
            rows.iter().filter(is_its).cloned().collect()
        };
        let waited =
            tokio::time::timeout(PATIENCE, rows.wait_for(|rows| of(rows).len() >= count)).await;
        match waited {
            Ok(rows) => of(&rows.unwrap()),
            Err(_) => panic!("not {count} rows: {:#?}", of(&self.rows.borrow())),
        }
    }
}

fn settings_of(model: SocketAddr, folder: &std::path::Path, more: &str) -> String {
    format!(
        "[operations.llm]\nkind = \"model\"\nplaintext = true\nupstream = \"http://{model}\"\n\
         dialects = [\"anthropic-messages\", \"openai-responses\", \"openai-chat\"]\n\
         credential = {{ file = {:?}, as = \"x-api-key\" }}\nprices = {:?}\n{more}",
        folder.join("key"),
        folder.join("prices.toml"),
    )
}

/// A request with a token.
pub(crate) fn request(method: Method, path: &str, token: &str, body: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1:3128")
        .header("authorization", format!("Bearer {token}"))
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap()
}

/// What a client of Anthropic's asks.
pub(crate) fn messages(token: &str, body: &str) -> Request<Full<Bytes>> {
    request(Method::POST, "/v1/messages", token, body)
}

pub(crate) const HELLO: &str =
    r#"{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;
pub(crate) const STREAMED: &str = r#"{"model":"claude-x","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;

impl Sandbox {
    pub(crate) async fn ask(&self, request: Request<Full<Bytes>>) -> Answer {
        tokio::time::timeout(PATIENCE, ask(self.address, request)).await.expect("an answer")
    }

    /// The head of the answer, and its body still to come.
    pub(crate) async fn begin(
        &self,
        request: Request<Full<Bytes>>,
    ) -> (http::response::Parts, hyper::body::Incoming) {
        begin(self.address, request).await.unwrap().into_parts()
    }
}

async fn begin(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> hyper::Result<http::Response<hyper::body::Incoming>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

async fn ask(address: SocketAddr, request: Request<Full<Bytes>>) -> Answer {
    let (head, mut body) = begin(address, request).await.unwrap().into_parts();
    let mut collected = Vec::new();
    let mut cut = false;
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => collected.extend_from_slice(&frame.into_data().unwrap()),
            Err(_) => cut = true,
        }
    }
    let body = String::from_utf8(collected).unwrap();
    Answer { status: head.status, headers: head.headers, body, cut }
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Nothing that a sandbox gets may hold the key.
    #[track_caller]
    pub(crate) fn has_no_key(&self) {
        let shown = format!("{:?} {}", self.headers, self.body);
        assert!(!shown.contains(KEY), "{shown}");
    }
}
