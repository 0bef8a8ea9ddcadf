//! The Connect protocol, in JSON: what E2B's SDKs speak with the agent.
//!
//! ```text
//!   unary    POST, one JSON object ──► 200 and one object, or a status and an error
//!   streams  envelopes: flag (1 byte), length (4 bytes, big endian), JSON
//!            flag 0 a message, flag 2 the end: `{}` or `{"error": …}`
//! ```
//!
//! Streams are never compressed, and every message is a chunk of its own. One
//! whose sandbox goes away breaks off instead of ending: only then do clients
//! look whether the sandbox is still there, and say what happened.

mod error;
mod request;

use std::io;
use std::pin::Pin;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) use error::{Code, Error};
pub(crate) use request::{Messages, bytes, number, unary};

const MESSAGE: u8 = 0;
const COMPRESSED: u8 = 1;
const END: u8 = 2;

/// The largest message that is taken.
const LARGEST: usize = 32 << 20;

/// Waits until then; for ever when there is no such moment.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Whether a request is for a stream, whose errors are told in an envelope.
pub(crate) fn is_stream(headers: &http::HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.trim().starts_with("application/connect+"))
}

/// The answer to a unary call.
pub(crate) fn answer(outcome: Result<Value, Error>) -> Response {
    match outcome {
        Ok(value) => axum::Json(value).into_response(),
        Err(error) => (error.code.status(), axum::Json(error.to_json())).into_response(),
    }
}

/// An answer in envelopes: the messages as they come, then the end.
pub(crate) fn streamed(
    messages: impl Stream<Item = Result<Value, Error>> + Send + 'static,
) -> Response {
    type Messages = Pin<Box<dyn Stream<Item = Result<Value, Error>> + Send>>;
    let messages: Messages = Box::pin(messages);
    let envelopes = stream::unfold(Some(messages), |state| async {
        let mut messages = state?;
        Some(match messages.next().await {
            Some(Ok(message)) => (Ok(envelope(MESSAGE, &message)), Some(messages)),
            Some(Err(error)) if error.is_gone() => {
                (Err(io::Error::new(io::ErrorKind::ConnectionAborted, error.message)), None)
            }
            Some(Err(error)) => (Ok(end(Some(&error))), None),
            None => (Ok(end(None)), None),
        })
    });
    let body = Body::from_stream(envelopes);
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An answer in envelopes that is known as a whole.
pub(crate) fn streamed_once(outcome: Result<Value, Error>) -> Response {
    streamed(stream::iter([outcome]))
}

fn envelope(flag: u8, value: &Value) -> Bytes {
    let body = value.to_string();
    let mut bytes = Vec::with_capacity(5 + body.len());
    bytes.push(flag);
    bytes.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(body.as_bytes());
    bytes.into()
}

fn end(error: Option<&Error>) -> Bytes {
    let value = match error {
        None => json!({}),
        Some(error) => json!({ "error": error.to_json() }),
    };
    envelope(END, &value)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_with_an_envelope_of_its_own() {
        let messages = [Ok(json!({ "a": 1 })), Ok(json!({}))];
        let bytes = streamed(stream::iter(messages)).into_body().collect().await.unwrap();
        let want = b"\0\0\0\0\x07{\"a\":1}\0\0\0\0\x02{}\x02\0\0\0\x02{}";
        assert_eq!(bytes.to_bytes().as_ref(), want);
    }

    #[tokio::test]
    async fn a_stream_of_a_sandbox_that_goes_away_breaks_off() {
        let messages = [Ok(json!({})), Err(Error::gone())];
        let mut body = streamed(stream::iter(messages)).into_body();
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
    }

    #[tokio::test]
    async fn nothing_follows_an_error() {
        let error = Error::new(Code::NotFound, "no");
        let messages = [Err(error), Ok(json!({}))];
        let bytes = streamed(stream::iter(messages)).into_body().collect().await.unwrap();
        let bytes = bytes.to_bytes();
        let body = br#"{"error":{"code":"not_found","message":"no"}}"#;
        assert_eq!(bytes[0], END);
        assert_eq!(bytes[1..5], u32::try_from(body.len()).unwrap().to_be_bytes());
        assert_eq!(&bytes[5..], body);
    }
}
