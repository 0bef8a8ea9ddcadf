//! `/files`: whole files, in and out, without holding them in memory.

mod body;
mod download;
mod encoding;
mod form;
mod upload;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use belljar_sandboxes::{Kind, Problem};
use http::Uri;
use serde::Deserialize;
use serde_json::json;

use crate::error::{sentence, status};

pub(super) use download::download;
pub(super) use upload::upload;

/// What the address of a file says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    pub(super) path: Option<String>,
    pub(super) username: Option<String>,
    pub(super) signature: Option<String>,
    #[serde(rename = "signature_expiration")]
    pub(super) expiration: Option<String>,
}

impl Query {
    /// What cannot be read says nothing, and so admits nobody.
    pub(super) fn of(uri: &Uri) -> Self {
        axum::extract::Query::try_from_uri(uri).map(|query| query.0).unwrap_or_default()
    }

    fn user(&self) -> Option<&str> {
        self.username.as_deref().filter(|name| !name.is_empty())
    }
}

/// A problem, as clients of `/files` read it.
fn refusal(problem: &Problem) -> Response {
    if problem.code == "sandbox_gone" {
        return gone();
    }
    let status = status(problem.kind);
    let body = json!({ "code": status.as_u16(), "message": sentence(problem) });
    (status, Json(body)).into_response()
}

fn gone() -> Response {
    let message = Problem::gone().message;
    let body = json!({ "code": 502, "message": message });
    (http::StatusCode::BAD_GATEWAY, Json(body)).into_response()
}

/// Nothing that is wrong with a request is a fault of ours.
fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Kind::Invalid, "invalid", message)
}
