//! `GET /v1/runs/{run}/report`

use axum::response::{IntoResponse, Response};
use belljar_runs::ReportError;
use belljar_sandboxes::{Kind, Problem};
use http::{HeaderMap, StatusCode, header};

use super::{Offering, address, failed, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn report(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At(id): At<String>,
    asked: HeaderMap,
) -> Result<Response, Failure> {
    let run = address(&tenant, &id)?;
    let rendered = runs.report(&run).await.map_err(|error| match error {
        ReportError::Read(error) => unread(&error),
        ReportError::Unfinished => {
            Problem::new(Kind::Conflict, "run_unfinished", "the run has not ended")
                .hint("`GET /v1/runs/{run}/events` streams its events until it ends")
                .into()
        }
        error => failed(&error),
    })?;
    let tag = format!("\"{}\"", rendered.sha256);
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        // The page has its own policy, too. This one also gives it an origin of its own, so that
        // it has nothing of this server.
        (header::CONTENT_SECURITY_POLICY, rendered.policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CONTENT_DISPOSITION, format!("inline; filename=\"report-{}.html\"", run.run)),
        // Another caller must not see it, and it may change with the operator's brand.
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
        (header::ETAG, tag.clone()),
    ];
    let is_known = asked.get_all(header::IF_NONE_MATCH).iter().any(|known| {
        let known = known.to_str().unwrap_or_default();
        known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag)
    });
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, rendered.html).into_response())
}
