//! Pictures and documents in a conversation, and where they come from.
//!
//! The provider fetches a URL on behalf of whoever sends it: a way out that no
//! policy of ours sees. A file's id may belong to anyone with the same key. Both
//! are found here. What the model's tools were called with is not looked into:
//! it is opaque to the provider too.

use crate::json::{Kind, Value};

/// What the conversation holds besides text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Media {
    /// The provider would fetch this: the name of the field.
    pub(crate) remote: Option<&'static str>,
    /// Kept at the provider, and perhaps not ours.
    pub(crate) stored: Option<&'static str>,
    pub(crate) pictures: u64,
    pub(crate) documents: u64,
    /// Bytes of the text that are encoded pictures or documents.
    pub(crate) picture_bytes: u64,
    pub(crate) document_bytes: u64,
}

const URLS: [&str; 4] = ["image_url", "file_url", "video_url", "audio_url"];

/// Fields that quote what has been: nothing is fetched for them.
const QUOTED: [&str; 2] = ["annotations", "citations"];

impl Media {
    pub(crate) fn of(body: Value<'_>) -> Self {
        let mut media = Self::default();
        for field in ["messages", "input", "system"] {
            if let Some(value) = body.get(field) {
                media.walk(value);
            }
        }
        media
    }

    fn walk(&mut self, value: Value<'_>) {
        match value.kind() {
            Kind::Array => value.items().for_each(|item| self.walk(item)),
            Kind::Object => self.block(value),
            _ => {}
        }
    }

    fn block(&mut self, block: Value<'_>) {
        let kind = block.get("type");
        if kind.is_some_and(|kind| kind.is("item_reference")) {
            self.stored = Some("item_reference");
        }
        for (key, value) in block.members() {
            if value.is_null() {
                continue;
            }
            if let Some(field) = URLS.into_iter().find(|field| key.is_like(field)) {
                self.url(field, value);
            } else if key.is_like("file_id") {
                self.stored = Some("file_id");
            } else if key.is_like("file_data") {
                self.documents += 1;
                self.document_bytes += value.str_len();
            } else if key.is_like("source") && value.kind() == Kind::Object {
                self.source(value);
            } else if matches!(value.kind(), Kind::Array | Kind::Object) && !is_opaque(kind, key) {
                self.walk(value);
            }
        }
    }

    fn url(&mut self, field: &'static str, value: Value<'_>) {
        let url = if value.kind() == Kind::Object { value.get("url") } else { Some(value) };
        let is_inline = url.is_some_and(|url| {
            url.raw().get(1..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
        });
        match url {
            Some(url) if is_inline => {
                self.pictures += 1;
                self.picture_bytes += url.str_len();
            }
            _ => self.remote = Some(field),
        }
    }

    fn source(&mut self, source: Value<'_>) {
        for (key, value) in source.members() {
            if value.is_null() {
                continue;
            }
            if key.is_like("url") || (key.is_like("type") && value.is_like("url")) {
                self.remote = Some("source.url");
            } else if key.is_like("file_id") || (key.is_like("type") && value.is_like("file")) {
                self.stored = Some("source.file_id");
            } else if matches!(value.kind(), Kind::Array | Kind::Object) {
                self.walk(value);
            }
        }
        if source.get("type").is_some_and(|kind| kind.is("base64")) {
            let length = source.get("data").map_or(0, |data| data.str_len());
            let kind = source.get("media_type").and_then(|kind| kind.str());
            if kind.is_some_and(|kind| kind.starts_with("image/")) {
                self.pictures += 1;
                self.picture_bytes += length;
            } else {
                self.documents += 1;
                self.document_bytes += length;
            }
        }
    }
}

/// What a tool was called with, or a quotation.
fn is_opaque(kind: Option<Value<'_>>, key: Value<'_>) -> bool {
    if QUOTED.iter().any(|quoted| key.is(quoted)) {
        return true;
    }
    let Some(kind) = kind.and_then(|kind| kind.str()) else { return false };
    match &*kind {
        "tool_use" | "server_tool_use" | "mcp_tool_use" => key.is("input"),
        other if other.ends_with("_call") => key.is("action") || key.is("arguments"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Reader;

    fn found(body: &str) -> Media {
        Media::of(Reader::new().read(body.as_bytes()).unwrap())
    }

    #[test]
    fn what_the_provider_would_fetch_is_found() {
        for body in [
            r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]}]}"#,
            r#"{"messages":[{"content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url","url":"u"}}]}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image","source":{"TYPE":"URL"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image_url","Image_Url":"//x/y"}]}]}"#,
            r#"{"messages":[{"content":[{"type":"image_url","image_url":{"URL":"https://x"}}]}]}"#,
            r#"{"input":[{"role":"user","content":[{"type":"input_image","image_url":"HTTPS://x"}]}]}"#,
            r#"{"input":[{"content":[{"type":"input_file","file_url":"https://x"}]}]}"#,
            r#"{"input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":" data:"}]}]}"#,
            r#"{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"https://x"}}]}"#,
        ] {
            assert!(found(body).remote.is_some(), "{body}");
        }
    }

    #[test]
    fn what_is_kept_at_the_provider_is_found() {
        for body in [
            r#"{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}"#,
            r#"{"messages":[{"content":[{"type":"container_upload","file_id":"f"}]}]}"#,
            r#"{"messages":[{"content":[{"type":"file","file":{"file_id":"f"}}]}]}"#,
            r#"{"input":[{"content":[{"type":"input_image","file_id":"f"}]}]}"#,
            r#"{"input":[{"type":"item_reference","id":"i"}]}"#,
        ] {
            assert!(found(body).stored.is_some(), "{body}");
        }
    }

    #[test]
    fn words_in_other_places_are_left_alone() {
        for body in [
            r#"{"messages":[{"content":[{"type":"tool_use","input":{"image_url":"https://x","file_id":"f","source":{"url":"u"}}}]}]}"#,
            r#"{"messages":[{"content":"image_url: https://x"}],"tools":[{"input_schema":{"properties":{"image_url":{"type":"string"}}}}]}"#,
            r#"{"messages":[{"content":[{"type":"text","text":"t","citations":[{"url":"https://x","file_id":"f"}]}]}]}"#,
            r#"{"input":[{"type":"web_search_call","action":{"type":"open_page","url":"https://x"}}]}"#,
            r#"{"input":[{"content":[{"type":"input_image","image_url":null,"file_id":null}]}]}"#,
        ] {
            assert_eq!(found(body), Media::default(), "{body}");
        }
    }

    #[test]
    fn what_comes_along_is_counted() {
        let media = found(
            r#"{"messages":[{"content":[
                {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
                {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAAAAAA"}},
                {"type":"document","source":{"type":"text","media_type":"text/plain","data":"AAAA"}},
                {"type":"image_url","image_url":{"url":"data:x,"}}]}]}"#,
        );
        let want = Media {
            pictures: 2,
            documents: 1,
            picture_bytes: 4 + 7,
            document_bytes: 8,
            ..Media::default()
        };
        assert_eq!(media, want);
    }
}
