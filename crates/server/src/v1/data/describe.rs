//! `GET /v1/data/{data}/description`

use axum::Json;
use belljar_api::data as api;
use belljar_objects::Digest;
use belljar_runs::DescribeError;
use belljar_sandboxes::{Kind, Problem};
use serde_json::{Map, Value};

use super::{not_kept, unknown};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};
use crate::v1::runs::Offering;

/// The length of the text if the request does not state one.
const DEFAULT_TOKENS: u64 = 4000;

pub(in crate::v1) async fn describe(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(data): At<String>,
    Query(asked): Query<api::DescribeData>,
) -> Result<Json<api::DataDescription>, Failure> {
    let digest: Digest = data.parse().map_err(|_| unknown())?;
    let sha256 = api::Sha256::try_from(data).map_err(|_| unknown())?;
    let described = runs.describe(tenant.as_str(), &digest).await;
    let description = described.map_err(|error| refused(&error))?;
    let tokens = asked.tokens.map_or(DEFAULT_TOKENS, Into::into);
    let text = description.to_text(usize::try_from(tokens).unwrap_or(usize::MAX));
    let document = serde_json::to_value(&description);
    let document = document.map_err(|error| Problem::internal("write a description", &error))?;
    let document = match document {
        Value::Object(document) => document,
        _ => Map::new(),
    };
    Ok(Json(api::DataDescription { sha256, text, document }))
}

fn refused(error: &DescribeError) -> Failure {
    match error {
        DescribeError::NoData(_) => unknown(),
        DescribeError::Refused(_) | DescribeError::NoReader => {
            Problem::new(Kind::Invalid, "data_not_described", error.to_string()).into()
        }
        DescribeError::Kept(error) => not_kept(error),
        DescribeError::Reader(_) | DescribeError::Panicked(_) => {
            Problem::internal("describe a file", error).into()
        }
    }
}
