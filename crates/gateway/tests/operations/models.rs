//! What of a request reaches the model, and what does not.
//!
//! Requirements: G3, G4, G5

use belljar_domain::network::Reason;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::world::{HELLO, World, messages, request};

const SCRIPT: &str = "[[turn]]\nsay = \"hello\"\n";

async fn sent(world: &World) -> Value {
    let body = world.model.record().all().pop().unwrap().body.unwrap();
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_request_that_breaks_no_rule_arrives_as_it_was() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let body = r#"{ "model":"claude-x" , "max_tokens":100,"metadata":{"user_id":"ü"},"future":[1.50,null],"messages":[{"role":"user","content":"hi"}] }"#;
    let answer = sandbox.ask(messages(&world.token(&sandbox), body)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(!answer.headers.contains_key("x-belljar-changed-parameters"));
    assert_eq!(world.model.record().all()[0].body.as_deref(), Some(body));
}

#[tokio::test]
async fn the_operator_chooses_the_model_and_its_fields() {
    let settings = "pin = { model = \"claude-pinned\", top_k = 3 }\nmax_output_tokens = 7\n";
    let world = World::start(SCRIPT, settings).await;
    let sandbox = world.sandbox("a");
    let body = r#"{"model":"claude-dear","max_tokens":9000,"top_k":99,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = sandbox.ask(messages(&world.token(&sandbox), body)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["x-belljar-changed-parameters"], "output_tokens");
    let sent = sent(&world).await;
    assert_eq!(sent["model"], "claude-pinned");
    assert_eq!(sent["max_tokens"], 7);
    assert_eq!(sent["top_k"], 3);
    assert_eq!(world.rows(&sandbox, 1).await[0].charge.as_ref().unwrap().model, "claude-pinned");
}

#[tokio::test]
async fn only_the_models_that_are_named_are_served() {
    let settings = "models = [\"claude-a\"]\naliases = { small = \"claude-b\" }\n";
    let world = World::start(SCRIPT, settings).await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let ask = |model: &str| messages(&token, &HELLO.replace("claude-x", model));
    assert_eq!(sandbox.ask(ask("claude-a")).await.status, StatusCode::OK);
    assert_eq!(sandbox.ask(ask("small")).await.status, StatusCode::OK);
    assert_eq!(sent(&world).await["model"], "claude-b");
    let denied = sandbox.ask(ask("claude-c")).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN, "{denied:?}");
    assert_eq!(world.rows(&sandbox, 3).await[2].reason, Reason::Scope);
    let list = sandbox.ask(request(Method::GET, "/v1/models", &token, "")).await;
    let names: Vec<_> =
        list.json()["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(names, [json!("small"), json!("claude-a")]);
    assert_eq!(world.model.record().total(), 2);
}

#[tokio::test]
async fn tools_that_run_at_the_provider_do_not_reach_it() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let body = r#"{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"look","input_schema":{"type":"object"}}],"mcp_servers":[{"url":"https://x"}]}"#;
    assert_eq!(sandbox.ask(messages(&token, body)).await.status, StatusCode::OK);
    let sent = sent(&world).await;
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    assert_eq!(sent["tools"][0]["name"], "look");
    assert_eq!(sent.get("mcp_servers"), None);
}

#[tokio::test]
async fn no_field_leads_elsewhere() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    for (field, value) in [
        ("api_base", json!("http://evil.example")),
        ("base_url", json!("http://evil.example")),
        ("extra_headers", json!({"x-api-key": "k"})),
        ("api_key", json!("k")),
    ] {
        let mut body: Value = serde_json::from_str(HELLO).unwrap();
        body[field] = value;
        let answer = sandbox.ask(messages(&token, &body.to_string())).await;
        assert!(answer.status.is_client_error(), "{field}: {answer:?}");
    }
    let picture = r#"{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://169.254.169.254/"}}]}]}"#;
    assert!(sandbox.ask(messages(&token, picture)).await.status.is_client_error());
    for model in ["http://evil.example/v1", "../x", "a b"] {
        let body = HELLO.replace("claude-x", model);
        assert!(sandbox.ask(messages(&token, &body)).await.status.is_client_error(), "{model}");
    }
    assert_eq!(world.model.record().total(), 0);
}

#[tokio::test]
async fn headers_of_the_sandbox_choose_nothing() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let mut ask = messages(&world.token(&sandbox), HELLO);
    for name in
        ["cookie", "openai-organization", "x-forwarded-for", "via", "range", "proxy-connection"]
    {
        ask.headers_mut().insert(name, "bytes=0-4".parse().unwrap());
    }
    ask.headers_mut().insert("anthropic-beta", "some-beta".parse().unwrap());
    ask.headers_mut().insert("idempotency-key", "key-of-client".parse().unwrap());
    assert_eq!(sandbox.ask(ask).await.status, StatusCode::OK);
    let asked = world.model.record().all().remove(0);
    let mut names = asked.headers;
    names.sort();
    let want = [
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "user-agent",
        "x-api-key",
    ];
    assert_eq!(names, want);
}

#[tokio::test]
async fn bodies_have_a_largest_size() {
    let world = World::start(SCRIPT, "max_body = 2000\n").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let body = HELLO.replace("hi", &"x".repeat(4000));
    let answer = sandbox.ask(messages(&token, &body)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{answer:?}");
    assert_eq!(answer.json()["error"]["type"], "request_too_large");
    assert_eq!(sandbox.ask(messages(&token, HELLO)).await.status, StatusCode::OK);
}

/// They are read on another thread than small ones, by the same rules.
#[tokio::test]
async fn large_bodies_are_read_like_small_ones() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let body = HELLO.replace("hi", &"x".repeat(1 << 20));
    assert_eq!(sandbox.ask(messages(&token, &body)).await.status, StatusCode::OK);
    let asked = world.model.record().all().remove(0);
    assert!(asked.body_bytes > 1 << 20);
    let twice = body.replace("{\"model\"", "{\"stream\":false,\"stream\":true,\"model\"");
    assert_ne!(twice, body);
    let refused = sandbox.ask(messages(&token, &twice)).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
}

#[tokio::test]
async fn clients_are_told_in_their_own_words() {
    let world = World::start(SCRIPT, "").await;
    let sandbox = world.sandbox("a");
    let token = world.token(&sandbox);
    let socket = sandbox.ask(request(Method::GET, "/v1/responses", &token, "")).await;
    assert_eq!(socket.status, StatusCode::UPGRADE_REQUIRED);
    let wrong = sandbox.ask(request(Method::POST, "/v1/responses", "nothing", "{}")).await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert_eq!(wrong.json()["error"]["code"], "invalid_api_key");
    let named = request(Method::POST, "/operations/llm/v1/messages?beta=true", &token, HELLO);
    assert_eq!(sandbox.ask(named).await.status, StatusCode::OK);
    assert_eq!(world.model.record().all()[0].target, "/v1/messages?beta=true");
    let count = request(Method::POST, "/v1/messages/count_tokens", &token, HELLO);
    let count = sandbox.ask(count).await;
    assert_eq!(count.status, StatusCode::OK, "{count:?}");
    let rows = world.rows(&sandbox, 4).await;
    assert_eq!(rows[3].charge, None);
    let broken = sandbox.ask(messages(&token, "{\"model\":")).await;
    assert_eq!(broken.status, StatusCode::BAD_REQUEST);
}
