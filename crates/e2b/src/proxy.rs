//! Traffic to servers inside a sandbox.
//!
//! Each request gets a connection of its own, made inside the sandbox by its guest:
//! from here nothing but the sandbox's own loopback can be reached. Bodies flow as
//! they come, and a connection that is upgraded is passed on both ways.

mod headers;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Barred, Connection, Kind, MOST_CONNECTIONS, Sandbox};
use http::{HeaderMap, Method, Request, StatusCode, Version};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;

use crate::classify::{ENVD_PORT, INTERPRETER_PORT};
use crate::error;

/// What traffic to a sandbox that is not public must show.
pub(crate) const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";

/// How every key begins.
const KEYS_BEGIN: &str = "e2b_";
/// All headers of an answer together.
const LONGEST_HEADERS: usize = 256 << 10;
const MOST_HEADERS: usize = 256;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: &Arc<Sandbox>,
    port: u16,
    request: Request<Body>,
) -> Response {
    if let Err(barred) = admit(sandbox, request.headers()) {
        return barred_from(sandbox, barred);
    }
    // A tunnel to elsewhere is nothing that a server inside could offer.
    if request.method() == Method::CONNECT {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    // These are answered here; whatever listens there inside is not meant.
    if port == ENVD_PORT || port == INTERPRETER_PORT {
        return error::port_closed(sandbox.id().as_str(), port);
    }
    match actions.dial(sandbox, port).await {
        Ok(connection) => pass(actions, sandbox, port, connection, request).await,
        Err(barred) => barred_from(sandbox, barred),
    }
}

/// Whether a request may reach a port of a sandbox that is not its agent's.
pub(crate) fn admit(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), Barred> {
    let token = headers.get(TRAFFIC_TOKEN).map(|value| value.to_str().unwrap_or_default());
    let token = token.filter(|token| !token.is_empty());
    sandbox.admit(token)
}

async fn pass(
    actions: &Actions,
    sandbox: &Sandbox,
    port: u16,
    connection: Connection,
    mut request: Request<Body>,
) -> Response {
    let failed = |error: hyper::Error| {
        tracing::debug!(sandbox.id = %sandbox.id(), port, %error, "a server inside gave no answer");
        error::port_closed(sandbox.id().as_str(), port)
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(LONGEST_HEADERS).max_headers(MOST_HEADERS);
    // Servers that are written in an hour look for `Host`, not for `host`.
    builder.title_case_headers(true);
    let (mut sender, driver) = match builder.handshake(TokioIo::new(connection)).await {
        Ok(made) => made,
        Err(error) => return failed(error),
    };
    tokio::spawn(async move {
        // Whoever waits for the answer is told by its end.
        let _ = driver.with_upgrades().await;
    });
    let upgrade = headers::upgrade(request.headers());
    // Taken before the request goes: it is the client's end.
    let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let facts = sandbox.facts();
    headers::keep_secrets(request.headers_mut(), |value| {
        // A node knows no keys, and can only see that it may be one.
        let may_be = actions.config().is_member && value.starts_with(KEYS_BEGIN);
        facts.token.is(value) || may_be || actions.keys().tenant(value).is_some()
    });
    headers::outward(&mut request, port, facts.mask_host.as_deref(), upgrade.as_ref());
    let mut response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return failed(error),
    };
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let agreed = headers::upgrade(response.headers());
    if switched && let Some(client) = client {
        let server = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            // Either side may break off; the other sees it as its own end.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
    } else if switched {
        // Nobody asked for that.
        return error::port_closed(sandbox.id().as_str(), port);
    }
    headers::inward(response.headers_mut(), agreed.filter(|_| switched).as_ref());
    // Whatever the server inside speaks, this is our own answer.
    *response.version_mut() = Version::HTTP_11;
    response.map(Body::new)
}

/// Tells whoever did not get through, in the words that clients know.
pub(crate) fn barred_from(sandbox: &Sandbox, barred: Barred) -> Response {
    let id = sandbox.id().as_str();
    let forbidden = |message: String| {
        let body = json!({ "sandboxId": id, "message": message, "code": 403 });
        (StatusCode::FORBIDDEN, Json(body)).into_response()
    };
    match barred {
        Barred::NoToken => forbidden(format!(
            "Sandbox is secured with traffic access token. Token header '{TRAFFIC_TOKEN}' is missing"
        )),
        Barred::WrongToken => forbidden(format!(
            "Sandbox is secured with traffic access token. Provided token in header \
             '{TRAFFIC_TOKEN}' is invalid"
        )),
        Barred::Gone(problem) => match problem.kind {
            Kind::NotFound | Kind::Conflict => error::sandbox_gone(id),
            _ => error::RestError(problem).into_response(),
        },
        Barred::Closed(port) => error::port_closed(id, port),
        Barred::TooMany => {
            let message = format!(
                "The sandbox has too many concurrent incoming connections (limit: {MOST_CONNECTIONS})"
            );
            let body = json!({
                "sandboxId": id, "message": message, "code": 429, "connectionLimit": MOST_CONNECTIONS,
            });
            (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response()
        }
    }
}
