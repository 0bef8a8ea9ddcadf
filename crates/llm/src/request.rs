//! What a request asks for, in any dialect.

use std::borrow::Cow;

use crate::dialect::{Dialect, Endpoint};
use crate::json::{Kind, Malformed, Misspelled, Value};

mod size;

pub use size::{Caching, Size};

/// Why a request cannot be understood. The client is wrong, not forbidden.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error(transparent)]
    Json(#[from] Malformed),
    #[error(transparent)]
    Spelling(#[from] Misspelled),
    #[error("the body is not an object")]
    NotAnObject,
    #[error("`{0}` is missing or not of the right kind")]
    Field(&'static str),
    #[error("`model` is not the name of a model")]
    Model,
}

/// A view on a request's body.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    pub dialect: Dialect,
    pub endpoint: Endpoint,
    pub body: Value<'a>,
    pub model: Cow<'a, str>,
    pub stream: bool,
    /// The most tokens to generate, and the field that says so.
    pub max_output: Option<(&'static str, u64)>,
    /// How many answers: each may be as long as `max_output`.
    pub answers: u64,
}

const LONGEST_MODEL: usize = 200;

impl<'a> Request<'a> {
    pub fn view(dialect: Dialect, endpoint: Endpoint, body: Value<'a>) -> Result<Self, Invalid> {
        if body.kind() != Kind::Object {
            return Err(Invalid::NotAnObject);
        }
        let model = body.spelled("model")?.ok_or(Invalid::Field("model"))?;
        let model = model.str().ok_or(Invalid::Field("model"))?;
        if !is_model(&model) {
            return Err(Invalid::Model);
        }
        let stream = match body.spelled("stream")? {
            None => false,
            Some(value) if value.is_null() => false,
            Some(value) => value.bool().ok_or(Invalid::Field("stream"))?,
        };
        let mut max_output = None;
        for &field in dialect.max_output_fields() {
            if let Some(most) = number(body, field)? {
                // Two of them: the smaller one cannot be relied on.
                max_output = match max_output {
                    Some((other, more)) if more >= most => Some((other, more)),
                    _ => Some((field, most)),
                };
            }
        }
        let answers = match dialect {
            Dialect::OpenAiChat => number(body, "n")?.unwrap_or(1).max(1),
            Dialect::AnthropicMessages | Dialect::OpenAiResponses => 1,
        };
        Ok(Self { dialect, endpoint, body, model, stream, max_output, answers })
    }

    /// The tools that the model may ask for.
    pub fn tools(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        self.body.get("tools").into_iter().flat_map(|tools| tools.items())
    }

    /// How large the prompt is at most.
    pub fn size(&self) -> Size {
        Size::of(self)
    }
}

/// A field that is absent, null, or a number that can be counted in.
fn number(body: Value<'_>, field: &'static str) -> Result<Option<u64>, Invalid> {
    match body.spelled(field)? {
        None => Ok(None),
        Some(value) if value.is_null() => Ok(None),
        Some(value) => value.u64().map(Some).ok_or(Invalid::Field(field)),
    }
}

/// Names of models never look like addresses: some upstreams would follow them.
fn is_model(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@+".contains(&byte);
    !name.is_empty()
        && name.len() <= LONGEST_MODEL
        && name.bytes().all(is_plain)
        && !name.contains("//")
        && !name.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Reader;

    fn view(dialect: Dialect, body: &str) -> Result<(bool, Option<u64>), Invalid> {
        let mut reader = Reader::new();
        let request = Request::view(dialect, Endpoint::Generate, reader.read(body.as_bytes())?)?;
        Ok((request.stream, request.max_output.map(|(_, most)| most)))
    }

    #[test]
    fn each_dialect_has_its_own_words() {
        for (dialect, body, want) in [
            (Dialect::AnthropicMessages, r#"{"model":"m","max_tokens":9}"#, (false, Some(9))),
            (
                Dialect::OpenAiResponses,
                r#"{"model":"m","stream":true,"max_output_tokens":9}"#,
                (true, Some(9)),
            ),
            (Dialect::OpenAiResponses, r#"{"model":"m","max_tokens":9}"#, (false, None)),
            (
                Dialect::OpenAiChat,
                r#"{"model":"m","max_tokens":9,"max_completion_tokens":8}"#,
                (false, Some(9)),
            ),
            (
                Dialect::OpenAiChat,
                r#"{"model":"m","stream":null,"max_tokens":null}"#,
                (false, None),
            ),
        ] {
            assert_eq!(view(dialect, body), Ok(want), "{body}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_not_read() {
        for body in [
            "[]",
            "{}",
            r#"{"model":1}"#,
            r#"{"model":""}"#,
            r#"{"model":"http://evil/v1"}"#,
            r#"{"model":"a\r\nb"}"#,
            r#"{"model":"../x"}"#,
            r#"{"model":"a","Model":"b"}"#,
            r#"{"model":"a","model":"b"}"#,
            r#"{"model":"a","stream":1}"#,
            r#"{"model":"a","stream":"true"}"#,
            r#"{"model":"a","max_tokens":1e9}"#,
            r#"{"model":"a","max_tokens":-1}"#,
            r#"{"model":"a","max_tokens":"5"}"#,
            r#"{"model":"a","MAX_TOKENS":5}"#,
        ] {
            assert!(view(Dialect::AnthropicMessages, body).is_err(), "{body}");
        }
        assert!(view(Dialect::AnthropicMessages, r#"{"model":"org/model:free@2"}"#).is_ok());
    }
}
