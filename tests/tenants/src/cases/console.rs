//! The console beside pages of sandboxes.
//!
//! A page that code in a sandbox serves runs its scripts in a tenant's browser. With the console's
//! origin, they could read the tenant's key. So the console is on no host of a sandbox, and no
//! address that a browser opens by itself has a page of a sandbox on the console's host.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_console::{Console, File, POLICY};
use belljar_testkit::Undecided;
use bytes::Bytes;
use serde_json::json;
use tokio::net::TcpStream;

use super::authorization::EVERYTHING;
use super::links;
use crate::client::{Answer, Client, HANG_LIMIT, exchange, whole};
use crate::platform::Platform;
use crate::wire::{Door, Hosts, Wire, status};
use crate::world::World;

/// The console of every server in this suite; an executable may have been built without one.
pub(crate) const CONSOLE: Console = Console::of(&[
    File {
        path: "assets/app-1a2b.js",
        content_type: "text/javascript; charset=utf-8",
        plain: b"the console's script",
        gzip: None,
        digest: "aa",
    },
    File {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        plain: b"the console's page",
        gzip: None,
        digest: "bb",
    },
]);

const API: &str = "api.example.com";
const PATHS: [&str; 5] = [
    "/console",
    "/console/",
    "/console/runs",
    "/console/assets/app-1a2b.js",
    "/console/?e2b-sandbox-id=x",
];

/// Answers every path with a page.
const INSIDE: &str = r#"
import http.server
class Inside(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = b"a sandbox's page"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Inside).serve_forever()
"#;

const EVIL: &str = "<!doctype html><script>fetch('/v1/sandboxes')</script>";

/// API-11/console: on a server by itself.
pub(crate) async fn is_apart(world: &World) -> anyhow::Result<String> {
    keep_apart(&world.a).await
}

/// API-11/console/platform: by control. Nodes serve no console at all.
pub(crate) async fn is_apart_by_control(_: &World) -> anyhow::Result<String> {
    let platform = Platform::start().await?;
    let seen = Box::pin(async {
        let (key, _) = platform.key("a", &EVERYTHING, None).await?;
        let seen = keep_apart(&platform.client(Some(&key))).await?;
        for path in PATHS {
            let answer = ask(platform.public, API, path, &[]).await?;
            ensure!(!is_the_consoles(&answer), "a node serves {path}: {}", answer.text());
        }
        Ok(seen)
    })
    .await;
    platform.stop().await?;
    seen
}

async fn keep_apart(owner: &Client) -> anyhow::Result<String> {
    let at = owner.address;
    let (id, token) = links::sandbox(owner).await?;
    let by_header = [("e2b-sandbox-id", id.as_str()), ("e2b-sandbox-port", "8080")];
    serve_inside(owner, &id, &by_header).await?;
    let host = format!("8080-{id}.example.com");
    let mut apart = 0;
    for path in PATHS {
        // The control: on its own host, the console is there.
        let ours = ask(at, API, path, &[]).await?.expect(200)?;
        ensure!(is_the_consoles(&ours), "{path}: {}", ours.text());
        ensure!(header(&ours, "content-security-policy") == POLICY, "{path} without its policy");
        ensure!(header(&ours, "x-content-type-options") == "nosniff", "{path} may be guessed");
        // A request that names a sandbox goes to that sandbox.
        for theirs in [ask(at, &host, path, &[]).await?, ask(at, API, path, &by_header).await?] {
            let theirs = theirs.expect(200)?;
            ensure!(theirs.text() == "a sandbox's page", "{path}: {}", theirs.text());
            apart += 1;
        }
        // So it is on ports where nothing listens, and after a sandbox's end.
        let gone = "8080-abcdefghijklmnopqrstuvwxyz.example.com".to_owned();
        let others = ["49983", "49999", "9"].map(|port| format!("{port}-{id}.example.com"));
        for host in others.into_iter().chain([gone]) {
            let answer = ask(at, &host, path, &[]).await?;
            ensure!(!is_the_consoles(&answer), "{host}{path}: {}", answer.text());
            apart += 1;
        }
        for wire in [Wire::Http1, Wire::Http2] {
            let hosts = Hosts { target: Some(API), fields: &[&host] };
            let seen = status(Door::Plain(at), wire, hosts, ("GET", path), &[], "").await?;
            ensure!(seen == 400, "two hosts for {path} by {wire:?}: {seen}");
        }
        other_origins_read_nothing(owner, &host, path).await?;
    }
    let links = links_are_no_pages(owner, &id, &token).await?;
    Ok(format!("{apart} requests for a sandbox, none answered by the console; {links} links"))
}

