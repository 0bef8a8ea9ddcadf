//! A server of its own for each test, asked with plain HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::openmetrics::{self, Scraped};

const KEY: &str = "e2b_dddddddddddddddddddddddddddddddddddddddd";

/// Only to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    child: Child,
    address: String,
    metrics: String,
    lines: Receiver<String>,
    _directory: TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Whether a server can make sandboxes here. Says so when it cannot.
#[track_caller]
pub(crate) fn can_serve() -> bool {
    let Some(lacks) = belljar_testkit::lacking(TEMPLATE) else { return true };
    let at = std::panic::Location::caller();
    eprintln!("SKIPPED {}:{}: this test needs {lacks}", at.file(), at.line());
    false
}

/// What its sandboxes are made from.
pub(crate) const TEMPLATE: &str = "python-data";

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("keys"), format!("{KEY} default\n")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_belljar"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--pool", "0"])
            .arg("--data")
            .arg(at("data"))
            .arg("--keys")
            .arg(at("keys"))
            .args(more)
            .env("BELLJAR_STORE", belljar_testkit::store())
            .env("BELLJAR_STATE", at("state"))
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (mut address, mut metrics) = (None, None);
        while address.is_none() || metrics.is_none() {
            let line = lines.recv_timeout(PATIENCE).unwrap();
            let after = |words: &str| Some(line.split_once(words)?.1.trim().to_owned());
            address = address.or_else(|| after("listening on http://"));
            metrics = metrics.or_else(|| {
                Some(after("metrics on http://")?.trim_end_matches("/metrics").to_owned())
            });
        }
        let (address, metrics) = (address.unwrap(), metrics.unwrap());
        Self { child, address, metrics, lines, _directory: directory }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        ask(&self.address, method, path, body, headers)
    }

    pub(crate) fn post(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        self.request("POST", path, &body.to_string(), headers)
    }

    /// Makes a sandbox, and answers its id.
    #[track_caller]
    pub(crate) fn create(&self, wish: &Value) -> String {
        let made = self.post("/v1/sandboxes", wish, &[]);
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["id"].as_str().unwrap().to_owned()
    }

    /// Runs a script in `bash`, to its end.
    #[track_caller]
    pub(crate) fn run(&self, id: &str, script: &str, headers: &[(&str, &str)]) -> Value {
        let wish = json!({ "argv": ["bash", "-c", script] });
        let ran = self.post(&format!("/v1/sandboxes/{id}/calls"), &wish, headers);
        assert_eq!(ran.status, 200, "{ran:?}");
        ran.json()
    }

    pub(crate) fn scrape(&self) -> Scraped {
        let answer = ask(&self.metrics, "GET", "/metrics", "", &[]);
        assert_eq!(answer.status, 200);
        let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(answer.head.contains(kind), "{}", answer.head);
        openmetrics::parse(&answer.body).unwrap_or_else(|error| panic!("{error}\n{}", answer.body))
    }

    /// Scrapes until it shows what is asked for.
    pub(crate) fn scrape_until(&self, shown: impl Fn(&Scraped) -> bool) -> Scraped {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let scraped = self.scrape();
            if shown(&scraped) {
                return scraped;
            }
            assert!(Instant::now() < deadline, "only this was shown: {scraped:#?}");
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Stops it in order; answers everything that it said since it listened.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.end();
        self.lines.iter().collect()
    }

    fn end(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Some(pid), Ok(None)) = (pid, self.child.try_wait()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// In HTTP/1.0, whose answers end with their connection.
fn ask(address: &str, method: &str, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let mut request = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\nx-api-key: {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n"
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}
