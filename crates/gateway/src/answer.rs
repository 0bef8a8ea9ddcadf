//! What the gateway itself says to a client.

use belljar_domain::network::{Host, Reason};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

use crate::body::{Answer, whole};

/// Says why, in a word of [`Reason`].
pub(crate) const REASON: HeaderName = HeaderName::from_static("x-belljar-reason");

/// A refusal, with what to do about it.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: Reason,
    pub(crate) host: Option<Host>,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

#[derive(Serialize)]
struct Said<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a Host>,
    reason: Reason,
    #[serde(skip_serializing_if = "str::is_empty")]
    hint: &'a str,
}

/// The stable word for a reason, as rows spell it.
pub(crate) fn word(reason: Reason) -> String {
    let value = serde_json::to_value(reason).unwrap_or_default();
    value.as_str().unwrap_or("refused").to_owned()
}

impl Refusal {
    /// The usual answer to `reason`.
    pub(crate) fn new(reason: Reason, host: Option<Host>) -> Self {
        let (status, message, hint) = explain(reason);
        let message = match &host {
            Some(host) => message.replace("{}", &host.to_string()),
            None => message.replace("{}", "this host"),
        };
        Self { status, reason, host, message, hint }
    }

    pub(crate) fn answer(&self) -> Answer {
        let code = match self.status {
            StatusCode::BAD_REQUEST => "malformed",
            StatusCode::UNAUTHORIZED => "unauthorized",
            StatusCode::FORBIDDEN => "denied",
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::TOO_MANY_REQUESTS => "throttled",
            StatusCode::GATEWAY_TIMEOUT => "upstream_timeout",
            _ if self.reason == Reason::NotRecorded => "not_recorded",
            _ => "upstream_failed",
        };
        let Self { reason, host, message, hint, .. } = self;
        let said = Said { code, message, host: host.as_ref(), reason: *reason, hint };
        json(self.status, Some(*reason), &said)
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        refusal.answer()
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, reason: Option<Reason>, body: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(value) = reason.and_then(|reason| HeaderValue::try_from(word(reason)).ok()) {
        headers.insert(REASON, value);
    }
    answer
}

/// Nothing is served there.
pub(crate) fn not_found() -> Answer {
    #[derive(Serialize)]
    struct Missing {
        code: &'static str,
        message: &'static str,
    }
    let message = "the gateway serves operations here; for other hosts, use it as a proxy";
    json(StatusCode::NOT_FOUND, None, &Missing { code: "not_found", message })
}

const ASK: &str = "ask for the host in the sandbox's network policy";

/// Status, text and hint. Texts of denials say nothing that was looked up, so
/// that they map no network.
fn explain(reason: Reason) -> (StatusCode, &'static str, &'static str) {
    let denied = StatusCode::FORBIDDEN;
    let failed = StatusCode::BAD_GATEWAY;
    match reason {
        Reason::NoNetwork => (
            denied,
            "this sandbox has no network: its policy is `none`, so {} is not reached",
            "give the sandbox a network policy that allows the host",
        ),
        Reason::NotAllowed => (denied, "the network policy does not allow {}", ASK),
        Reason::Port => (
            denied,
            "the network policy does not allow this port of {}",
            "80 and 443 are allowed unless a rule lists others",
        ),
        Reason::Method => (denied, "the network policy does not allow this method on {}", ASK),
        Reason::Path => (denied, "the network policy does not allow this path of {}", ASK),
        Reason::Private => (
            denied,
            "{} is a private address, which sandboxes cannot reach",
            "the operator can open address ranges in the gateway's settings",
        ),
        Reason::DeniedBlock | Reason::DeniedHost => (denied, "the network policy denies {}", ""),
        Reason::NameMismatch | Reason::NoName => (
            denied,
            "the name inside the connection is not {}",
            "the Host header and the TLS server name must be the host of the tunnel",
        ),
        Reason::TooMany => (
            StatusCode::TOO_MANY_REQUESTS,
            "this sandbox has too many connections, or makes them too fast",
            "close some, or wait a moment",
        ),
        Reason::BytesSpent => (
            StatusCode::TOO_MANY_REQUESTS,
            "this sandbox has used up the bytes that its network policy allows",
            "",
        ),
        Reason::Malformed => (StatusCode::BAD_REQUEST, "the request is not well-formed", ""),
        Reason::Unresolved => (failed, "{} could not be looked up", ""),
        Reason::Unreachable => (failed, "{} could not be reached", ""),
        Reason::Upstream => (failed, "{} did not answer properly", ""),
        Reason::BadAnswer => (failed, "the response of {} is too large or invalid", ""),
        Reason::NotRecorded => (
            failed,
            "this request is not on the replayed cassette",
            "record it first, or let misses fall through",
        ),
        Reason::PolicyChanged => (denied, "the network policy has just changed", "try again"),
        Reason::Token => (StatusCode::UNAUTHORIZED, "the token is not valid here", ""),
        Reason::Scope
        | Reason::Budget
        | Reason::BudgetLease
        | Reason::ChargeLog
        | Reason::UnknownPrice
        | Reason::Repository
        | Reason::Branch
        | Reason::Force
        | Reason::Deletion
        | Reason::NotApproved
        | Reason::Approved
        | Reason::Operation => (denied, "the token does not allow this", ""),
        Reason::Foreign => (denied, "this belongs to another sandbox", ""),
        Reason::Rule
        | Reason::Open
        | Reason::Recorded
        | Reason::Replayed
        | Reason::Cached
        | Reason::Ended => (failed, "the connection to {} ended early", ""),
    }
}
