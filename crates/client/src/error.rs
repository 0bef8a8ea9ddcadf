//! Why something was not done, or is not known to be.

use std::time::Duration;

use belljar_api::Envelope;
use belljar_api::bounds::OutOfBounds;
use http::{HeaderMap, StatusCode, header};

/// What became of a request that has no answer to its question.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no answer, or only a part of one.
    #[error("cannot reach the server")]
    Transport(#[from] Transport),
    /// The server says why not.
    #[error("the server refused the request")]
    Problem(#[from] Problem),
    /// The answer is not one of this API.
    #[error("the server's response is invalid")]
    Protocol(#[from] Protocol),
    /// It was not even asked for.
    #[error("the request exceeds the API's bounds")]
    Bounds(#[from] OutOfBounds),
    /// What was running ended with its sandbox; `/v1/ended` says why that ended.
    #[error("the sandbox ended during the call")]
    SandboxGone,
}

/// How far a request came that has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Transport {
    /// The server has heard nothing of it.
    #[error("cannot connect to the server")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nobody knows what it has done.
    #[error("the connection to the server was lost")]
    BrokeOff(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stream that should say at least that there is nothing to say said nothing.
    #[error("the server sent nothing for {0:?}")]
    Silent(Duration),
}

/// A refusal, in the server's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} ({}, request {})", said.message, said.code, said.request_id)]
pub struct Problem {
    pub status: StatusCode,
    /// Its `code` is stable; `docs/errors.md` explains each.
    pub said: Envelope,
    /// When to try again, if the server said so.
    pub retry_after: Option<Duration>,
}

/// What no server of ours says.
#[derive(Debug, thiserror::Error)]
pub enum Protocol {
    #[error("cannot build the request")]
    Request(#[source] http::Error),
    #[error("unexpected status {0}")]
    Status(StatusCode),
    #[error("unexpected response body")]
    Json(#[source] serde_json::Error),
    #[error("an event is longer than {0} bytes")]
    LongEvent(usize),
    #[error("the body is longer than {0} bytes")]
    LongBody(usize),
    #[error("the output is not valid base64")]
    Base64(#[source] base64::DecodeError),
    #[error("the stream ended before its first event")]
    NotBegun,
}

/// Whether what was asked for was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Not done, and it is worth to ask again.
    NotNow,
    /// Not done, and asking again would change nothing.
    Refused,
    /// Nobody knows. What only reads can be asked for again, and so can what bears
    /// a key.
    Unknown,
}

impl Error {
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Transport(Transport::Connect(_)) => Outcome::NotNow,
            Self::Transport(Transport::BrokeOff(_) | Transport::Silent(_)) => Outcome::Unknown,
            Self::Problem(problem) => problem.outcome(),
            Self::Protocol(Protocol::Request(_)) | Self::Bounds(_) | Self::SandboxGone => {
                Outcome::Refused
            }
            Self::Protocol(_) => Outcome::Unknown,
        }
    }

    /// The stable code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.said.code),
            _ => None,
        }
    }
}

impl Problem {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, said: Envelope) -> Self {
        let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|seconds| seconds.parse().ok());
        Self { status, said, retry_after: wait.map(Duration::from_secs) }
    }

    fn outcome(&self) -> Outcome {
        match (self.status, self.said.code.as_str()) {
            // It was there, and is not any more.
            (_, "sandbox_gone") => Outcome::Refused,
            (_, "idempotency_in_progress") => Outcome::NotNow,
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, _) => Outcome::NotNow,
            (status, _) if status.is_server_error() => Outcome::Unknown,
            _ => Outcome::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, code: &str) -> Outcome {
        let said = Envelope {
            code: code.to_owned(),
            message: String::new(),
            hint: None,
            request_id: String::new(),
        };
        let status = StatusCode::from_u16(status).unwrap();
        Error::from(Problem::new(status, &HeaderMap::new(), said)).outcome()
    }

    #[test]
    fn an_error_says_whether_it_can_have_been_done() {
        assert_eq!(outcome(429, "too_many_sandboxes"), Outcome::NotNow);
        assert_eq!(outcome(503, "draining"), Outcome::NotNow);
        assert_eq!(outcome(503, "sandbox_gone"), Outcome::Refused);
        assert_eq!(outcome(409, "stale_generation"), Outcome::Refused);
        assert_eq!(outcome(404, "sandbox_not_found"), Outcome::Refused);
        assert_eq!(outcome(502, "outcome_unknown"), Outcome::Unknown);
        assert_eq!(outcome(500, "internal"), Outcome::Unknown);
        let cut = Error::from(Transport::BrokeOff("cut".into()));
        assert_eq!(cut.outcome(), Outcome::Unknown);
        assert_eq!(Error::from(Transport::Connect("no".into())).outcome(), Outcome::NotNow);
    }
}
