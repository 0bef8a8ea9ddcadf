//! Packages from an index on one host, with files on another.
//!
//! Requirements: N7

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_domain::network::{
    Decision, IndexKind, Kind, Miss, PackageIndex, Policy, Reach, Reason, Row, Tape, Throttle,
};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Answer, ask};
use crate::world::{PATIENCE, Sandbox, World};

const FILE: &str = "/files/a-1.0-py3-none-any.whl";
const BYTES: &[u8] = b"the bytes of a wheel";

/// Answers by path with exactly these bytes, and closes.
#[derive(Default)]
struct Server {
    answers: Mutex<HashMap<String, Vec<u8>>>,
    seen: Mutex<Vec<String>>,
    slow: Mutex<Duration>,
}

impl Server {
    async fn start() -> (Arc<Self>, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Arc::new(Self::default());
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        (server, port)
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let is_conditional = head.to_ascii_lowercase().contains("if-none-match");
        let is_packed = head.to_ascii_lowercase().contains("gzip");
        let answer = if path.starts_with("/simple") && (is_conditional || is_packed) {
            b"HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n".to_vec()
        } else {
            let found = self.answers.lock().unwrap().get(&path).cloned();
            found.unwrap_or_else(|| b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec())
        };
        self.seen.lock().unwrap().push(path);
        let slow = *self.slow.lock().unwrap();
        tokio::time::sleep(slow).await;
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }

    fn answer(&self, path: &str, kind: &str, length: usize, body: &[u8]) {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n"
        );
        let answer = [head.as_bytes(), body].concat();
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    fn page(&self, path: &str, html: &str) {
        self.answer(path, "text/html", html.len(), html.as_bytes());
    }

