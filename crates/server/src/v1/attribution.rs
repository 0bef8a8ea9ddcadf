//! The run, the turn and the call that a request is made for, as the run's worker says it.

use belljar_domain::Attribution;
use http::{HeaderMap, StatusCode};

use super::failure::Failure;

/// The header of an attribution.
pub(super) const ATTRIBUTION: &str = "run-attribution";

/// The attribution of a request. Only API keys may say one, and rows are the tenant's own, so a
/// wrong one harms no other tenant.
pub(super) fn attribution(headers: &HeaderMap) -> Result<Option<Attribution>, Failure> {
    let Some(value) = headers.get(ATTRIBUTION) else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(|text| text.parse().ok());
    parsed.map(Some).ok_or_else(|| {
        let message = "Run-Attribution must be run/turn or run/turn/call";
        Failure::new(StatusCode::BAD_REQUEST, "unreadable_header", message)
    })
}

#[cfg(test)]
mod tests {
    use belljar_domain::RunId;
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_attribution_is_read_or_refused() {
        let said = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            attribution(&HeaderMap::from_iter([(ATTRIBUTION.parse().unwrap(), value)]))
        };
        assert_eq!(attribution(&HeaderMap::new()).unwrap(), None);
        let known = Attribution { run: RunId::from_bits([1; 16]), turn: 4, call: None };
        assert_eq!(said(&known.to_string()).unwrap(), Some(known));
        assert!(said("4").is_err());
    }
}
