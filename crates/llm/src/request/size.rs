//! How large a prompt can be, in tokens.
//!
//! A budget holds only if what is set aside is never too little. No tokenizer of
//! a text model makes more tokens than bytes, so a byte counts as a token; what is
//! not used is given back when the answer says its usage. Pictures are not text:
//! a few bytes can be a large picture, and many can be a small one. For documents
//! the figure is a guess: a small file can have many pages.

use super::Request;
use crate::dialect::Dialect;
use crate::json::{Kind, Value};
use crate::media::Media;

/// What a provider puts around a request: prompts for tools, marks of messages.
const AROUND: u64 = 1_000;

/// A picture at the finest setting of today's models.
const PICTURE: u64 = 5_000;

/// Encoded bytes of a document for each token: pages become text and pictures.
const DOCUMENT_BYTES: u64 = 4;

/// Whether writes into the provider's cache can be billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Caching {
    #[default]
    None,
    FiveMinutes,
    OneHour,
}

/// The most that a prompt can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    pub tokens: u64,
    pub caching: Caching,
    /// How many times the provider may read the prompt for one answer: twice when
    /// it may shorten the conversation first.
    pub passes: u64,
}

impl Size {
    /// Of a body of so many bytes, for who has not written it down to the last mark: a
    /// little more than what the body itself would tell.
    pub fn about(bytes: u64) -> Self {
        Self { tokens: bytes.saturating_add(2 * AROUND), caching: Caching::FiveMinutes, passes: 1 }
    }

    pub(super) fn of(request: &Request<'_>) -> Self {
        let body = request.body;
        let mut caching = match request.dialect {
            Dialect::AnthropicMessages => Caching::None,
            // Written without being asked for; prices say whether that costs more.
            Dialect::OpenAiResponses | Dialect::OpenAiChat => Caching::FiveMinutes,
        };
        for object in body.objects() {
            for (key, value) in object.members() {
                if key.is("cache_control") {
                    caching = caching.max(lifetime(value));
                }
            }
        }
        let media = Media::of(body);
        let text = (body.span().len() as u64)
            .saturating_sub(media.picture_bytes)
            .saturating_sub(media.document_bytes);
        let pages = media.document_bytes / DOCUMENT_BYTES;
        let tokens = text + pages + (media.pictures + media.documents) * PICTURE + AROUND;
        Self { tokens, caching, passes: if shortens(body) { 2 } else { 1 } }
    }
}

fn lifetime(control: Value<'_>) -> Caching {
    match control.get("ttl") {
        _ if control.kind() != Kind::Object => Caching::None,
        None => Caching::FiveMinutes,
        Some(ttl) if ttl.is("5m") => Caching::FiveMinutes,
        Some(_) => Caching::OneHour,
    }
}

/// Whether the provider may have the model shorten the conversation first.
fn shortens(body: Value<'_>) -> bool {
    let Some(edits) = body.get("context_management") else { return false };
    edits.objects().any(|edit| {
        let kind = edit.get("type").and_then(|kind| kind.str());
        kind.is_some_and(|kind| kind.starts_with("compact"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Endpoint;
    use crate::json::Reader;

    fn size(body: &str) -> Size {
        let mut reader = Reader::new();
        let body = reader.read(body.as_bytes()).unwrap();
        Request::view(Dialect::AnthropicMessages, Endpoint::Generate, body).unwrap().size()
    }

    #[test]
    fn a_byte_is_a_token_and_a_picture_is_not_its_bytes() {
        let text = r#"{"model":"m","messages":[{"content":"hello"}]}"#;
        assert_eq!(size(text).tokens, text.len() as u64 + 1_000);
        let picture = |data: usize| {
            let data = "A".repeat(data);
            size(&format!(
                r#"{{"model":"m","messages":[{{"content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]}}"#
            ))
            .tokens
        };
        assert_eq!(picture(10), picture(1_000_000));
        assert!(picture(10) > 6_000);
        // Text that only looks like a picture to the careless is still text.
        let hidden = format!(
            r#"{{"model":"m","messages":[{{"content":[{{"type":"tool_use","input":{{"source":{{"type":"base64","media_type":"image/png","data":"{}"}}}}}}]}}]}}"#,
            "A".repeat(50_000)
        );
        assert!(size(&hidden).tokens > 50_000);
    }

    #[test]
    fn caching_and_passes_are_the_worst_that_can_happen() {
        for (body, want) in [
            (r#"{"model":"m"}"#, (Caching::None, 1)),
            (r#"{"model":"m","cache_control":{"type":"ephemeral"}}"#, (Caching::FiveMinutes, 1)),
            (
                r#"{"model":"m","system":[{"cache_control":{"ttl":"5m"}},{"cache_contro\u006c":{"ttl":"1h"}}]}"#,
                (Caching::OneHour, 1),
            ),
            (
                r#"{"model":"m","context_management":{"edits":[{"type":"compact_20260112"}]}}"#,
                (Caching::None, 2),
            ),
            (
                r#"{"model":"m","context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}}"#,
                (Caching::None, 1),
            ),
        ] {
            let size = size(body);
            assert_eq!((size.caching, size.passes), want, "{body}");
        }
    }
}
