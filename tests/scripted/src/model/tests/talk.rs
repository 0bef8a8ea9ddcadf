//! Conversations: the same words and the same usage in every dialect, streamed
//! or not.

use super::*;

const SCRIPT: &str = r#"
models = ["big", "small"]
[[turn]]
say = "Let me look."
call = [{ shell = "echo hallo" }]
usage = { input = 11, output = 7, cached = 5, written = 3 }
[[turn]]
say = "It is all here."
"#;

#[tokio::test]
async fn messages_are_the_same_streamed_and_whole() {
    let model = start(SCRIPT).await;
    let whole = post(&model, "/v1/messages", &question("/v1/messages", false)).await.json();
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["content"][0]["text"], "Let me look.");
    assert_eq!(whole["content"][1]["name"], "Bash");
    assert_eq!(whole["content"][1]["input"], json!({ "command": "echo hallo" }));

    let got = post(&model, "/v1/messages", &question("/v1/messages", true)).await;
    assert_eq!(got.headers["content-type"], "text/event-stream");
    let events = got.events();
    let join = |key: &str| -> String {
        events.iter().filter_map(|event| event["delta"][key].as_str()).collect()
    };
    assert_eq!(join("text"), "Let me look.");
    assert_eq!(join("partial_json"), json!({ "command": "echo hallo" }).to_string());
    let last = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    assert_eq!(last["usage"], whole["usage"]);
    assert_eq!(last["usage"]["cache_read_input_tokens"], 5);
    assert_eq!(last["delta"]["stop_reason"], "tool_use");
    assert!(got.text().starts_with("event: message_start\n"));
}

#[tokio::test]
async fn responses_are_the_same_streamed_and_whole() {
    let model = start(SCRIPT).await;
    let mut whole = post(&model, "/v1/responses", &question("/v1/responses", false)).await.json();
    assert_eq!(whole["output"][1]["arguments"], json!({ "command": "echo hallo" }).to_string());
    assert_eq!(whole["usage"]["input_tokens"], 11 + 5 + 3);

    let events = post(&model, "/v1/responses", &question("/v1/responses", true)).await.events();
    let mut last = events.last().unwrap().clone();
    assert_eq!(last["type"], "response.completed");
    let numbers: Vec<u64> =
        events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    // Ids come from the request, and the two requests differ in `stream`.
    for answer in [&mut whole, &mut last["response"]] {
        answer["id"].take();
        for item in answer["output"].as_array_mut().unwrap() {
            item["id"].take();
            item["call_id"].take();
        }
    }
    assert_eq!(last["response"], whole);
}

#[tokio::test]
async fn chat_tells_usage_in_a_stream_only_when_asked() {
    const PATH: &str = "/v1/chat/completions";
    let model = start(SCRIPT).await;
    let whole = post(&model, PATH, &question(PATH, false)).await.json();
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole["usage"]["total_tokens"], 11 + 5 + 3 + 7);

    let silent = post(&model, PATH, &question(PATH, true)).await;
    assert!(silent.events().iter().all(|event| event.get("usage").is_none()));
    assert!(silent.text().ends_with("data: [DONE]\n\n"));
    let arguments: String = silent
        .events()
        .iter()
        .filter_map(|event| {
            let call = &event["choices"][0]["delta"]["tool_calls"][0];
            call["function"]["arguments"].as_str().map(str::to_owned)
        })
        .collect();
    assert_eq!(arguments, json!({ "command": "echo hallo" }).to_string());

    let mut asking = question(PATH, true);
    asking["stream_options"] = json!({ "include_usage": true });
    let last = post(&model, PATH, &asking).await.events().pop().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], whole["usage"]);
}

#[tokio::test]
async fn a_tool_result_leads_to_the_next_turn() {
    let model = start(SCRIPT).await;
    let mut body = question("/v1/messages", false);
    let first = post(&model, "/v1/messages", &body).await.json();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": first["content"] }));
    let result = json!({ "type": "tool_result", "tool_use_id": first["content"][1]["id"],
        "content": "hallo" });
    messages.push(json!({ "role": "user", "content": [result] }));
    let second = post(&model, "/v1/messages", &body).await.json();
    assert_eq!(second["content"], json!([{ "type": "text", "text": "It is all here." }]));
    assert_eq!(second["stop_reason"], "end_turn");

    body["messages"][2]["content"][0]["tool_use_id"] = "another".into();
    assert_eq!(post(&model, "/v1/messages", &body).await.status, 400);
}

