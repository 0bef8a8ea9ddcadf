//! How one attempt fails, and what follows from it.

use std::time::Duration;

use belljar_llm::json::{Kind, Malformed, Value};

use crate::transport::TransportError;

const LONGEST_WORD: usize = 200;
const LONGEST_MESSAGE: usize = 2_000;

/// Why one attempt brought no answer. Messages may quote what was sent.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the provider cannot be reached")]
    Unreachable(#[source] TransportError),
    #[error("the provider answered {status} {kind}: {message}")]
    Status {
        status: u16,
        /// The provider's word for it; its code if there is one.
        kind: String,
        message: String,
        retry_after: Option<Duration>,
        /// What `x-should-retry` says.
        should_retry: Option<bool>,
    },
    /// After an answer had begun with 200.
    #[error("the answer breaks off with {kind}: {message}")]
    Said { kind: String, message: String },
    #[error("the connection broke in the middle of the answer")]
    Broken(#[source] TransportError),
    #[error("the answer ends before it is complete")]
    Truncated,
    #[error("nothing came for {} s", .0.as_secs_f64())]
    Stalled(Duration),
    #[error("the answer took longer than {} s", .0.as_secs_f64())]
    Slow(Duration),
    #[error("the answer is larger than {0} bytes")]
    Large(usize),
    #[error("the answer has too many parts")]
    Parts,
    #[error("the answer is compressed, which was not asked for")]
    Compressed,
    #[error("the answer is not JSON")]
    Json(#[source] Malformed),
    #[error("the answer's `{0}` is missing or of the wrong type")]
    Shape(&'static str),
}

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    OutOfBudget,
    Refused,
    Unusable,
    /// Not before so long.
    Again(Option<Duration>),
}

impl Failure {
    pub(crate) fn said(error: Value<'_>) -> Self {
        let (kind, message) = words(error);
        Self::Said { kind, message }
    }

    pub(crate) fn is_too_long(&self) -> bool {
        let (status, kind, message) = match self {
            Self::Status { status, kind, message, .. } => (*status, kind, message),
            Self::Said { kind, message } => (200, kind, message),
            _ => return false,
        };
        status == 413
            || ["context_length_exceeded", "request_too_large"].contains(&kind.as_str())
            || message.contains("prompt is too long")
            || message.contains("maximum context length")
    }

    /// Returns true if the request was passed on, and not refused.
    pub(crate) fn may_cost(&self) -> bool {
        !matches!(self, Self::Unreachable(_) | Self::Status { .. })
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            Self::Status { status, kind, message, retry_after, should_retry } => {
                let is_money = *status == 402
                    || is_money(kind)
                    // The gateway's form for clients that know no better one.
                    || (*status == 429 && *should_retry == Some(false))
                    // A provider's own limit of spending comes as a 400.
                    || message.contains("credit balance is too low");
                let is_passing =
                    should_retry.unwrap_or(matches!(status, 408 | 409 | 429 | 500..=599));
                match (is_money, is_passing) {
                    (true, _) => Verdict::OutOfBudget,
                    (false, true) => Verdict::Again(*retry_after),
                    (false, false) => Verdict::Refused,
                }
            }
            Self::Said { kind, .. } if is_money(kind) => Verdict::OutOfBudget,
            Self::Said { kind, .. } if is_fault_of_the_request(kind) => Verdict::Refused,
            Self::Said { .. }
            | Self::Unreachable(_)
            | Self::Broken(_)
            | Self::Truncated
            | Self::Stalled(_)
            | Self::Json(_)
            | Self::Shape(_) => Verdict::Again(None),
            // To ask again would cost as much again, and end the same.
            Self::Slow(_) | Self::Large(_) | Self::Parts | Self::Compressed => Verdict::Unusable,
        }
    }

    /// What was said, for who has to tell people.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Status { message, .. } | Self::Said { message, .. } => message.clone(),
            other => other.to_string(),
        }
    }
}

fn is_money(kind: &str) -> bool {
    ["insufficient_quota", "billing_error"].contains(&kind)
}

fn is_fault_of_the_request(kind: &str) -> bool {
    const KINDS: [&str; 10] = [
        "authentication_error",
        "context_length_exceeded",
        "invalid_api_key",
        "invalid_prompt",
        "invalid_request_error",
        "model_not_found",
        "not_found_error",
        "permission_error",
        "request_too_large",
        "usage_not_included",
    ];
    KINDS.contains(&kind)
}

/// Kind and message of an error object, in any dialect.
pub(crate) fn words(error: Value<'_>) -> (String, String) {
    let text = |key: &str| error.get(key).and_then(|value| value.str());
    let kind = text("code").or_else(|| text("type")).unwrap_or_default();
    let message = text("message").or_else(|| error.str()).unwrap_or_default();
    (shortened(&kind, LONGEST_WORD), shortened(&message, LONGEST_MESSAGE))
}

pub(crate) fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most.min(text.len()))].to_owned()
}

/// A field that has to be there, as a string.
pub(crate) fn text<'a>(
    value: Value<'a>,
    key: &str,
    place: &'static str,
) -> Result<std::borrow::Cow<'a, str>, Failure> {
    value.get(key).and_then(|value| value.str()).ok_or(Failure::Shape(place))
}

/// A field that has to be there, as a value of this kind.
pub(crate) fn field<'a>(
    value: Value<'a>,
    key: &str,
    kind: Kind,
    place: &'static str,
) -> Result<Value<'a>, Failure> {
    value.get(key).filter(|value| value.kind() == kind).ok_or(Failure::Shape(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, kind: &str, should_retry: Option<bool>) -> Verdict {
        let message = String::new();
        let kind = kind.to_owned();
        Failure::Status { status, kind, message, retry_after: None, should_retry }.verdict()
    }

    #[test]
    fn budgets_are_never_asked_twice() {
        assert_eq!(status(402, "billing_error", None), Verdict::OutOfBudget);
        assert_eq!(status(402, "", Some(true)), Verdict::OutOfBudget);
        assert_eq!(status(429, "insufficient_quota", None), Verdict::OutOfBudget);
        assert_eq!(status(429, "rate_limit_error", Some(false)), Verdict::OutOfBudget);
        for kind in ["billing_error", "insufficient_quota"] {
            let said = Failure::Said { kind: kind.to_owned(), message: String::new() };
            assert_eq!(said.verdict(), Verdict::OutOfBudget);
        }
        let low = Failure::Status {
            status: 400,
            kind: "invalid_request_error".to_owned(),
            message: "Your credit balance is too low to access the API.".to_owned(),
            retry_after: None,
            should_retry: None,
        };
        assert_eq!(low.verdict(), Verdict::OutOfBudget);
    }

    #[test]
    fn only_what_passes_is_repeated() {
        for passing in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert_eq!(status(passing, "", None), Verdict::Again(None), "{passing}");
        }
        for lasting in [301, 307, 400, 401, 403, 404, 413, 422] {
            assert_eq!(status(lasting, "", None), Verdict::Refused, "{lasting}");
        }
        assert_eq!(status(503, "", Some(false)), Verdict::Refused);
        assert_eq!(status(400, "", Some(true)), Verdict::Again(None));
    }
}
