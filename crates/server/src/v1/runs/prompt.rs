//! `GET /v1/runs/{run}/turns/{turn}/prompt`

use axum::Json;
use belljar_api::run as api;
use belljar_runs::PromptError;
use belljar_sandboxes::{Kind, Problem};
use serde::Serialize;
use serde_json::Value;

use super::{Offering, address, failed, unread};
use crate::v1::authenticate::Caller;
use crate::v1::failure::Failure;
use crate::v1::read::At;

pub(in crate::v1) async fn prompt(
    Offering(runs): Offering,
    Caller(tenant): Caller,
    At((id, turn)): At<(String, String)>,
) -> Result<Json<api::RunPrompt>, Failure> {
    let run = address(&tenant, &id)?;
    let turn = turn.parse().unwrap_or(0);
    let prompt = runs.prompt(&run, turn).await.map_err(|error| match error {
        PromptError::Read(error) => unread(&error),
        PromptError::NoTurn(_) => {
            Problem::new(Kind::NotFound, "turn_not_found", error.to_string()).into()
        }
        error => failed(&error),
    })?;
    let told = prompt.conversation;
    Ok(Json(api::RunPrompt {
        turn,
        sha256: prompt.sha256.to_string(),
        bytes: prompt.bytes,
        tools: values(&told.tools)?,
        system: told.system.into_iter().map(|part| part.text).collect(),
        messages: values(&told.messages)?,
    }))
}

fn values<T: Serialize>(items: &[T]) -> Result<Vec<Value>, Failure> {
    let items: Result<_, _> = items.iter().map(serde_json::to_value).collect();
    items.map_err(|error| failed(&error))
}
