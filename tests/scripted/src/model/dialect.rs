//! The three ways in which clients and models talk.

use bytes::Bytes;
use serde_json::{Value, json};

use super::ask::Ask;
use super::reply::Reply;
use super::{chat, messages, responses, sse};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Messages,
    Responses,
    Chat,
}

impl Dialect {
    pub(crate) fn of(path: &str) -> Self {
        match path {
            "/v1/responses" => Self::Responses,
            "/v1/chat/completions" => Self::Chat,
            _ => Self::Messages,
        }
    }

    /// The whole answer at once.
    pub(crate) fn unary(self, ask: &Ask, reply: &Reply) -> Value {
        match self {
            Self::Messages => messages::unary(ask, reply),
            Self::Responses => responses::unary(ask, reply),
            Self::Chat => chat::unary(ask, reply),
        }
    }

    /// The answer as a stream of events.
    pub(crate) fn events(self, ask: &Ask, reply: &Reply) -> Vec<Bytes> {
        match self {
            Self::Messages => messages::events(ask, reply),
            Self::Responses => responses::events(ask, reply),
            Self::Chat => chat::events(ask, reply),
        }
    }

    /// An error, as a body.
    pub(crate) fn error(self, status: u16, code: Option<&str>, message: &str) -> Value {
        if self == Self::Messages {
            let kind = code.unwrap_or(match status {
                400 => "invalid_request_error",
                401 => "authentication_error",
                402 => "billing_error",
                403 => "permission_error",
                404 => "not_found_error",
                413 => "request_too_large",
                429 => "rate_limit_error",
                504 => "timeout_error",
                529 => "overloaded_error",
                _ => "api_error",
            });
            let error = json!({ "type": kind, "message": message });
            return json!({ "type": "error", "error": error, "request_id": "req_scripted" });
        }
        let kind = match status {
            401 => "authentication_error",
            429 if code == Some("insufficient_quota") => "insufficient_quota",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
    }

    /// An error in the middle of a stream.
    pub(crate) fn error_event(self, code: Option<&str>) -> Bytes {
        let message = "The script says that this fails here.";
        match self {
            Self::Messages => {
                let kind = code.unwrap_or("overloaded_error");
                let error = json!({ "type": kind, "message": message });
                sse::named("error", &json!({ "type": "error", "error": error }))
            }
            Self::Responses => {
                let error = json!({ "code": code.unwrap_or("server_error"), "message": message });
                let response = json!({ "id": "resp_failed", "object": "response",
                    "status": "failed", "error": error, "output": [] });
                let event = json!({ "type": "response.failed", "response": response });
                sse::named("response.failed", &event)
            }
            Self::Chat => {
                let error = json!({ "message": message, "type": "server_error", "param": null, "code": code });
                sse::unnamed(&json!({ "error": error }))
            }
        }
    }
}