#[tokio::test]
async fn without_a_tool_on_offer_there_is_no_call() {
    let model = start(SCRIPT).await;
    let mut body = question("/v1/messages", false);
    body["tools"] = json!([{ "type": "web_search_20250305", "name": "web_search" }]);
    let answer = post(&model, "/v1/messages", &body).await.json();
    assert_eq!(answer["stop_reason"], "end_turn");
    assert_eq!(model.record().all()[0].tools, ["web_search_20250305:web_search"]);
}

#[tokio::test]
async fn the_credential_must_come_and_nothing_else() {
    let model = start(SCRIPT).await;
    let body = question("/v1/messages", false).to_string().into_bytes();
    let ask = |key: Option<&str>, bearer: Option<&str>| {
        let mut request =
            http::Request::post("/v1/messages").header("anthropic-version", "2023-06-01");
        for (name, value) in [("x-api-key", key), ("authorization", bearer)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        send(&model, request, body.clone())
    };
    let bearer = format!("Bearer {KEY}");
    assert_eq!(ask(Some(KEY), None).await.status, 200);
    assert_eq!(ask(None, Some(&bearer)).await.status, 200);
    assert_eq!(ask(None, None).await.status, 401);
    assert_eq!(ask(Some("bjt_token"), Some(&bearer)).await.status, 401);
    let record = model.record().all();
    let seen: Vec<_> = record.iter().map(|asked| (asked.credential, asked.status)).collect();
    assert_eq!(seen, [(true, 200), (true, 200), (false, 401), (false, 401)]);
    assert_eq!(record[3].watched, ["bjt_"]);
    assert!(record[0].watched.is_empty());
}

#[tokio::test]
async fn versions_of_messages_differ() {
    let model = start(SCRIPT).await;
    let mut body = question("/v1/messages", false);
    body["temperature"] = 1.into();
    let ask = |version: &str| {
        let request = http::Request::post("/v1/messages?beta=true")
            .header("x-api-key", KEY)
            .header("anthropic-version", version);
        send(&model, request, body.to_string().into_bytes())
    };
    assert_eq!(ask("2023-06-01").await.status, 200);
    let refused = ask("2026-10-21").await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["type"], "invalid_request_error");
    assert_eq!(ask("1999-01-01").await.status, 400);
}

#[tokio::test]
async fn there_are_models_counts_and_no_websockets() {
    let model = start(SCRIPT).await;
    let get = |path: &str| http::Request::get(path).header("x-api-key", KEY);
    let list = send(&model, get("/v1/models"), Vec::new()).await.json();
    assert_eq!(list["data"][1]["id"], "small");
    let upgrade =
        get("/v1/responses").header("connection", "upgrade").header("upgrade", "websocket");
    assert_eq!(send(&model, upgrade, Vec::new()).await.status, 426);
    let count = post(&model, "/v1/messages/count_tokens", &json!({ "model": "m" })).await.json();
    assert!(count["input_tokens"].is_u64());
    let record = send(&model, http::Request::get("/__requests"), Vec::new()).await.json();
    assert_eq!(record["requests"][0]["target"], "/v1/models");
    assert_eq!(record["total"], 3);
}

#[tokio::test]
async fn a_benchmark_gets_as_many_pieces_as_it_wants() {
    let bench = Some(Bench { events: 50, usage: crate::Usage::default() });
    let credential = Some(KEY.to_owned());
    let model = Model::start(Options { bench, credential, ..Options::default() }).await.unwrap();
    let got = post(&model, "/v1/messages", &json!({ "filler": "x".repeat(45_000) })).await;
    let deltas = got.events().iter().filter(|event| event["type"] == "content_block_delta").count();
    assert_eq!(deltas, 50);
    let refused = send(&model, http::Request::post("/v1/messages"), Vec::new()).await;
    assert_eq!(refused.status, 401);
    assert_eq!(model.record().total(), 2);
}

#[tokio::test]
async fn https_speaks_http2() {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

    let dir = tempfile::tempdir().unwrap();
    let authority = crate::Authority::create(&dir.path().join("ca.pem")).unwrap();
    let security = authority.server(&["api.model.test"]).unwrap();
    let script = Script::parse(SCRIPT).unwrap();
    let model = Model::start(Options { security, script, ..Options::default() }).await.unwrap();

    let mut roots = RootCertStore::empty();
    use rustls_pki_types::pem::PemObject as _;
    let trusted = rustls_pki_types::CertificateDer::from_pem_file(authority.file()).unwrap();
    roots.add(trusted).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(model.address()).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("api.model.test").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let body = question("/v1/responses", true).to_string();
    let request = http::Request::post("https://api.model.test/v1/responses");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = client.send_request(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(crate::script::holds(&body, b"response.completed"));
    assert_eq!(model.record().all()[0].version, "HTTP/2.0");
}
