//! What stolen, dead, forged and stretched tokens are worth.
//!
//! Requirements: G2, G6

use belljar_domain::network::{Decision, Reason};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};

use crate::world::{HELLO, STREAMED, World, messages, request};

const SCRIPT: &str = "[[turn]]\nsay = \"hello there\"\n";

#[tokio::test]
async fn a_token_opens_what_it_is_for() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let answer = sandbox.ask(messages(&world.token(&sandbox), HELLO)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(answer.json()["content"][0]["text"], "hello there");
    let asked = world.model.record().all();
    assert!(asked[0].credential, "{asked:?}");
    assert!(asked[0].watched.is_empty(), "the token left: {asked:?}");
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Allowed, Reason::Operation));
    assert_eq!(row.operation.as_deref(), Some("llm"));
}

#[tokio::test]
async fn nothing_else_opens_anything() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let forged = format!("bjt_{}", "A".repeat(43));
    let cut = &token[..token.len() - 1];
    for wrong in ["", "' OR '1'='1", "bjt_", &forged, cut, &token.to_uppercase(), "\t"] {
        let answer = sandbox.ask(messages(wrong, HELLO)).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{wrong}: {answer:?}");
        assert_eq!(answer.json()["error"]["type"], "authentication_error");
    }
    let mut none = messages(&token, HELLO);
    none.headers_mut().remove("authorization");
    assert_eq!(sandbox.ask(none).await.status, StatusCode::UNAUTHORIZED);
    let mut both = messages(&token, HELLO);
    both.headers_mut().insert("x-api-key", token.parse().unwrap());
    assert_eq!(sandbox.ask(both).await.status, StatusCode::UNAUTHORIZED);
    let mut key = messages(&token, HELLO);
    let value = key.headers_mut().remove("authorization").unwrap();
    let value = value.to_str().unwrap().strip_prefix("Bearer ").unwrap().parse().unwrap();
    key.headers_mut().insert("x-api-key", value);
    assert_eq!(sandbox.ask(key).await.status, StatusCode::OK);
    assert_eq!(world.model.record().total(), 1);
    let rows = world.rows(&sandbox, 10).await;
    assert_eq!(rows.iter().filter(|row| row.reason == Reason::Token).count(), 9);
}

#[tokio::test]
async fn a_header_of_a_megabyte_is_no_token() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let (head, body) = sandbox.begin(messages(&"x".repeat(1 << 20), HELLO)).await;
    drop(body);
    assert!([400, 401, 431].contains(&head.status.as_u16()), "{head:?}");
    assert_eq!(world.model.record().total(), 0);
}

#[tokio::test]
async fn a_token_of_another_sandbox_is_dead_everywhere() {
    let world = World::start(SCRIPT, "").await;
    let (home, thief) = (world.sandbox("a"), world.sandbox("b"));
    let token = world.token(&home);
    assert_eq!(home.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
    assert_eq!(thief.ask(messages(&token, HELLO)).await.status, StatusCode::UNAUTHORIZED);
    let row = world.rows(&thief, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Denied, Reason::Token));
    // It has leaked: nobody uses it any more.
    assert_eq!(home.ask(messages(&token, HELLO)).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(home.ask(messages(&world.token(&home), HELLO)).await.status, StatusCode::OK);
    assert_eq!(world.model.record().total(), 2);
}

/// Puts the clock forward. It goes on by itself afterwards.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_ends_with_its_time() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token_for(&sandbox, &["llm"], 300, None);
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
    pass(301).await;
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn only_the_node_gives_a_token_more_time() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token_for(&sandbox, &["llm"], 300, None);
    world.gateway.renew(&sandbox.id, 600).unwrap();
    pass(301).await;
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
    for path in ["/renew", "/operations/renew", "/tokens", "/operations/llm/renew"] {
        let answer = sandbox.ask(request(Method::POST, path, &token, "{}")).await;
        assert!(answer.status.is_client_error(), "{path}");
    }
}

#[tokio::test]
async fn a_token_ends_with_its_sandbox_and_with_its_pause() {
    let world = World::start(SCRIPT, "").await;
    let mut sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    world.gateway.revoke(&sandbox.id).unwrap();
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::UNAUTHORIZED);
    let token = world.token(&sandbox);
    world.gateway.close(&sandbox.id).unwrap();
    sandbox.address = world.open(&sandbox.id.clone(), "a");
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.model.record().total(), 0);
}

#[tokio::test]
async fn a_token_does_not_grow() {
    let more = "[operations.plain]\nkind = \"http\"\nplaintext = true\n\
                upstream = \"http://127.0.0.1:9\"\nmethods = [\"GET\"]\npaths = [\"/\"]\n";
    let world = World::start(SCRIPT, more).await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    for path in ["/operations/plain/x", "/operations/nothing/x", "/operations/", "/operations/llm"]
    {
        let answer = sandbox.ask(request(Method::GET, path, &token, "")).await;
        assert!([403, 404].contains(&answer.status.as_u16()), "{path}: {answer:?}");
    }
    for path in ["/mint", "/admin", "/v1/files", "/v1/organizations", "/v1/messages/batches"] {
        let answer = sandbox.ask(request(Method::POST, path, &token, HELLO)).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    let only_plain = world.token_for(&sandbox, &["plain"], 300, None);
    let answer = sandbox.ask(messages(&only_plain, HELLO)).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(world.model.record().total(), 0);
    let rows = world.rows(&sandbox, 10).await;
    assert!(rows.iter().all(|row| row.reason == Reason::Scope), "{rows:#?}");
}

#[tokio::test]
async fn nobody_is_answered_who_meant_another_host() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let mut bent = messages(&world.token(&sandbox), HELLO);
    bent.headers_mut().insert("host", "evil.example".parse().unwrap());
    let answer = sandbox.ask(bent).await;
    assert!(answer.status.is_client_error(), "{answer:?}");
    assert_eq!(world.model.record().total(), 0);
}

#[tokio::test]
async fn a_stream_ends_when_its_token_does() {
    let script = "[[turn]]\nsay = \"one two three\"\n[turn.fault]\nkind = \"stall\"\nafter = 3\n";
    let world = World::start(script, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let (head, mut body) = sandbox.begin(messages(&token, STREAMED)).await;
    assert_eq!(head.status, StatusCode::OK);
    let mut text = String::new();
    while !text.contains("content_block_start") {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&frame).unwrap());
    }
    world.gateway.revoke(&sandbox.id).unwrap();
    let rest = tokio::time::timeout(crate::world::PATIENCE, body.collect()).await;
    let rest = rest.expect("the stream ends").unwrap().to_bytes();
    let rest = std::str::from_utf8(&rest).unwrap();
    assert!(rest.contains("event: error") && rest.contains("revoked"), "{rest}");
    let row = world.rows(&sandbox, 1).await.remove(0);
    assert_eq!((row.decision, row.reason), (Decision::Failed, Reason::Token));
    assert!(row.charge.is_some_and(|charge| charge.assumed && charge.input == 1000));
}

#[tokio::test]
async fn health_needs_no_token() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let health = Request::get("/healthz").header("host", "localhost:3128");
    let answer = sandbox.ask(health.body(Full::default()).unwrap()).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::OK, "{\"ok\":true}"));
}
