//! `GET /v1/sandboxes/{sandbox}/files/content`

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use belljar_api::file as api;
use belljar_sandboxes::Actions;
use futures_util::stream;
use http::header;

use super::files_of;
use crate::v1::authenticate::Caller;
use crate::v1::calls::reach;
use crate::v1::failure::Failure;
use crate::v1::read::{At, Query};

pub(in crate::v1) async fn read(
    State(actions): State<Actions>,
    Caller(tenant): Caller,
    At(id): At<String>,
    Query(query): Query<api::FileQuery>,
) -> Result<impl IntoResponse, Failure> {
    let (sandbox, live) = reach(&actions, &tenant, &id).await?;
    let files = files_of(&live, &sandbox, query.user);
    let reading = files.read(&files.resolve(query.path.as_str())?).await?;
    let size = reading.size();
    // A file that changes meanwhile breaks the stream off.
    let body = Body::from_stream(stream::unfold(Some(reading), async |state| {
        let mut reading = state?;
        match reading.next().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(reading))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        // It is never to be shown as anything else, whatever it says.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_DISPOSITION, "attachment".to_owned()),
    ];
    Ok((headers, body))
}
