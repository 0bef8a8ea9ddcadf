//! A scripted model, the way to it, and a conversation to have with it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use belljar_llm::Dialect;
use belljar_provider::{
    Answer, AnswerError, Client, Clock, Conversation, Credential, Form, Message, Options, Part,
    Provider as _, Tool, Transport, TransportError, Upstream, Version,
};
use belljar_scripted::{Model, Script};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;

pub(crate) const KEY: &str = "sk-canary-5d41402abc4b2a76";

pub(crate) const DIALECTS: [Dialect; 3] =
    [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat];

/// A new connection for each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loopback(pub(crate) SocketAddr);

impl Transport for Loopback {
    type Body = Incoming;

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, TransportError> {
        let stream = TcpStream::connect(self.0).await?;
        let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = request.map(Full::new);
        request.headers_mut().insert("host", "model".parse()?);
        Ok(client.send_request(request).await?)
    }
}

/// A clock on which no time passes. It remembers for how long it was slept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Still(Arc<Mutex<Vec<Duration>>>);

impl Clock for Still {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.lock().unwrap().push(time);
        Box::pin(std::future::ready(()))
    }
}

impl Still {
    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) clock: Still,
}

impl World {
    /// The server is strict whatever the script says.
    pub(crate) async fn start(script: &str) -> Self {
        Self::of(Script::parse(&format!("strict = true\n{script}")).unwrap()).await
    }

    pub(crate) async fn of(script: Script) -> Self {
        let options = belljar_scripted::Options {
            script,
            credential: Some(KEY.to_owned()),
            keep_bodies: true,
            ..belljar_scripted::Options::default()
        };
        Self { model: Model::start(options).await.unwrap(), clock: Still::default() }
    }

    pub(crate) fn client(&self, dialect: Dialect) -> Client<Loopback, Still> {
        self.versioned(dialect, Version::default())
    }

    pub(crate) fn versioned(&self, dialect: Dialect, version: Version) -> Client<Loopback, Still> {
        let credential = Some(Credential::try_from(KEY).unwrap());
        let upstream = Upstream { credential, version, ..Upstream::new(dialect) };
        Client::new(upstream, Loopback(self.model.address()), self.clock.clone()).unwrap()
    }

    /// One question, one answer.
    pub(crate) async fn ask(&self, dialect: Dialect, form: Form) -> Result<Answer, AnswerError> {
        self.client(dialect).answer(&question(), &options(form), &mut |_| {}).await
    }

    pub(crate) fn requests(&self) -> usize {
        self.model.record().all().len()
    }
}

pub(crate) fn options(form: Form) -> Options {
    let cache_key = Some("run_1".to_owned());
    Options { form, cache_key, ..Options::new("claude-test", 4096) }
}

pub(crate) fn tool(name: &str, argument: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "required": [argument],
        "properties": { argument: { "type": "string", "description": "What to do." } },
    });
    Tool { name: name.to_owned(), description: format!("Does {name}."), schema }
}

pub(crate) fn question() -> Conversation {
    Conversation {
        tools: vec![
            tool("shell", "command"),
            tool("execute_python", "code"),
            tool("finish", "answer"),
        ],
        system: vec![
            Part::ending_prefix("You are careful. ".repeat(40)),
            Part::ending_prefix("deals: 200 records of id, amount, stage. ".repeat(40)),
        ],
        messages: vec![Message::user("How many deals are there?")],
    }
}
