//! Answers of the gateway itself, as each dialect's clients understand them.
//!
//! What a client does next depends on the status more than on the text. The rules
//! were found by watching unmodified clients:
//!
//! - Claude Code stops at 402 and 403, and at anything with `x-should-retry: false`.
//!   It takes 400 for "some beta is unknown" and sends six variants of the request,
//!   so no refusal of ours is a 400 there.
//! - Codex stops at 400, and at 429 with the code `insufficient_quota`. It repeats
//!   402 and other statuses five times, so no refusal of ours is a 403 there.
//! - Both wait as `retry-after` says at 429.

use crate::dialect::Dialect;
use crate::json::quote;
use crate::rewrite::Refused;

/// Why there is no answer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What may be spent has been spent, or would be by this request.
    Budget,
    /// The token is not for this operation or model.
    Scope,
    /// The request holds what is not passed on.
    Content,
    /// Nobody knows what the model costs.
    UnknownPrice,
    /// Too many requests for now.
    Limited {
        retry_after_seconds: u32,
    },
    /// The token is unknown, expired, revoked or somebody else's.
    Token,
    /// The body cannot be understood.
    Malformed,
    TooLarge,
    /// The request's body did not arrive in time.
    SlowBody,
    NotFound,
    Unreachable,
    TimedOut,
    /// The upstream's answer cannot be passed on.
    BadAnswer,
    /// A client tried a WebSocket: it falls back to POST by itself.
    Upgrade,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

/// Which refusal a request that was not rewritten gets.
impl From<&Refused> for Kind {
    fn from(refused: &Refused) -> Self {
        match refused {
            Refused::Invalid(_) => Self::Malformed,
            Refused::Model(_) => Self::Scope,
            Refused::Redirect(_)
            | Refused::Remote(_)
            | Refused::Stored(_)
            | Refused::NotOffered(_)
            | Refused::TooFewForThinking(_) => Self::Content,
        }
    }
}

/// What a kind is in one dialect.
struct Words {
    status: u16,
    /// The `type` of the error.
    kind: &'static str,
    /// The `code` of the error; OpenAI's dialects only.
    code: &'static str,
}

fn words(dialect: Dialect, kind: Kind) -> Words {
    let (status, kind, code) = match dialect {
        Dialect::AnthropicMessages => match kind {
            Kind::Budget | Kind::UnknownPrice => (402, "billing_error", ""),
            Kind::Scope | Kind::Content => (403, "permission_error", ""),
            Kind::Limited { .. } => (429, "rate_limit_error", ""),
            Kind::Token => (401, "authentication_error", ""),
            Kind::Malformed => (400, "invalid_request_error", ""),
            Kind::TooLarge => (413, "request_too_large", ""),
            Kind::SlowBody => (408, "timeout_error", ""),
            Kind::NotFound => (404, "not_found_error", ""),
            Kind::Unreachable | Kind::BadAnswer => (502, "api_error", ""),
            Kind::TimedOut => (504, "timeout_error", ""),
            Kind::Upgrade => (426, "invalid_request_error", ""),
        },
        Dialect::OpenAiResponses | Dialect::OpenAiChat => match kind {
            Kind::Budget => (429, "insufficient_quota", "insufficient_quota"),
            Kind::UnknownPrice => (400, "invalid_request_error", "unknown_price"),
            Kind::Scope if dialect == Dialect::OpenAiChat => {
                (403, "invalid_request_error", "model_not_allowed")
            }
            Kind::Scope => (400, "invalid_request_error", "model_not_allowed"),
            Kind::Content => (400, "invalid_request_error", "not_allowed"),
            Kind::Limited { .. } => (429, "requests", "rate_limit_exceeded"),
            Kind::Token => (401, "invalid_request_error", "invalid_api_key"),
            Kind::Malformed => (400, "invalid_request_error", "invalid_request"),
            Kind::TooLarge => (413, "invalid_request_error", "request_too_large"),
            Kind::SlowBody => (408, "invalid_request_error", "request_timeout"),
            Kind::NotFound => (404, "invalid_request_error", "not_found"),
            Kind::Unreachable | Kind::BadAnswer => (502, "server_error", "server_error"),
            Kind::TimedOut => (504, "server_error", "timeout"),
            Kind::Upgrade => (426, "invalid_request_error", "upgrade_required"),
        },
    };
    Words { status, kind, code }
}

impl Kind {
    /// Whether the same request could be answered a moment later.
    fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Limited { .. }
                | Self::SlowBody
                | Self::Unreachable
                | Self::TimedOut
                | Self::BadAnswer
        )
    }
}