/// A script of the sandbox's page asks for the console across origins.
async fn other_origins_read_nothing(owner: &Client, host: &str, path: &str) -> anyhow::Result<()> {
    let origin = format!("https://{host}");
    let asked = [
        ("origin", origin.as_str()),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "e2b-sandbox-id"),
    ];
    let keyless = Client { key: None, ..owner.clone() };
    for method in ["GET", "OPTIONS"] {
        let answer = keyless.send_with(method, path, &asked, "").await?;
        let mut names = answer.headers.keys().map(|name| name.as_str());
        let is_shared = names.any(|name| name.starts_with("access-control-allow"));
        ensure!(!is_shared, "{method} {path} for {origin}: {:?}", answer.headers);
        let own = header(&answer, "cross-origin-resource-policy");
        ensure!(own == "same-origin", "{method} {path}: another origin may embed it");
    }
    Ok(())
}

/// Signed links are on the console's host, and a browser opens them without any header.
async fn links_are_no_pages(owner: &Client, id: &str, token: &str) -> anyhow::Result<usize> {
    let names = ["evil.html", "evil.svg", "evil.xml", "evil.js", "evil.mjs", "evil.css", "evil"];
    for name in names {
        let file = format!("/v1/sandboxes/{id}/files/content?path=/tmp/{name}");
        owner.send("PUT", &file, EVIL).await?.expect(200)?;
        let link = links::signed(&format!("/tmp/{name}"), "read", token, None);
        let answer = ask(owner.address, API, &link, &[]).await?.expect(200)?;
        ensure!(answer.text() == EVIL, "{name}: {}", answer.text());
        let kind = header(&answer, "content-type");
        let is_harmless = ["text/plain; charset=utf-8", "application/octet-stream"].contains(&kind);
        ensure!(is_harmless, "{name} is served as {kind}");
        ensure!(header(&answer, "x-content-type-options") == "nosniff", "{name} may be guessed");
    }
    Ok(names.len())
}

async fn serve_inside(owner: &Client, id: &str, by_header: &[(&str, &str)]) -> anyhow::Result<()> {
    let call = json!({ "argv": ["python3", "-c", INSIDE], "background": true });
    owner.json("POST", &format!("/v1/sandboxes/{id}/calls"), &call).await?.expect(201)?;
    let begin = Instant::now();
    while begin.elapsed() < HANG_LIMIT {
        if ask(owner.address, API, "/", by_header).await?.status == 200 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(Undecided("the server inside does not answer".to_owned()).into())
}

/// Asks without a key, for a host of one's choice.
async fn ask(
    at: SocketAddr,
    host: &str,
    path: &str,
    more: &[(&str, &str)],
) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(at).await?;
    let headers: Vec<_> = [("host", host)].into_iter().chain(more.iter().copied()).collect();
    let answer = exchange(stream, "GET", path, &headers, Bytes::new());
    let answer = tokio::time::timeout(HANG_LIMIT, answer).await;
    whole(answer.with_context(|| format!("no answer to {path} for {host}"))??).await
}

fn is_the_consoles(answer: &Answer) -> bool {
    answer.text().starts_with("the console's")
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
