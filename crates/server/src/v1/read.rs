//! Reads what came with a request into the types of the API.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::failure::Failure;

/// A JSON body. One that is left out is an empty object; what it is called in
/// `content-type` does not matter.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.status();
            let (code, message) = match status {
                StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", "the body is too large"),
                _ => ("unreadable_body", "the body is incomplete"),
            };
            Failure::new(status, code, message)
        })?;
        let text = if bytes.is_empty() { b"{}" } else { bytes.as_ref() };
        // Serde would also take a list, as the fields in order.
        if text.trim_ascii_start().starts_with(b"[") {
            let message = "invalid body: expected an object";
            return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", message));
        }
        serde_json::from_slice(text).map(Self).map_err(|error| {
            if error.is_data() {
                let message = format!("invalid body: {error}");
                Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_body", message)
            } else {
                let message = format!("the body is not JSON: {error}");
                Failure::new(StatusCode::BAD_REQUEST, "unreadable_body", message)
            }
        })
    }
}

/// What stands after the `?`.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let read = axum::extract::Query::try_from_uri(&parts.uri);
        read.map(|axum::extract::Query(query)| Self(query)).map_err(|rejection| {
            let message = format!("invalid query: {}", rejection.body_text());
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_query", message)
        })
    }
}

/// Names in the path, in order.
#[derive(Debug)]
pub(super) struct At<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        read.map(|Path(names)| Self(names)).map_err(|_| {
            // A name that is no text names nothing.
            Failure::new(StatusCode::NOT_FOUND, "not_found", "the path names no resource")
        })
    }
}
