//! Refusals of operations, in words that the client understands.

use ::http::header::{HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderValue, StatusCode};
use belljar_domain::network::{Decision, Reason};
use belljar_llm::dialect::{Dialect, Route};
use belljar_llm::refusal::{self, Kind};
use belljar_llm::rewrite::Refused;
use bytes::Bytes;

use super::PREFIX;
use super::git::Refused as GitRefused;
use super::metering::End;
use crate::answer::{self, REASON};
use crate::body::{Answer, whole};
use crate::budget::Exhausted;

/// Why an operation was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Token,
    TooManyTokens,
    /// The request was meant for another host.
    Host,
    Scope,
    NotFound,
    Method,
    Path,
    NoSocket,
    TooLarge(u64),
    Slow,
    NoRoom,
    Gone,
    Invalid(String),
    Rewrite(Refused),
    UnknownPrice(String),
    Budget(Exhausted),
    /// No slice of the budget can be leased now.
    NoLease,
    /// The charge log cannot be written, or is full.
    NoChargeLog,
    Unreachable,
    Upstream,
    UpstreamTimeout,
    /// The upstream does not take our credential.
    Credential,
    Redirect,
    BadAnswer,
    Git(GitRefused),
}

/// Who is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Dialect(Dialect),
    Plain,
}

impl Shape {
    /// By what is asked for: a client that is refused understands its own
    /// provider's errors best.
    pub(super) fn of(path: &str, headers: &HeaderMap) -> Self {
        let named = path.strip_prefix(PREFIX);
        let rest = match named {
            Some(named) => named.find('/').and_then(|at| named.get(at..)).unwrap_or_default(),
            None => path,
        };
        let is_anthropic = headers.contains_key("anthropic-version");
        match Route::find(rest, is_anthropic) {
            Some(route) => Self::Dialect(route.dialect),
            None if is_anthropic && named.is_none() => Self::Dialect(Dialect::AnthropicMessages),
            None => Self::Plain,
        }
    }
}

