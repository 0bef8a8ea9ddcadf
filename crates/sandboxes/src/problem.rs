//! Why something was not done.

/// What kind of answer it is; surfaces choose their status by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request makes no sense, or asks for what is out of range.
    Invalid,
    Unauthenticated,
    /// It does not exist, or belongs to somebody else.
    NotFound,
    /// It is not in a state in which that can be done.
    Conflict,
    /// Belljar does not do that, on purpose or not yet.
    Unsupported,
    /// More than this tenant may have at once.
    TooMany,
    /// Not now: the server is full, or about to stop.
    Busy,
    NoSpace,
    Internal,
}

/// One problem: a stable code, a sentence, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    pub kind: Kind,
    /// Stable; explained in `docs/errors.md`.
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), hint: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, "invalid", message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, "unsupported", message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, "conflict", message)
    }

    /// The same words for what is not there and for what is not the caller's.
    pub fn unknown_sandbox(id: &str) -> Self {
        let message = format!("sandbox \"{id}\" doesn't exist or you don't have access to it");
        Self::new(Kind::NotFound, "sandbox_not_found", message)
    }

    /// The sandbox went away while it was being used.
    pub fn gone() -> Self {
        Self::new(Kind::Busy, "sandbox_gone", "The sandbox was not found")
    }

    pub fn not_found(what: &str, name: &str) -> Self {
        Self::new(Kind::NotFound, "not_found", format!("{what} '{name}' not found"))
    }

    /// For surfaces: nothing answers to this.
    pub fn no_route(method: &str, path: &str) -> Self {
        Self::new(Kind::NotFound, "route_not_found", format!("no such route: {method} {path}"))
    }

    /// Something that nobody asked for. The whole chain is logged here, once; it
    /// may name what is the host's, so the caller is told what was attempted.
    pub fn internal(attempted: &str, error: &dyn std::error::Error) -> Self {
        let mut chain = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push_str(": ");
            chain.push_str(&cause.to_string());
            source = cause.source();
        }
        tracing::error!(attempted, error = chain, "operation failed");
        Self::new(Kind::Internal, "internal", format!("cannot {attempted}"))
            .hint("the server's log has the reason")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
