//! Takes traces as a collector does, and keeps what it was sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;

use crate::server::PATIENCE;

pub(crate) struct Receiver {
    pub(crate) url: String,
    spans: Arc<(Mutex<Vec<Span>>, Condvar)>,
    stop: Arc<AtomicBool>,
    address: std::net::SocketAddr,
}

#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Traces and spans that it is linked to.
    pub(crate) links: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Arc::<(Mutex<Vec<Span>>, Condvar)>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (kept, stopped) = (spans.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let taken = take(stream);
                kept.0.lock().unwrap().extend(taken);
                kept.1.notify_all();
            }
        });
        Self { url: format!("http://{address}"), spans, stop, address }
    }

    /// What it has, once that is enough.
    #[track_caller]
    pub(crate) fn wait(&self, enough: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let (spans, came) = &*self.spans;
        let lacking = |spans: &mut Vec<Span>| !enough(spans);
        let (spans, waited) =
            came.wait_timeout_while(spans.lock().unwrap(), PATIENCE, lacking).unwrap();
        assert!(!waited.timed_out(), "only these came: {spans:#?}");
        spans.clone()
    }
}

impl Drop for Receiver {
    /// From here on nobody listens.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// One request; every rule of the protocol that is broken fails the test.
fn take(mut stream: TcpStream) -> Vec<Span> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length, mut json) = (String::new(), 0, false);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap();
        match name {
            "content-length" => length = value.trim().parse().unwrap(),
            "content-type" => json = value.trim() == "application/json",
            _ => {}
        }
    }
    assert!(first.starts_with("POST /v1/traces HTTP/1.1"), "{first}");
    assert!(json, "it is not said to be JSON");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let resource = &body["resourceSpans"][0];
    let service = attributes(&resource["resource"]);
    assert!(service.contains(&("service.name".to_owned(), "belljar-serve".to_owned())));
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    spans.iter().map(read).collect()
}

fn read(span: &Value) -> Span {
    let text = |name: &str| span[name].as_str().map(str::to_owned);
    let hex = |name: &str, digits: usize| {
        let id = text(name).unwrap();
        let lower = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        assert!(id.len() == digits && lower, "{name}: {id}");
        id
    };
    Span {
        name: text("name").unwrap(),
        trace: hex("traceId", 32),
        id: hex("spanId", 16),
        parent: text("parentSpanId"),
        start: text("startTimeUnixNano").unwrap().parse().unwrap(),
        end: text("endTimeUnixNano").unwrap().parse().unwrap(),
        links: links(span),
        attributes: attributes(span),
    }
}

fn links(span: &Value) -> Vec<(String, String)> {
    let all = span["links"].as_array().into_iter().flatten();
    let text = |link: &Value, name: &str| link[name].as_str().unwrap().to_owned();
    all.map(|link| (text(link, "traceId"), text(link, "spanId"))).collect()
}

fn attributes(of: &Value) -> Vec<(String, String)> {
    let all = of["attributes"].as_array().unwrap().iter();
    all.map(|one| {
        let (kind, value) = one["value"].as_object().unwrap().iter().next().unwrap();
        let value = match kind.as_str() {
            "stringValue" | "intValue" => value.as_str().unwrap().to_owned(),
            "arrayValue" => value["values"].to_string(),
            "doubleValue" | "boolValue" => value.to_string(),
            other => panic!("{other} is no value"),
        };
        (one["key"].as_str().unwrap().to_owned(), value)
    })
    .collect()
}

impl Span {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}
