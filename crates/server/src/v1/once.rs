//! Keys that requests bear, so that what they ask for is done once.

use axum::response::Response;
use belljar_sandboxes::Asked;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::failure::Failure;
use super::fence::generation;

/// Says that what is answered was asked for before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest key; what is longer is no key but a mistake.
const LONGEST_KEY: usize = 255;

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().ok().filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
    key.map(Some).ok_or_else(|| {
        let message = "Idempotency-Key must be a text of 1 to 255 characters";
        Failure::new(StatusCode::BAD_REQUEST, "unreadable_header", message)
    })
}

/// What a request asks for, if it bears a key.
pub(super) fn asked(
    headers: &HeaderMap,
    operation: &str,
    what: &impl Serialize,
) -> Result<Option<Asked>, Failure> {
    let Some(key) = idempotency_key(headers)? else { return Ok(None) };
    Ok(Some(Asked::new(key, operation, what, generation(headers)?)?))
}

pub(super) fn mark(mut response: Response, is_repeated: bool) -> Response {
    if is_repeated {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
