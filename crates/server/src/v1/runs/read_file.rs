//! `GET /v1/runs/{run}/files/{file}`

use axum::response::IntoResponse;
use belljar_journal::{RunView, read_all};
use belljar_sandboxes::{Kind, Problem};
use http::header;

use super::{Offering, address, failed, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn read_file(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At((id, name)): At<(String, String)>,
) -> Result<impl IntoResponse, Failure> {
    let run = address(&tenant, &id)?;
    let events = read_all(&**runs.journal(), &run).await.map_err(|error| unread(&error))?;
    let view = RunView::of(&events);
    let found = view.artifacts.iter().rev().find(|artifact| artifact.name == name);
    let found = found.ok_or_else(|| {
        Problem::new(Kind::NotFound, "file_not_found", "the run made no such file")
            .hint("`files` of the run lists its files")
    })?;
    let content = runs.journal().get_blob(&run, &found.content).await;
    let content = content.map_err(|error| failed(&error))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        // A model wrote it. It is never to be shown as anything else, whatever it says.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, content))
}
