//! `GET /v1/runs/{run}/turns/{turn}/calls/{call}/output`

use axum::response::IntoResponse;
use belljar_journal::event::Body;
use belljar_journal::read_all;
use belljar_sandboxes::{Kind, Problem};
use http::header;

use super::{Offering, address, failed, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn output(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At((id, turn, call)): At<(String, String, String)>,
) -> Result<impl IntoResponse, Failure> {
    let run = address(&tenant, &id)?;
    let turn: u32 = turn.parse().unwrap_or(0);
    let events = read_all(&**runs.journal(), &run).await.map_err(|error| unread(&error))?;
    let finished = events.into_iter().rev().find_map(|event| match event.body {
        Body::ToolFinished(it) if it.call.turn == turn && it.call.id == call => Some(it),
        _ => None,
    });
    let finished = finished.ok_or_else(|| {
        let message = "the run has finished no such call";
        Problem::new(Kind::NotFound, "call_not_found", message)
            .hint("`tool_finished` among the run's events has the turn and the id of each call")
    })?;
    // Output that was not cut is whole in the event.
    let content = match finished.outputs.iter().find(|output| output.stream == "all") {
        Some(whole) => {
            let content = runs.journal().get_blob(&run, &whole.content).await;
            content.map_err(|error| failed(&error))?
        }
        None => finished.shown.into_bytes(),
    };
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        // Code of a model printed it. A browser must not show it as anything else.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, content))
}