    fn file(&self, path: &str, bytes: &[u8]) {
        self.answer(path, "application/octet-stream", bytes.len(), bytes);
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// A world with an index, and files that lie on another host.
struct Registry {
    world: World,
    index: Arc<Server>,
    files: Arc<Server>,
    index_port: u16,
    files_port: u16,
    cache: tempfile::TempDir,
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Registry {
    async fn start() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let world = World::with(&format!("packages = {:?}\n", cache.path())).await;
        let (index, index_port) = Server::start().await;
        let (files, files_port) = Server::start().await;
        world.names.set("index.test", &["127.0.0.1"]);
        world.names.set("files.test", &["127.0.0.1"]);
        let registry = Self { world, index, files, index_port, files_port, cache };
        registry.promise("/simple/a/", BYTES);
        registry.files.file(FILE, BYTES);
        registry
    }

    /// Has a page say that the file has these bytes.
    fn promise(&self, page: &str, bytes: &[u8]) {
        let (port, digest) = (self.files_port, hex(bytes));
        let link = format!("http://files.test:{port}{FILE}#sha256={digest}");
        self.index.page(page, &format!("<a href=\"{link}\">a</a>"));
    }

    fn policy(&self) -> Policy {
        let url = format!("http://index.test:{}/simple", self.index_port);
        let packages = vec![PackageIndex { kind: IndexKind::Pip, url }];
        Policy { packages, ..Policy::default() }
    }

    fn sandbox(&self) -> Sandbox {
        self.world.sandbox(self.policy())
    }

    async fn page(&self, sandbox: &Sandbox, path: &str) -> Answer {
        let host = format!("index.test:{}", self.index_port);
        sandbox.ask(&request("GET", &host, path, "accept-encoding: gzip\r\n")).await
    }

    async fn file(&self, sandbox: &Sandbox) -> Answer {
        sandbox.ask(&request("GET", &self.files_host(), FILE, "")).await
    }

    fn files_host(&self) -> String {
        format!("files.test:{}", self.files_port)
    }

    /// Asks for the file, and for everything that comes until the end.
    async fn raw_file(&self, sandbox: &Sandbox) -> Vec<u8> {
        let mut stream = sandbox.connect().await;
        let text = request("GET", &self.files_host(), FILE, "connection: close\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let reading = stream.read_to_end(&mut answer);
        let _ = tokio::time::timeout(PATIENCE, reading).await.expect("an end");
        answer
    }

    /// What was decided about exchanges with the files' host, in order.
    async fn decided(&self, sandbox: &Sandbox, count: usize) -> Vec<(Decision, Reason)> {
        let is_one = |row: &&Row| {
            row.kind == Kind::Exchange && row.host == Some("files.test".parse().unwrap())
        };
        let enough = |rows: &[Row]| rows.iter().filter(is_one).count() >= count;
        let rows = self.world.rows(sandbox, enough).await;
        rows.iter().filter(is_one).map(|row| (row.decision, row.reason)).collect()
    }
}

fn request(method: &str, host: &str, path: &str, fields: &str) -> String {
    format!("{method} http://{host}{path} HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n")
}

const ALLOWED: (Decision, Reason) = (Decision::Allowed, Reason::Rule);
const CACHED: (Decision, Reason) = (Decision::Played, Reason::Cached);
const BAD: (Decision, Reason) = (Decision::Failed, Reason::BadAnswer);

#[tokio::test]
async fn a_file_is_fetched_once_and_then_comes_from_the_cache() {
    let registry = Registry::start().await;
    let first = registry.sandbox();
    assert_eq!(registry.page(&first, "/simple/a/").await.status, 200);
    let fetched = registry.file(&first).await;
    assert_eq!((fetched.status, fetched.body.as_bytes()), (200, BYTES));
    let kept = registry.file(&first).await;
    assert_eq!((kept.status, kept.body.as_bytes()), (200, BYTES));
    assert_eq!(registry.decided(&first, 2).await, [ALLOWED, CACHED]);

    // Another sandbox asks the index for itself, and has the file from here.
    let second = registry.sandbox();
    registry.page(&second, "/simple/a/").await;
    let asked = registry.world.names.asked("files.test");
    assert_eq!(registry.file(&second).await.body.as_bytes(), BYTES);
    assert_eq!(registry.decided(&second, 1).await, [CACHED]);
    assert_eq!(registry.files.seen(), [FILE], "the server was asked once");
    assert_eq!(registry.world.names.asked("files.test"), asked, "nothing was looked up");
    let rows = registry.world.rows(&second, |rows| rows.len() >= 3).await;
    let bytes: Vec<u64> =
        rows.iter().filter(|row| row.reason == Reason::Cached).map(|row| row.bytes.into).collect();
    assert_eq!(bytes, [BYTES.len() as u64]);
}

#[tokio::test]
async fn only_what_was_promised_may_be_fetched_and_only_read() {
    let registry = Registry::start().await;
    let sandbox = registry.sandbox();
    let (index, files) = (format!("index.test:{}", registry.index_port), registry.files_host());
    registry.files.file("/files/other.whl", b"other");
    let refused = |answer: &Answer| {
        (answer.status, answer.header("x-belljar-reason").unwrap_or_default().to_owned())
    };
    // Nobody has been told of the files' host yet.
    let early = registry.file(&sandbox).await;
    assert_eq!(refused(&early), (403, "not_allowed".to_owned()));
    assert!(sandbox.tunnel(&files).await.is_err());
    registry.page(&sandbox, "/simple/a/").await;
    for (method, host, path, reason) in [
        ("POST", &index, "/simple/", "method"),
        ("PUT", &index, "/simple/a/", "method"),
        ("GET", &index, "/upload", "path"),
        ("GET", &index, "/simple/../upload", "path"),
        ("POST", &files, FILE, "method"),
        ("DELETE", &files, FILE, "method"),
        ("GET", &files, "/files/other.whl", "path"),
        ("GET", &files, "/files/../files/a-1.0-py3-none-any.whl", "path"),
        ("GET", &files, "/files/a-1.0-py3-none-any.whl?leak=1", "path"),
    ] {
        let answer = sandbox.ask(&request(method, host, path, "content-length: 0\r\n")).await;
        assert_eq!(refused(&answer), (403, reason.to_owned()), "{method} {host}{path}");
    }
    assert_eq!(registry.index.seen(), ["/simple/a/"]);
    assert_eq!(registry.files.seen(), [""; 0]);
    // Inside a tunnel the same holds.
    let mut tunnel = sandbox.tunnel(&files).await.unwrap();
    let head = format!(" {FILE} HTTP/1.1\r\nhost: {files}\r\ncontent-length: 0\r\n\r\n");
    let posted = ask(&mut tunnel, &format!("POST{head}")).await;
    assert_eq!(refused(&posted), (403, "method".to_owned()));
    assert_eq!(ask(&mut tunnel, &format!("GET{head}")).await.body.as_bytes(), BYTES);
}

#[tokio::test]
async fn what_a_session_was_promised_is_for_that_session() {
    let registry = Registry::start().await;
    let told = registry.sandbox();
    registry.page(&told, "/simple/a/").await;
    assert_eq!(registry.file(&told).await.status, 200);
    let other = registry.sandbox();
    assert_eq!(registry.file(&other).await.status, 403);
    // The same indexes again: what was promised stays. Other ones: it is gone.
    registry.world.gateway.change(&told.id, registry.policy()).unwrap();
    assert_eq!(registry.file(&told).await.status, 200);
    let mut policy = registry.policy();
    policy.packages[0].kind = IndexKind::Npm;
    registry.world.gateway.change(&told.id, policy).unwrap();
    assert_eq!(registry.file(&told).await.status, 403);
}

#[tokio::test]
async fn denials_and_private_places_hold_for_packages() {
    let registry = Registry::start().await;
    let denied = Policy { deny_hosts: vec!["files.test".parse().unwrap()], ..registry.policy() };
    let sandbox = registry.world.sandbox(denied);
    registry.page(&sandbox, "/simple/a/").await;
    let answer = registry.file(&sandbox).await;
    assert_eq!(answer.header("x-belljar-reason"), Some("denied_host"));
    registry.world.names.set("files.test", &["10.1.2.3"]);
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    let answer = registry.file(&sandbox).await;
    assert_eq!(answer.header("x-belljar-reason"), Some("private"));
}

#[tokio::test]
async fn a_wrong_file_never_ends_well_and_is_not_kept() {
    let registry = Registry::start().await;
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    let wrong: Vec<u8> = BYTES.iter().rev().copied().collect();
    registry.files.file(FILE, &wrong);
    let broken = registry.raw_file(&sandbox).await;
    assert!(!broken.ends_with(&wrong), "{}", String::from_utf8_lossy(&broken));
    assert_eq!(registry.decided(&sandbox, 1).await, [BAD]);
    // Many pieces, of which only the last is wrong.
    let large = vec![b'x'; 3 << 20];
    let mut wrong = large.clone();
    *wrong.last_mut().unwrap() = b'y';
    registry.promise("/simple/a/", &large);
    registry.page(&sandbox, "/simple/a/").await;
    registry.files.file(FILE, &wrong);
    let broken = registry.raw_file(&sandbox).await;
    assert!(broken.len() < wrong.len(), "{} bytes of {}", broken.len(), wrong.len());
    // The next time it is right, for the same sandbox.
    registry.files.file(FILE, &large);
    assert_eq!(registry.file(&sandbox).await.body.as_bytes(), large);
    assert_eq!(registry.file(&sandbox).await.body.as_bytes(), large);
    assert_eq!(registry.decided(&sandbox, 4).await, [BAD, BAD, ALLOWED, CACHED]);
}

#[tokio::test]
async fn a_file_that_breaks_off_is_not_kept() {
    let registry = Registry::start().await;
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    let half = &BYTES[..BYTES.len() / 2];
    registry.files.answer(FILE, "application/octet-stream", BYTES.len(), half);
    registry.raw_file(&sandbox).await;
    // Shorter than promised, and whole as far as HTTP can tell.
    registry.files.file(FILE, half);
    let short = registry.raw_file(&sandbox).await;
    assert!(!short.ends_with(half), "{}", String::from_utf8_lossy(&short));
    let upstream = (Decision::Failed, Reason::Upstream);
    assert_eq!(registry.decided(&sandbox, 2).await, [upstream, BAD]);
    registry.files.file(FILE, BYTES);
    assert_eq!(registry.file(&sandbox).await.body.as_bytes(), BYTES);
    assert_eq!(registry.decided(&sandbox, 3).await[2], ALLOWED);
}

#[tokio::test]
async fn pages_that_contradict_each_other_are_not_believed() {
    let registry = Registry::start().await;
    let sandbox = registry.sandbox();
    registry.promise("/simple/b/", b"something else");
    registry.page(&sandbox, "/simple/a/").await;
    registry.page(&sandbox, "/simple/b/").await;
    for _ in 0..2 {
        assert_eq!(registry.file(&sandbox).await.body.as_bytes(), BYTES);
    }
    assert_eq!(registry.files.seen(), [FILE, FILE]);
    assert_eq!(registry.decided(&sandbox, 2).await, [ALLOWED, ALLOWED]);
    assert_eq!(kept(registry.cache.path()), 0);
}

#[tokio::test]
async fn parts_of_a_file_pass_the_cache_by() {
    let registry = Registry::start().await;
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    registry.file(&sandbox).await;
    let part = request("GET", &registry.files_host(), FILE, "range: bytes=0-1\r\n");
    assert_eq!(sandbox.ask(&part).await.status, 200);
    assert_eq!(registry.decided(&sandbox, 2).await, [ALLOWED, ALLOWED]);
    assert_eq!(registry.files.seen().len(), 2);
}

#[tokio::test]
async fn many_who_want_a_file_at_once_have_it_fetched_once() {
    let registry = Registry::start().await;
    *registry.files.slow.lock().unwrap() = Duration::from_millis(300);
    let sandboxes = [registry.sandbox(), registry.sandbox(), registry.sandbox()];
    for sandbox in &sandboxes {
        registry.page(sandbox, "/simple/a/").await;
    }
    let [a, b, c] = &sandboxes;
    let answers = tokio::join!(registry.file(a), registry.file(b), registry.file(c));
    for answer in [answers.0, answers.1, answers.2] {
        assert_eq!(answer.body.as_bytes(), BYTES);
    }
    assert_eq!(registry.files.seen(), [FILE]);
}

#[tokio::test]
async fn where_a_file_was_moved_to_it_must_have_the_same_bytes() {
    let registry = Registry::start().await;
    let moved = "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n";
    registry.files.answers.lock().unwrap().insert(FILE.to_owned(), moved.into());
    registry.files.file("/elsewhere", BYTES);
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    let elsewhere = request("GET", &registry.files_host(), "/elsewhere", "");
    assert_eq!(sandbox.ask(&elsewhere).await.status, 403);
    assert_eq!(registry.file(&sandbox).await.status, 302);
    assert_eq!(sandbox.ask(&elsewhere).await.body.as_bytes(), BYTES);
    // Now that the file is here, nobody has to be asked where it is.
    assert_eq!(registry.file(&sandbox).await.body.as_bytes(), BYTES);
}

#[tokio::test]
async fn what_comes_from_the_cache_is_charged_too() {
    let registry = Registry::start().await;
    let large = vec![b'x'; 3 << 20];
    registry.promise("/simple/a/", &large);
    registry.files.file(FILE, &large);
    let sandbox = registry.sandbox();
    registry.page(&sandbox, "/simple/a/").await;
    assert_eq!(registry.file(&sandbox).await.body.len(), large.len());
    let throttle = Throttle { bytes_in: 1 << 20, ..Throttle::default() };
    let sandbox = registry.world.sandbox(Policy { throttle, ..registry.policy() });
    registry.page(&sandbox, "/simple/a/").await;
    assert!(registry.raw_file(&sandbox).await.len() < 1 << 20);
    let spent = (Decision::Denied, Reason::BytesSpent);
    assert_eq!(registry.decided(&sandbox, 1).await, [spent]);
}

#[tokio::test]
async fn an_open_network_uses_the_cache_too() {
    let registry = Registry::start().await;
    let policy = Policy { reach: Reach::Open, ..registry.policy() };
    let sandbox = registry.world.sandbox(policy);
    registry.page(&sandbox, "/simple/a/").await;
    for _ in 0..2 {
        assert_eq!(registry.file(&sandbox).await.body.as_bytes(), BYTES);
    }
    assert_eq!(registry.files.seen(), [FILE]);
    // What is open may be written to.
    let post = request("POST", &registry.files_host(), "/x", "content-length: 0\r\n");
    assert_eq!(sandbox.ask(&post).await.status, 404);
}

#[tokio::test]
async fn what_came_from_the_cache_is_recorded_and_played_without_it() {
    let registry = Registry::start().await;
    let first = registry.sandbox();
    registry.page(&first, "/simple/a/").await;
    registry.file(&first).await;

    let cassette: belljar_domain::network::CassetteId = "packages".parse().unwrap();
    let record = Tape::Record { cassette: cassette.clone() };
    let recording = registry.world.sandbox(Policy { tape: record, ..registry.policy() });
    registry.page(&recording, "/simple/a/").await;
    assert_eq!(registry.file(&recording).await.body.as_bytes(), BYTES);
    assert_eq!(registry.decided(&recording, 1).await, [CACHED]);
    registry.world.gateway.close(&recording.id).unwrap();

    let (asked, seen) = (registry.world.names.asked("index.test"), registry.index.seen().len());
    let replay = Tape::Replay { cassette, miss: Miss::Strict };
    for policy in [Policy::default(), registry.policy()] {
        let playing = registry.world.sandbox(Policy { tape: replay.clone(), ..policy });
        assert_eq!(registry.page(&playing, "/simple/a/").await.status, 200);
        assert_eq!(registry.file(&playing).await.body.as_bytes(), BYTES);
        assert_eq!(registry.decided(&playing, 1).await, [(Decision::Played, Reason::Replayed)]);
        // What is here but was not recorded is not played.
        let other = request("GET", &registry.files_host(), &format!("{FILE}.metadata"), "");
        assert_eq!(sandbox_reason(&playing.ask(&other).await), "not_recorded");
    }
    assert_eq!(registry.world.names.asked("index.test"), asked);
    assert_eq!(registry.index.seen().len(), seen);
    assert_eq!(registry.files.seen(), [FILE]);
}

fn sandbox_reason(answer: &Answer) -> &str {
    answer.header("x-belljar-reason").unwrap_or_default()
}

/// How many files the cache holds, or is writing.
fn kept(folder: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            count += kept(&entry.path());
        } else if entry.file_name() != "lock" {
            count += 1;
        }
    }
    count
}