impl Refusal {
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Token | Self::TooManyTokens => Reason::Token,
            Self::Host => Reason::Foreign,
            Self::Scope | Self::NotFound => Reason::Scope,
            Self::Method | Self::NoSocket => Reason::Method,
            Self::Path => Reason::Path,
            Self::TooLarge(_) | Self::Slow | Self::Invalid(_) => Reason::Malformed,
            Self::NoRoom => Reason::TooMany,
            Self::Gone => Reason::Ended,
            Self::Rewrite(Refused::Invalid(_)) => Reason::Malformed,
            Self::Rewrite(_) => Reason::Scope,
            Self::UnknownPrice(_) => Reason::UnknownPrice,
            Self::Budget(_) => Reason::Budget,
            Self::NoLease => Reason::BudgetLease,
            Self::NoChargeLog => Reason::ChargeLog,
            Self::Unreachable => Reason::Unreachable,
            Self::Upstream | Self::UpstreamTimeout | Self::Credential => Reason::Upstream,
            Self::Redirect | Self::BadAnswer => Reason::BadAnswer,
            Self::Git(refused) => refused.reason(),
        }
    }

    pub(super) fn decision(&self) -> Decision {
        match self.reason() {
            Reason::Ended | Reason::Unreachable | Reason::Upstream | Reason::BadAnswer => {
                Decision::Failed
            }
            _ => Decision::Denied,
        }
    }

    /// For people. Says nothing of what an upstream said.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Token => "the token is invalid or has expired".into(),
            Self::TooManyTokens => "too many wrong tokens; wait a minute".into(),
            Self::Host => "this request was meant for another host".into(),
            Self::Scope => "the token does not allow this operation".into(),
            Self::NotFound => "the gateway serves nothing at this path".into(),
            Self::Method => "the operation does not allow this method".into(),
            Self::Path => "the operation does not allow this path".into(),
            Self::NoSocket => "WebSockets are not supported; use POST".into(),
            Self::TooLarge(most) => format!("the body has more than {most} bytes"),
            Self::Slow => "the body did not arrive in time".into(),
            Self::NoRoom => "the gateway is holding too many bodies; try again".into(),
            Self::Gone => "the request ended early".into(),
            Self::Invalid(why) => why.clone(),
            Self::Rewrite(refused) => refused.to_string(),
            Self::UnknownPrice(model) => format!("no price is known for the model `{model}`"),
            Self::Budget(exhausted) => exhausted.to_string(),
            Self::NoLease => "the budget cannot be checked now; try again".into(),
            Self::NoChargeLog => "the request cannot be charged now; try again".into(),
            Self::Unreachable => "the upstream cannot be reached".into(),
            Self::Upstream => "the upstream sent an invalid response".into(),
            Self::UpstreamTimeout => "the upstream did not answer in time".into(),
            Self::Credential => "the upstream refuses the gateway's own credential".into(),
            Self::Redirect => "the upstream redirects, and redirects are not followed".into(),
            Self::BadAnswer => "the upstream's response cannot be forwarded".into(),
            Self::Git(refused) => refused.to_string(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Token => Kind::Token,
            Self::TooManyTokens => Kind::Limited { retry_after_seconds: 60 },
            Self::NoRoom | Self::NoLease | Self::NoChargeLog => {
                Kind::Limited { retry_after_seconds: 1 }
            }
            Self::Host | Self::Scope | Self::Method | Self::Path | Self::Git(_) => Kind::Scope,
            Self::NotFound => Kind::NotFound,
            Self::NoSocket => Kind::Upgrade,
            Self::TooLarge(_) => Kind::TooLarge,
            Self::Invalid(_) => Kind::Malformed,
            Self::Rewrite(refused) => refused.into(),
            Self::UnknownPrice(_) => Kind::UnknownPrice,
            Self::Budget(Exhausted { retry: Some(wait), .. }) => {
                let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                Kind::Limited { retry_after_seconds: u32::try_from(whole).unwrap_or(60).max(1) }
            }
            Self::Budget(Exhausted { retry: None, .. }) => Kind::Budget,
            Self::Unreachable => Kind::Unreachable,
            Self::Slow | Self::Gone => Kind::SlowBody,
            Self::UpstreamTimeout => Kind::TimedOut,
            Self::Upstream | Self::Credential | Self::Redirect | Self::BadAnswer => Kind::BadAnswer,
        }
    }

    /// The status where nobody's dialect asks for another one.
    fn status(&self) -> StatusCode {
        match self {
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::TooManyTokens | Self::NoRoom | Self::NoLease | Self::NoChargeLog => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Budget(exhausted) if exhausted.retry.is_some() => StatusCode::TOO_MANY_REQUESTS,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Scope | Self::Path | Self::UnknownPrice(_) => StatusCode::FORBIDDEN,
            Self::Rewrite(_) => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoSocket => StatusCode::UPGRADE_REQUIRED,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow | Self::Gone => StatusCode::REQUEST_TIMEOUT,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Budget(_) => StatusCode::PAYMENT_REQUIRED,
            Self::UpstreamTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Git(refused) => refused.status(),
            Self::Unreachable
            | Self::Upstream
            | Self::Credential
            | Self::Redirect
            | Self::BadAnswer => StatusCode::BAD_GATEWAY,
        }
    }

    pub(super) fn answer(&self, shape: Shape) -> Answer {
        let message = self.message();
        let mut answer = match shape {
            Shape::Plain => self.plain(&message),
            Shape::Dialect(dialect) => {
                let said = refusal::answer(dialect, self.kind(), &message, "req_belljar");
                let mut answer = Answer::new(whole(said.body));
                *answer.status_mut() =
                    StatusCode::from_u16(said.status).unwrap_or(StatusCode::BAD_GATEWAY);
                for (name, value) in said.headers {
                    if let Ok(value) = HeaderValue::try_from(value) {
                        answer.headers_mut().insert(name, value);
                    }
                }
                answer
            }
        };
        if matches!(self, Self::Credential) {
            // Nothing that the client repeats changes an operator's key.
            answer.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if let Ok(value) = HeaderValue::try_from(answer::word(self.reason())) {
            answer.headers_mut().insert(REASON, value);
        }
        answer
    }

    fn plain(&self, message: &str) -> Answer {
        #[derive(serde::Serialize)]
        struct Said<'a> {
            code: String,
            message: &'a str,
            reason: Reason,
        }
        let reason = self.reason();
        let said = Said { code: answer::word(reason), message, reason };
        let mut answer = answer::json(self.status(), Some(reason), &said);
        if let Kind::Limited { retry_after_seconds } = self.kind() {
            answer.headers_mut().insert(RETRY_AFTER, retry_after_seconds.into());
        }
        if matches!(self, Self::Token) {
            let challenge = HeaderValue::from_static("Basic realm=\"belljar\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        answer
    }
}

/// The last event of an answer that does not go on.
pub(super) fn event(dialect: Dialect, end: End) -> Bytes {
    let kind = match end {
        End::Token(_) => Kind::Token,
        End::Idle => Kind::TimedOut,
        End::Complete | End::Gone | End::Echoed | End::Upstream | End::TooLong => Kind::BadAnswer,
    };
    refusal::last_event(dialect, kind, &end.to_string(), None).into()
}
