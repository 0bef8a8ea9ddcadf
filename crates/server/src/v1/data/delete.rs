//! `DELETE /v1/data/{data}`

use belljar_objects::Digest;
use http::StatusCode;

use super::{not_kept, unknown};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;
use crate::v1::runs::Offering;

pub(in crate::v1) async fn delete(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(sha256): At<String>,
) -> Result<StatusCode, Failure> {
    let there = match sha256.parse::<Digest>() {
        Ok(sha256) => runs.data().delete(tenant.as_str(), &sha256).await,
        Err(_) => Ok(false),
    };
    if there.map_err(|error| not_kept(&error))? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(unknown())
}
