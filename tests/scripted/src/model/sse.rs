//! Server-sent events, written.

use bytes::Bytes;
use serde_json::Value;

pub(crate) fn named(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

pub(crate) fn unnamed(data: &Value) -> Bytes {
    format!("data: {data}\n\n").into()
}

/// Two halves of a text, cut where a character begins.
pub(crate) fn halves(text: &str) -> (&str, &str) {
    text.split_at(text.ceil_char_boundary(text.len() / 2))
}
