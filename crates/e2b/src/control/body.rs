//! Bodies and queries, with every complaint in E2B's envelope.

use axum::extract::{FromRequest, Request};
use belljar_sandboxes::Problem;
use serde::de::DeserializeOwned;

use crate::error::RestError;

/// A JSON body of bounded size. Its type header is not asked for, and no body
/// at all counts as an empty object: SDKs leave out what is optional.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

/// The largest body of the control plane.
const MOST: usize = 1 << 20;

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = RestError;

    async fn from_request(request: Request, _: &S) -> Result<Self, RestError> {
        let bytes = axum::body::to_bytes(request.into_body(), MOST).await.map_err(|_| {
            let message = format!("the body did not arrive, or is larger than {MOST} bytes");
            Problem::invalid(message)
        })?;
        Ok(parse(&bytes).map(Self)?)
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.trim_ascii().is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("Error when parsing request: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, PartialEq)]
    struct Count {
        count: Option<u32>,
    }

    #[test]
    fn nothing_is_an_empty_object() {
        assert_eq!(parse::<Count>(b" \n"), Ok(Count { count: None }));
        assert_eq!(parse::<Count>(br#"{"count": 3}"#), Ok(Count { count: Some(3) }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = parse::<Count>(br#"{"count": -1}"#).unwrap_err();
        assert!(wrong.message.contains("-1"), "{wrong}");
        assert!(parse::<Count>(b"{").is_err());
    }
}
