//! `/contexts`.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_node::Language;
use belljar_sandboxes::{ContextInfo, Contexts, Kind, Problem};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::Refused;

#[derive(Debug, Deserialize)]
pub(super) struct Create {
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
}

#[derive(Debug, Serialize)]
struct Shown {
    id: String,
    language: &'static str,
    cwd: String,
}

impl From<ContextInfo> for Shown {
    fn from(info: ContextInfo) -> Self {
        Self { id: info.id, language: info.language.as_str(), cwd: info.cwd }
    }
}

pub(super) fn list(contexts: &Contexts) -> Response {
    let all: Vec<Shown> = contexts.list().into_iter().map(Shown::from).collect();
    Json(all).into_response()
}

pub(super) async fn create(contexts: &Contexts, wish: Create) -> Result<Response, Refused> {
    let language = language(wish.language.as_deref())?;
    let cwd = wish.cwd.as_deref().filter(|cwd| !cwd.is_empty());
    let made = contexts.create(language, cwd).await;
    let info = made.map_err(refused)?;
    Ok(Json(Shown::from(info)).into_response())
}

pub(super) async fn restart(contexts: &Contexts, id: &str) -> Result<Response, Refused> {
    contexts.restart(id).await?;
    Ok(Json(()).into_response())
}

pub(super) async fn delete(contexts: &Contexts, id: &str) -> Result<Response, Refused> {
    contexts.delete(id).await?;
    Ok(Json(()).into_response())
}

/// The language that somebody named; Python if nobody did.
pub(super) fn language(name: Option<&str>) -> Result<Language, Refused> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(Language::Python) };
    Language::named(name).ok_or_else(|| {
        let known: Vec<&str> = Language::ALL.iter().map(|language| language.as_str()).collect();
        let name = name.trim().to_lowercase();
        let why = format!("there is no '{name}' here, only {}", known.join(", "));
        not_made(&why)
    })
}

/// E2B's clients expect a failure of the server where a language is missing.
pub(super) fn refused(problem: Problem) -> Refused {
    match problem.kind {
        Kind::Unsupported => not_made(&problem.message),
        _ => problem.into(),
    }
}

fn not_made(why: &str) -> Refused {
    let text = format!("Failed to create context: {why}");
    Refused::plain(StatusCode::INTERNAL_SERVER_ERROR, text)
}
