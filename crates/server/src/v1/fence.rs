//! Keeps out whoever was replaced.
//!
//! Whoever drives a sandbox for a run says in which generation of the run's lease
//! it does. A lower one than the sandbox has seen is that of a worker that was
//! given up, and does not know it yet.

use axum::extract::{RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::Actions;
use http::{HeaderMap, StatusCode};

use super::authenticate::Caller;
use super::failure::Failure;

/// What a generation comes in.
pub(super) const GENERATION: &str = "run-generation";

pub(super) async fn fence(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let sandbox = params.iter().find(|(name, _)| *name == "sandbox").map(|(_, id)| id);
    let checked = generation(request.headers()).and_then(|generation| {
        let (Some(generation), Some(id)) = (generation, sandbox) else { return Ok(()) };
        // What is not there is said by whoever needs it: some routes do not.
        match actions.registry().find(&tenant, id) {
            Ok(sandbox) => actions.fence(&sandbox, generation).map_err(Failure::from),
            Err(_) => Ok(()),
        }
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// The generation that a request says.
pub(super) fn generation(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(value) = headers.get(GENERATION) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| {
        let message = "Run-Generation must be a whole number";
        Failure::new(StatusCode::BAD_REQUEST, "unreadable_header", message)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_generation_is_a_whole_number() {
        let said = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            generation(&HeaderMap::from_iter([("run-generation".parse().unwrap(), value)]))
        };
        assert_eq!(generation(&HeaderMap::new()).unwrap(), None);
        assert_eq!(said("0").unwrap(), Some(0));
        assert_eq!(said("18446744073709551615").unwrap(), Some(u64::MAX));
        for text in ["", "+1", "-1", "1.0", "x", "18446744073709551616"] {
            assert!(said(text).is_err(), "{text:?}");
        }
    }
}
