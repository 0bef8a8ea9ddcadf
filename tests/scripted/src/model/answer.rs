//! From a request to an answer.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Shared;
use super::ask::Ask;
use super::dialect::Dialect;
use super::fault::{self, Context};
use super::messages;
use super::reply::Reply;
use super::strict;
use crate::body::Steps;
use crate::io::Slip;
use crate::record::Asked;
use crate::script::holds;

pub(crate) async fn answer(
    shared: &Shared,
    slip: &Slip,
    request: Request<Incoming>,
) -> Response<Steps> {
    let (parts, mut body) = request.into_parts();
    let path = parts.uri.path();
    match (&parts.method, path) {
        (&Method::GET, "/__health") => return json_answer(200, &json!({ "ok": true })),
        (&Method::GET, "/__requests") => {
            let list = json!({ "total": shared.record.total(), "requests": shared.record.all() });
            return json_answer(200, &list);
        }
        (&Method::DELETE, "/__requests") => {
            shared.record.clear();
            return json_answer(200, &json!({ "ok": true }));
        }
        _ => {}
    }
    let dialect = Dialect::of(path);
    let credential = has_credential(&parts.headers, shared.credential.as_deref());
    if let Some(bench) = &shared.bench {
        while let Some(Ok(_)) = body.frame().await {}
        shared.record.count();
        return if credential { bench.answer(dialect) } else { refuse(dialect, 401) };
    }
    let declared = body.size_hint().exact();
    let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        // The client went away in the middle, or a gateway cut it off.
        return refuse(dialect, 400);
    };
    let mut asked = Asked {
        method: parts.method.to_string(),
        target: parts.uri.to_string(),
        version: format!("{:?}", parts.version),
        headers: parts.headers.keys().map(|name| name.to_string()).collect(),
        body_bytes: declared.unwrap_or(body.len() as u64),
        body_digest: hex(&Sha256::digest(&body)),
        credential,
        watched: watched(shared, &parts.headers, &body),
        body: shared.keep_bodies.then(|| String::from_utf8_lossy(&body).into_owned()),
        ..Asked::default()
    };
    let response = if credential {
        route(shared, slip, &parts, &body, &mut asked).await
    } else {
        refuse(dialect, 401)
    };
    asked.status = response.status().as_u16();
    shared.record.add(asked);
    response
}

async fn route(
    shared: &Shared,
    slip: &Slip,
    parts: &http::request::Parts,
    body: &Bytes,
    asked: &mut Asked,
) -> Response<Steps> {
    let path = parts.uri.path();
    let dialect = Dialect::of(path);
    match (&parts.method, path) {
        (&Method::POST, "/v1/messages" | "/v1/responses" | "/v1/chat/completions") => {
            match converse(shared, slip, parts, body, asked).await {
                Ok(response) => response,
                Err(message) => json_answer(400, &dialect.error(400, None, &message)),
            }
        }
        (&Method::POST, "/v1/messages/count_tokens") => {
            json_answer(200, &json!({ "input_tokens": body.len() / 4 }))
        }
        (&Method::GET, "/v1/models") => json_answer(200, &models(shared, &parts.headers)),
        // Clients that would rather have a WebSocket take this as a no.
        (&Method::GET, "/v1/responses") if parts.headers.contains_key("upgrade") => {
            refuse(dialect, 426)
        }
        (&Method::HEAD, "/" | "/api/hello") => Response::new(Steps::empty()),
        _ => refuse(dialect, 404),
    }
}

async fn converse(
    shared: &Shared,
    slip: &Slip,
    parts: &http::request::Parts,
    body: &Bytes,
    asked: &mut Asked,
) -> Result<Response<Steps>, String> {
    let dialect = Dialect::of(parts.uri.path());
    let value: Value =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    if dialect == Dialect::Messages {
        messages::check_version(&parts.headers, &value)?;
    }
    if shared.script.strict {
        strict::check(dialect, &value)?;
    }
    let id = asked.body_digest.get(..16).unwrap_or_default().to_owned();
    let ask = Ask::read(dialect, &value, id)?;
    asked.model = Some(ask.model.clone());
    asked.stream = ask.stream;
    asked.tools = ask.tool_names();
    asked.results = ask.results;
    let (_, turn) = shared
        .script
        .turn(body, ask.results, ask.answers)
        .ok_or("the script has no turn for this")?;
    if turn.delay_ms > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(turn.delay_ms)).await;
    }
    let reply = Reply::new(&ask, turn);
    let context = Context { dialect, ask: &ask, turn, headers: &parts.headers, slip };
    Ok(fault::answer(&context, reply))
}

fn models(shared: &Shared, headers: &HeaderMap) -> Value {
    let entry = |id: &String| {
        if headers.contains_key("anthropic-version") {
            json!({ "type": "model", "id": id, "display_name": id,
                "created_at": "2026-01-01T00:00:00Z" })
        } else {
            json!({ "id": id, "object": "model", "created": 1_790_000_000, "owned_by": "script" })
        }
    };
    let data: Vec<Value> = shared.script.models.iter().map(entry).collect();
    if headers.contains_key("anthropic-version") {
        let (first, last) = (shared.script.models.first(), shared.script.models.last());
        json!({ "data": data, "has_more": false, "first_id": first, "last_id": last })
    } else {
        json!({ "object": "list", "data": data })
    }
}

/// Whether the credential came, in either header, and nothing else beside it.
fn has_credential(headers: &HeaderMap, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    let bearer = headers
        .get_all(AUTHORIZATION)
        .iter()
        .map(|value| value.as_bytes().strip_prefix(b"Bearer ").unwrap_or_default());
    let key = headers.get_all(HeaderName::from_static("x-api-key")).iter();
    let mut came = bearer.chain(key.map(|value| value.as_bytes())).peekable();
    came.peek().is_some() && came.all(|value| value == wanted.as_bytes())
}

fn watched(shared: &Shared, headers: &HeaderMap, body: &[u8]) -> Vec<String> {
    let came = |text: &&String| {
        holds(body, text.as_bytes())
            || headers.values().any(|value| holds(value.as_bytes(), text.as_bytes()))
    };
    shared.watch.iter().filter(came).cloned().collect()
}

pub(crate) fn json_answer(status: u16, value: &Value) -> Response<Steps> {
    let mut response = Response::new(Steps::whole(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn refuse(dialect: Dialect, status: u16) -> Response<Steps> {
    let message = match status {
        401 => "invalid credential",
        404 => "nothing is served here",
        426 => "no WebSocket here",
        _ => "the request cannot be read",
    };
    json_answer(status, &dialect.error(status, None, message))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
