//! Files that runs work on.

mod create;
mod delete;
mod describe;
mod list;

use belljar_api::data as api;
use belljar_runs::{Kept, KeptError, PutError};
use belljar_sandboxes::{Kind, Problem};
use http::StatusCode;

use super::failure::Failure;
use super::runs::moment;

pub(super) use create::create;
pub(super) use delete::delete;
pub(super) use describe::describe;
pub(super) use list::list;

fn view(kept: &Kept) -> Result<api::Data, Failure> {
    let sha256 = kept.sha256.to_string().try_into();
    let sha256 = sha256
        .map_err(|error: api::NoSha256| Problem::internal("read the digest of a file", &error))?;
    Ok(api::Data { sha256, bytes: kept.bytes, kept_at: moment(kept.kept_at) })
}

/// The same for a file of another tenant.
fn unknown() -> Failure {
    Problem::new(Kind::NotFound, "data_not_found", "you have no such file").into()
}

pub(super) fn not_put(error: &PutError) -> Failure {
    let message = error.to_string();
    match error {
        PutError::TooLong(_) => {
            Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", message)
        }
        PutError::Quota(_) => Problem::new(Kind::NoSpace, "data_quota", message)
            .hint("delete files that no run needs: DELETE /v1/data/…")
            .into(),
        PutError::TooMany(_) => Problem::new(Kind::TooMany, "too_many_data", message)
            .hint("delete files that no run needs: DELETE /v1/data/…")
            .into(),
        PutError::TooManyUploads(_) => {
            Problem::new(Kind::TooMany, "too_many_uploads", message).into()
        }
        PutError::BrokeOff(_) => Problem::new(Kind::Invalid, "upload_incomplete", message).into(),
        PutError::Kept(error) => not_kept(error),
    }
}

pub(super) fn not_kept(error: &KeptError) -> Failure {
    tracing::error!(error = error as &dyn std::error::Error, "data store request failed");
    Problem::new(Kind::Busy, "objects_unavailable", "the data store is unavailable").into()
}
