//! A git server: git's own HTTP backend, and a forge's API for merge requests.
//!
//! It changes repositories exactly as git does, and hands a request that was cut on to git as far
//! as it came. It asks for the credential, so that what comes without it changes nothing.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};

use crate::world::KEY;

/// A request that reached the server.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
}

pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) root: tempfile::TempDir,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    seen: Mutex<Vec<Seen>>,
    pulls: Mutex<Vec<Value>>,
}

impl Server {
    /// With the repositories `acme/widget` and `acme/secret`, which have one commit each.
    pub(super) async fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["acme/widget.git", "other/secret.git"] {
            let at = root.path().join(name);
            std::fs::create_dir_all(&at).unwrap();
            git(&at, &["init", "-q", "--bare", "-b", "trunk"]);
            // Nothing here protects a branch: only the gateway does.
            git(&at, &["config", "receive.denyDeletes", "false"]);
            let tree = git(&at, &["mktree"]);
            let commit = git(&at, &["commit-tree", tree.trim(), "-m", "first"]);
            git(&at, &["update-ref", "refs/heads/trunk", commit.trim()]);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, pulls) = (Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { root: root.path().to_owned(), seen, pulls });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, root, shared }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    pub(super) fn forget(&self) {
        self.shared.seen.lock().unwrap().clear();
    }

    /// The commit of a branch of `acme/widget`.
    pub(super) fn tip(&self, branch: &str) -> Option<String> {
        let at = self.root.path().join("acme/widget.git");
        let name = format!("refs/heads/{branch}");
        let found = git(&at, &["for-each-ref", "--format=%(objectname)", &name]);
        Some(found.trim().to_owned()).filter(|found| !found.is_empty())
    }

    pub(super) fn pulls(&self) -> usize {
        self.shared.pulls.lock().unwrap().len()
    }
}

/// Runs git in a directory, without settings of the host.
pub(super) fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(at).env_clear().env("HOME", at);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null());
    for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command.env(format!("{name}_NAME"), "t").env(format!("{name}_EMAIL"), "t@t.example");
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, mut body) = request.into_parts();
    shared.seen.lock().unwrap().push(Seen {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        headers: head.headers.clone(),
    });
    let mut collected = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            collected.extend_from_slice(data);
        }
    }
    let path = head.uri.path();
    let shown = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let response = Response::builder();
    if let Some(rest) = path.strip_prefix("/api/v1/repos/acme/widget/pulls") {
        assert_eq!((rest, shown), ("", Some(format!("token {KEY}"))));
        let (status, answer) = pulls(&shared, &head.method, &collected);
        let text = answer.to_string();
        return Ok(response.status(status).body(Full::new(text.into())).unwrap());
    }
    if path.starts_with("/acme/moved") {
        let to = "http://127.0.0.1:9/elsewhere";
        let moved = response.status(302).header("location", to);
        return Ok(moved.body(Full::default()).unwrap());
    }
    let wanted = format!("Basic {}", STANDARD.encode(format!("bot:{KEY}")));
    if shown != Some(wanted) {
        let challenge = response.status(401).header("www-authenticate", "Basic realm=\"git\"");
        return Ok(challenge.body(Full::default()).unwrap());
    }
    let answered = tokio::task::spawn_blocking(move || backend(&shared.root, &head, &collected));
    Ok(answered.await.unwrap())
}

/// As a forge answers that calls itself Gitea or Forgejo.
fn pulls(shared: &Shared, method: &http::Method, body: &[u8]) -> (u16, Value) {
    let mut pulls = shared.pulls.lock().unwrap();
    if method == http::Method::GET {
        return (200, Value::Array(pulls.clone()));
    }
    let new: Value = serde_json::from_slice(body).unwrap();
    let is_same =
        |one: &&Value| one["head"]["ref"] == new["head"] && one["base"]["ref"] == new["base"];
    if pulls.iter().any(|one| is_same(&one)) {
        return (409, json!({ "message": "pull request already exists for these targets" }));
    }
    let number = pulls.len() + 1;
    let url = format!("https://git.example/acme/widget/pulls/{number}");
    let one = json!({
        "number": number, "html_url": url, "title": new["title"],
        "head": { "ref": new["head"], "repo": { "full_name": "acme/widget" } },
        "base": { "ref": new["base"] },
    });
    pulls.push(one.clone());
    (201, one)
}

/// The common gateway interface of `git http-backend`.
fn backend(root: &Path, head: &http::request::Parts, body: &[u8]) -> Response<Full<Bytes>> {
    let text = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut command = Command::new("git");
    command.arg("http-backend").env_clear().env("GIT_PROJECT_ROOT", root);
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.env("GIT_HTTP_EXPORT_ALL", "1").env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", root);
    command.env("REMOTE_USER", "bot").env("REQUEST_METHOD", head.method.as_str());
    command.env("PATH_INFO", head.uri.path());
    command.env("QUERY_STRING", head.uri.query().unwrap_or_default());
    command.env("CONTENT_TYPE", text("content-type").unwrap_or_default());
    command.envs(text("content-encoding").map(|value| ("HTTP_CONTENT_ENCODING", value)));
    command.envs(text("git-protocol").map(|value| ("GIT_PROTOCOL", value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = body.to_vec();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said).unwrap();
    writing.join().unwrap();
    child.wait().unwrap();
    let end = said.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let mut response = Response::builder();
    for line in std::str::from_utf8(&said[..end]).unwrap().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        response = match name {
            "Status" => response.status(value.split(' ').next().unwrap()),
            _ => response.header(name, value),
        };
    }
    response.body(Full::new(said[end + 4..].to_vec().into())).unwrap()
}
