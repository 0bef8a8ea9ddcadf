//! What goes wrong does so in the way that the script says.

use std::io::Read as _;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const PATHS: [&str; 3] = ["/v1/messages", "/v1/responses", "/v1/chat/completions"];

async fn faulty(fault: &str) -> Model {
    start(&format!("[[turn]]\nsay = \"one two three four\"\nfault = {{ {fault} }}")).await
}

#[tokio::test]
async fn a_status_comes_in_the_form_of_the_dialect() {
    let model = start(
        "[[turn]]\nsay = \"fine\"\nfault-times = 1\n\
         fault = { kind = \"status\", status = 429, retry-after = 2, should-retry = false }",
    )
    .await;
    let body = question("/v1/messages", true);
    let refused = post(&model, "/v1/messages", &body).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["retry-after"], "2");
    assert_eq!(refused.headers["x-should-retry"], "false");
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    assert_eq!(post(&model, "/v1/messages", &body).await.status, 200);

    let model = faulty("kind = \"status\", status = 429, code = \"insufficient_quota\"").await;
    let refused = post(&model, "/v1/responses", &question("/v1/responses", true)).await;
    assert_eq!(refused.json()["error"]["code"], "insufficient_quota");
}

#[tokio::test]
async fn a_cut_comes_after_its_events() {
    let model = faulty("kind = \"cut\", after = 3").await;
    for path in PATHS {
        let got = post(&model, path, &question(path, true)).await;
        assert_eq!((got.status, got.broke, got.events().len()), (200, true, 3), "{path}");
        let got = post(&model, path, &question(path, false)).await;
        assert!(got.broke && serde_json::from_slice::<Value>(&got.body).is_err(), "{path}");
    }
}

#[tokio::test]
async fn an_error_comes_inside_of_a_stream() {
    let model = faulty("kind = \"error-event\", after = 2").await;
    let last = async |path: &str| {
        let got = post(&model, path, &question(path, true)).await;
        assert_eq!((got.status, got.broke), (200, false));
        got.events().pop().unwrap()
    };
    assert_eq!(last("/v1/messages").await["error"]["type"], "overloaded_error");
    assert_eq!(last("/v1/responses").await["response"]["error"]["code"], "server_error");
    assert_eq!(last("/v1/chat/completions").await["error"]["type"], "server_error");
}

#[tokio::test]
async fn an_echo_shows_the_credential() {
    let body = question("/v1/messages", true);
    let model = faulty("kind = \"echo\", place = \"body\"").await;
    let got = post(&model, "/v1/messages", &body).await;
    assert_eq!(got.status, 500);
    assert!(got.text().contains(KEY));
    let model = faulty("kind = \"echo\", place = \"headers\"").await;
    let got = post(&model, "/v1/messages", &body).await;
    assert_eq!(got.headers["x-echo-authorization"], format!("Bearer {KEY}"));
    let model = faulty("kind = \"echo\", place = \"text\"").await;
    assert!(post(&model, "/v1/messages", &body).await.text().contains(KEY));
    let model = faulty("kind = \"echo\", place = \"split\"").await;
    let got = post(&model, "/v1/messages", &body).await;
    assert!(!got.text().contains(KEY));
    let said: String =
        got.events().iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert!(said.contains(KEY));
}

#[tokio::test]
async fn compressed_answers_are_the_plain_ones() {
    let plain = start("[[turn]]\nsay = \"one two three four\"").await;
    let model = faulty("kind = \"gzip\"").await;
    let body = question("/v1/messages", true);
    let got = post(&model, "/v1/messages", &body).await;
    assert_eq!(got.headers["content-encoding"], "gzip");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*got.body).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, post(&plain, "/v1/messages", &body).await.body);

    let model = faulty("kind = \"gzip-bomb\", megabytes = 8").await;
    let got = post(&model, "/v1/messages", &body).await;
    assert!(got.body.len() < 1 << 17);
    let unpacked =
        std::io::copy(&mut flate2::read::GzDecoder::new(&*got.body), &mut std::io::sink());
    assert_eq!(unpacked.unwrap(), 8 << 20);
}

#[tokio::test]
async fn usage_can_be_missing() {
    let model = faulty("kind = \"no-usage\"").await;
    for path in PATHS {
        let mut body = question(path, true);
        body["stream_options"] = json!({ "include_usage": true });
        let got = post(&model, path, &body).await;
        assert!(!got.text().contains("_tokens"), "{path}");
        assert!(!post(&model, path, &question(path, false)).await.text().contains("_tokens"));
    }
}

#[tokio::test]
async fn a_redirect_names_another_place() {
    let model = faulty("kind = \"redirect\", status = 307, to = \"http://other.test/\"").await;
    let got = post(&model, "/v1/messages", &question("/v1/messages", true)).await;
    assert_eq!(
        (got.status, &got.headers["location"]),
        (307, &"http://other.test/".parse().unwrap())
    );
}

/// Reads `count` bytes of the answer, as they are on the wire.
async fn raw(model: &Model, count: usize) -> Vec<u8> {
    let body = question("/v1/messages", true).to_string();
    let mut stream = TcpStream::connect(model.address()).await.unwrap();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: m\r\nconnection: close\r\nx-api-key: {KEY}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![0; count];
    let mut read = 0;
    while read < count {
        let more = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut answer[read..]));
        match more.await {
            Ok(Ok(more)) if more > 0 => read += more,
            _ => break,
        }
    }
    answer.truncate(read);
    answer
}

#[tokio::test]
async fn informational_responses_come_before_the_answer() {
    let model = faulty("kind = \"informational\", count = 50").await;
    let answer = raw(&model, 1 << 20).await;
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches("HTTP/1.1 103 ").count(), 50);
    let at = text.find("HTTP/1.1 200 OK").unwrap();
    assert!(!text[at..].contains("HTTP/1.1 103 "));
    assert!(text.contains("message_stop"));

    let model = faulty("kind = \"informational\", count = 0").await;
    let answer = raw(&model, 8 << 20).await;
    assert_eq!(answer.len(), 8 << 20);
    assert!(!crate::script::holds(&answer, b"200 OK"));
}

#[tokio::test]
async fn what_is_endless_does_not_end_and_what_stalls_does_not_move() {
    for what in ["events", "line"] {
        let model = faulty(&format!("kind = \"endless\", what = \"{what}\"")).await;
        assert_eq!(raw(&model, 4 << 20).await.len(), 4 << 20, "{what}");
    }
    let model = faulty("kind = \"stall\", after = 1").await;
    let answer = raw(&model, 1 << 20).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("message_start") && !text.ends_with("0\r\n\r\n"));
}
