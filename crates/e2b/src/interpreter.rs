//! The code interpreter's protocol (port 49999): contexts, and code that runs in
//! them.
//!
//! Errors are plain text, in the words that clients know.

mod contexts;
mod execute;
mod line;
mod mime;

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Actions, Barred, Contexts, Kind, Problem, Sandbox};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;

use crate::error;
use crate::proxy::{TRAFFIC_TOKEN, admit, barred_from};

/// The longest request: code that somebody wrote, and a few variables.
const LONGEST: usize = 16 << 20;

pub(crate) async fn serve(
    actions: &Actions,
    sandbox: Arc<Sandbox>,
    request: Request<Body>,
) -> Response {
    // Pages in a browser may be of any origin; what they may do, tokens say.
    let from_page = request.headers().contains_key(header::ORIGIN);
    let mut response = if from_page && request.method() == Method::OPTIONS {
        preflight(&request)
    } else {
        let answered = answer(actions, &sandbox, request).await;
        answered.unwrap_or_else(|refused| refused.respond(&sandbox))
    };
    if from_page {
        let any = HeaderValue::from_static("*");
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    }
    response
}

fn preflight(request: &Request<Body>) -> Response {
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("DELETE, GET, POST");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(asked) = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}

/// Why there is no other answer.
#[derive(Debug)]
enum Refused {
    /// In words.
    Plain(StatusCode, String),
    Barred(Barred),
}

impl Refused {
    fn plain(status: StatusCode, text: impl Into<String>) -> Self {
        Self::Plain(status, text.into())
    }

    fn respond(self, sandbox: &Sandbox) -> Response {
        match self {
            Self::Plain(status, text) => (status, text).into_response(),
            Self::Barred(barred) => barred_from(sandbox, barred),
        }
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        // The caller's, and yet what E2B's server calls its own failure.
        let status = match problem.code {
            "bad_working_directory" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => error::status(problem.kind),
        };
        Self::Plain(status, error::sentence(&problem))
    }
}

async fn answer(
    actions: &Actions,
    sandbox: &Arc<Sandbox>,
    request: Request<Body>,
) -> Result<Response, Refused> {
    // Nobody wakes a sandbox who may not use it.
    admit(sandbox, request.headers()).map_err(Refused::Barred)?;
    let path = request.uri().path().to_owned();
    if (request.method(), path.as_str()) == (&Method::GET, "/health") {
        // Needs no token, so it wakes nothing up either.
        sandbox.live().map_err(|problem| Refused::Barred(Barred::Gone(problem)))?;
        return Ok(axum::Json("OK").into_response());
    }
    check_token(sandbox, &request)?;
    let live = actions.wake(sandbox).await.map_err(|problem| match problem.kind {
        Kind::NotFound | Kind::Conflict => Refused::Barred(Barred::Gone(problem)),
        _ => problem.into(),
    })?;
    let contexts = Contexts::of(sandbox, live);
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    match (request.method(), &steps[..]) {
        (&Method::POST, ["execute"]) => execute::execute(&contexts, json(request).await?),
        (&Method::GET, ["contexts"]) => Ok(contexts::list(&contexts)),
        (&Method::POST, ["contexts"]) => contexts::create(&contexts, json(request).await?).await,
        (&Method::POST, ["contexts", id, "restart"]) => contexts::restart(&contexts, id).await,
        (&Method::DELETE, ["contexts", id]) => contexts::delete(&contexts, id).await,
        (_, ["health" | "execute" | "contexts"] | ["contexts", _]) => {
            Err(Refused::plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed"))
        }
        _ => Err(Refused::plain(StatusCode::NOT_FOUND, "Not Found")),
    }
}

/// Refuses requests without a token of the sandbox: contexts are the owner's, and asking for
/// them wakes the sandbox. SDKs send the sandbox's own token to run code, and the one for its
/// ports on every route.
fn check_token(sandbox: &Sandbox, request: &Request<Body>) -> Result<(), Refused> {
    let shown = |name: &str| {
        let value = request.headers().get(name)?;
        Some(value.to_str().unwrap_or_default().to_owned())
    };
    let refuse = |why: &str| Err(Refused::plain(StatusCode::UNAUTHORIZED, why));
    match (shown("x-access-token"), shown(TRAFFIC_TOKEN)) {
        (Some(token), _) if sandbox.facts().token.is(&token) => Ok(()),
        (Some(_), _) => refuse("the token in X-Access-Token is not that of the sandbox"),
        (None, Some(token)) if sandbox.port_token().is(&token) => Ok(()),
        (None, Some(_)) => {
            refuse("the token in E2B-Traffic-Access-Token is not that of the sandbox")
        }
        (None, None) => refuse("the header X-Access-Token or E2B-Traffic-Access-Token is missing"),
    }
}

async fn json<T: DeserializeOwned>(request: Request<Body>) -> Result<T, Refused> {
    let body = Limited::new(request.into_body(), LONGEST).collect().await;
    let body: Bytes = match body {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Refused::plain(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long"));
        }
        Err(_) => return Err(Refused::plain(StatusCode::BAD_REQUEST, "the request broke off")),
    };
    serde_json::from_slice(&body).map_err(|error| {
        let text = format!("cannot read the request: {error}");
        Refused::plain(StatusCode::UNPROCESSABLE_ENTITY, text)
    })
}