fn error_object(dialect: Dialect, kind: Kind, message: &str) -> String {
    let words = words(dialect, kind);
    let message = quote(message);
    match dialect {
        Dialect::AnthropicMessages => {
            format!(r#"{{"type":"{}","message":{message}}}"#, words.kind)
        }
        Dialect::OpenAiResponses | Dialect::OpenAiChat => format!(
            r#"{{"message":{message},"type":"{}","param":null,"code":"{}"}}"#,
            words.kind, words.code
        ),
    }
}

/// The answer to a request that was not passed on. `message` is for people and
/// must not quote what an upstream said.
pub fn answer(dialect: Dialect, kind: Kind, message: &str, request_id: &str) -> Answer {
    let error = error_object(dialect, kind, message);
    let body = match dialect {
        Dialect::AnthropicMessages => {
            format!(r#"{{"type":"error","error":{error},"request_id":{}}}"#, quote(request_id))
        }
        Dialect::OpenAiResponses | Dialect::OpenAiChat => format!(r#"{{"error":{error}}}"#),
    };
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-should-retry", kind.is_passing().to_string()),
    ];
    if let Kind::Limited { retry_after_seconds } = kind {
        headers.push(("retry-after", retry_after_seconds.to_string()));
    }
    Answer { status: words(dialect, kind).status, headers, body }
}

/// The last event of a stream that cannot go on. It may only follow a whole event
/// ([`Tap::is_between_events`](crate::tap::Tap::is_between_events)); elsewhere the
/// connection has to be cut. `answer_id` is the id of the answer that began.
pub fn last_event(dialect: Dialect, kind: Kind, message: &str, answer_id: Option<&str>) -> String {
    match dialect {
        Dialect::AnthropicMessages => {
            let error = error_object(dialect, kind, message);
            format!("event: error\ndata: {{\"type\":\"error\",\"error\":{error}}}\n\n")
        }
        Dialect::OpenAiResponses => {
            // Clients go by the code: the first one ends the turn, the other repeats it.
            let code = match kind {
                Kind::Limited { .. } => "rate_limit_exceeded",
                _ if kind.is_passing() => "server_error",
                _ => "insufficient_quota",
            };
            format!(
                "event: response.failed\ndata: {{\"type\":\"response.failed\",\"response\":{{\"id\":{},\"object\":\"response\",\"status\":\"failed\",\"error\":{{\"code\":\"{code}\",\"message\":{}}},\"output\":[],\"usage\":null}}}}\n\n",
                quote(answer_id.unwrap_or("resp_belljar")),
                quote(message),
            )
        }
        Dialect::OpenAiChat => {
            let error = error_object(dialect, kind, message);
            format!("data: {{\"error\":{error}}}\n\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tap::{Form, Options, Tap};

    const ALL: [Dialect; 3] =
        [Dialect::AnthropicMessages, Dialect::OpenAiResponses, Dialect::OpenAiChat];
    const KINDS: [Kind; 14] = [
        Kind::Budget,
        Kind::Scope,
        Kind::Content,
        Kind::UnknownPrice,
        Kind::Limited { retry_after_seconds: 7 },
        Kind::Token,
        Kind::Malformed,
        Kind::TooLarge,
        Kind::SlowBody,
        Kind::NotFound,
        Kind::Unreachable,
        Kind::TimedOut,
        Kind::BadAnswer,
        Kind::Upgrade,
    ];

    #[test]
    fn clients_stop_when_nothing_is_left() {
        let status = |dialect, kind| answer(dialect, kind, "m", "r").status;
        assert_eq!(status(Dialect::AnthropicMessages, Kind::Budget), 402);
        for dialect in [Dialect::OpenAiResponses, Dialect::OpenAiChat] {
            let answer = answer(dialect, Kind::Budget, "m", "r");
            assert_eq!(answer.status, 429);
            assert!(answer.body.contains(r#""code":"insufficient_quota""#));
        }
        for dialect in ALL {
            let answer = answer(dialect, Kind::Budget, "m", "r");
            assert!(answer.headers.contains(&("x-should-retry", "false".into())));
            assert!(answer.headers.iter().all(|(name, _)| *name != "retry-after"));
        }
    }

    #[test]
    fn policy_is_never_a_400_for_anthropic_clients_nor_a_403_for_codex() {
        for kind in [Kind::Budget, Kind::Scope, Kind::Content, Kind::UnknownPrice] {
            assert_ne!(answer(Dialect::AnthropicMessages, kind, "m", "r").status, 400);
            assert!([400, 429].contains(&answer(Dialect::OpenAiResponses, kind, "m", "r").status));
        }
    }

    #[test]
    fn a_tap_understands_every_answer_and_event() {
        let message = "no \"more\"\r\nmoney";
        for dialect in ALL {
            for kind in KINDS {
                let read = |form, text: &str| {
                    let mut tap = Tap::new(dialect, form, Options::default());
                    tap.push(text.as_bytes());
                    assert_eq!(tap.is_between_events(), form == Form::Stream);
                    tap.finish().1.error.unwrap().message
                };
                assert_eq!(read(Form::Whole, &answer(dialect, kind, message, "r").body), message);
                let event = last_event(dialect, kind, message, Some("resp_1"));
                assert_eq!(read(Form::Stream, &event), message);
                assert!(event.ends_with("\n\n") && event.matches("\n\n").count() == 1);
            }
            let limited = answer(dialect, Kind::Limited { retry_after_seconds: 7 }, "m", "r");
            assert_eq!(limited.status, 429);
            assert!(limited.headers.contains(&("retry-after", "7".into())));
            assert!(limited.headers.contains(&("x-should-retry", "true".into())));
            assert_eq!(answer(dialect, Kind::Token, "m", "r").status, 401);
        }
    }
}
