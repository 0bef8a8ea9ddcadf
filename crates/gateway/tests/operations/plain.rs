//! Operations that are no model.
//!
//! Requirements: G3, G4

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use belljar_domain::network::{Decision, Reason};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;

use crate::world::{KEY, World, request};

pub(crate) type Seen = Arc<Mutex<Vec<(String, http::HeaderMap)>>>;

pub(crate) async fn upstream() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&shared);
            let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, seen)
}

/// Says what it was asked; `/v2/echo` also with which headers.
async fn answer(
    request: http::Request<Incoming>,
    seen: Seen,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let text = match head.uri.path() {
        "/v2/echo" => format!("{:?}", head.headers.get("x-token").map(|v| v.to_str().unwrap())),
        _ => format!("{} {} {}", head.method, head.uri, String::from_utf8_lossy(&body)),
    };
    seen.lock().unwrap().push((head.uri.to_string(), head.headers));
    let response = http::Response::builder().header("set-cookie", "a=b").header("etag", "e");
    Ok(response.body(Full::new(text.into())).unwrap())
}

async fn world() -> (World, Seen) {
    let (address, seen) = upstream().await;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let settings = format!(
        "[operations.plain]\nkind = \"http\"\nplaintext = true\nupstream = \"http://{address}/v2\"\n\
         methods = [\"GET\", \"POST\"]\npaths = [\"/query\", \"/echo\"]\n\
         credential = {{ file = {key:?}, header = \"x-token\" }}\n"
    );
    (World::start("[[turn]]\nsay = \"x\"\n", &settings).await, seen)
}

#[tokio::test]
async fn methods_and_paths_are_those_that_are_named() {
    let (world, seen) = world().await;
    let sandbox = world.sandbox("a");
    let token = world.token_for(&sandbox, &["plain"], 300, None);
    let ask = |method, path: &str| {
        sandbox.ask(request(method, &format!("/operations/plain{path}"), &token, "body"))
    };
    let answer = ask(Method::POST, "/query/deep?q=1&r=%20").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(answer.body, "POST /v2/query/deep?q=1&r=%20 body");
    assert_eq!(answer.headers["etag"], "e");
    assert!(!answer.headers.contains_key("set-cookie"));
    for path in ["/", "", "/admin", "/query/../admin", "/query/%2e%2e/admin", "/queryx", "//query"]
    {
        let answer = ask(Method::GET, path).await;
        assert!(answer.status.is_client_error(), "{path}: {answer:?}");
    }
    let deleted = ask(Method::DELETE, "/query").await;
    assert_eq!(deleted.status, StatusCode::METHOD_NOT_ALLOWED);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1["x-token"], KEY);
    assert!(!seen[0].1.contains_key("authorization"));
}

#[tokio::test]
async fn an_echo_is_cut_here_too() {
    let (world, _) = world().await;
    let sandbox = world.sandbox("a");
    let token = world.token_for(&sandbox, &["plain"], 300, None);
    let answer = sandbox.ask(request(Method::GET, "/operations/plain/echo", &token, "")).await;
    answer.has_no_key();
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Failed, Reason::BadAnswer));
}

#[tokio::test]
async fn idempotency_keys_of_two_tenants_never_meet() {
    let (world, seen) = world().await;
    let mut keys = Vec::new();
    for tenant in ["a", "b", "a"] {
        let sandbox = world.sandbox(tenant);
        let token = world.token_for(&sandbox, &["plain"], 300, None);
        let mut ask = request(Method::POST, "/operations/plain/query", &token, "x");
        ask.headers_mut().insert("idempotency-key", "one".parse().unwrap());
        assert_eq!(sandbox.ask(ask).await.status, StatusCode::OK);
        let seen = seen.lock().unwrap();
        keys.push(seen.last().unwrap().1["idempotency-key"].clone());
    }
    assert_ne!(keys[0], "one");
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[0], keys[2]);
}

#[tokio::test]
async fn an_upstream_that_is_not_there_costs_nothing() {
    let settings = "[operations.other]\nkind = \"http\"\nplaintext = true\n\
                    upstream = \"http://127.0.0.1:9\"\nmethods = [\"GET\"]\npaths = [\"/\"]\n\
                    budget = { requests = 1 }\n";
    let world = World::start("[[turn]]\nsay = \"x\"\n", settings).await;
    let sandbox = world.sandbox("a");
    let token = world.token_for(&sandbox, &["other"], 300, None);
    for nth in 0..3 {
        let answer = sandbox.ask(request(Method::GET, "/operations/other/x", &token, "")).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{answer:?}");
        assert_eq!(world.rows(&sandbox, nth + 1).await[nth].reason, Reason::Unreachable);
    }
}
