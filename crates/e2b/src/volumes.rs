//! Content of volumes: a surface of its own, opened by the volume's token.
//!
//! Its errors have words where the control plane's have numbers.

use std::io::Read as _;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use belljar_sandboxes::{
    Actions, Kind, Problem, Volume, VolumeEntry, VolumeEntryKind, VolumeOwner,
};
use futures_util::StreamExt as _;
use http::request::Parts;
use http::{Method, StatusCode, Uri, header};
use serde_json::{Value, json};

use crate::control::{Body, Query, joined};
use crate::{error, json};

pub(crate) fn router(actions: Actions) -> Router {
    Router::new()
        .route("/volumecontent/{id}/path", get(stat).patch(change).delete(remove))
        .route("/volumecontent/{id}/dir", get(list).post(make_dir))
        .route("/volumecontent/{id}/file", get(read).put(write))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .with_state(actions)
}

async fn no_such_route(method: Method, uri: Uri) -> Refusal {
    Refusal(Problem::no_route(method.as_str(), uri.path()))
}

/// An error: `{"code": "<word>", "message": …}`.
#[derive(Debug)]
struct Refusal(Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<error::RestError> for Refusal {
    fn from(error: error::RestError) -> Self {
        Self(error.0)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.0.code, "message": error::sentence(&self.0) });
        (error::status(self.0.kind), Json(body)).into_response()
    }
}

/// The volume whose token came with the request.
#[derive(Debug)]
struct Opened(Arc<Volume>);

impl FromRequestParts<Actions> for Opened {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, actions: &Actions) -> Result<Self, Refusal> {
        let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.strip_prefix("Bearer "));
        let token = token.map(str::to_owned).ok_or_else(|| {
            let message = "the token of the volume is missing";
            Problem::new(Kind::Unauthenticated, "unauthenticated", message)
        })?;
        let id = Path::<String>::from_request_parts(parts, actions).await;
        let Path(id) = id.map_err(|_| Problem::not_found("volume", "of this path"))?;
        Ok(Self(actions.volume_content(&id, &token)?))
    }
}

fn path(query: &Query) -> Result<String, Problem> {
    let path = query.get("path").map(str::to_owned);
    path.ok_or_else(|| Problem::invalid("the parameter path is missing"))
}

/// Modes come as plain numbers.
fn owner(query: &Query) -> Result<VolumeOwner, Problem> {
    Ok(VolumeOwner {
        uid: query.parsed("uid")?,
        gid: query.parsed("gid")?,
        mode: query.parsed("mode")?,
    })
}

fn shown(entry: &VolumeEntry) -> Value {
    let mut shown = json!({
        "name": entry.name,
        "type": match entry.kind {
            VolumeEntryKind::File => "file",
            VolumeEntryKind::Directory => "directory",
            VolumeEntryKind::Symlink => "symlink",
            VolumeEntryKind::Other => "unknown",
        },
        "path": entry.path,
        "size": entry.size,
        "mode": entry.mode,
        "uid": entry.uid,
        "gid": entry.gid,
        "atime": entry.accessed_at,
        "mtime": entry.modified_at,
        "ctime": entry.changed_at,
    });
    if let Some(target) = &entry.target {
        json::set(&mut shown, "target", target.as_str());
    }
    shown
}

/// Does it on a thread that may wait for a disk.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    joined(tokio::task::spawn_blocking(work).await)
}

async fn stat(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
) -> Result<Json<Value>, Refusal> {
    let path = path(&query)?;
    Ok(Json(shown(&beside(move || volume.stat(&path)).await?)))
}

#[derive(Debug, serde::Deserialize)]
struct Change {
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
}

async fn change(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
    Body(body): Body<Change>,
) -> Result<Json<Value>, Refusal> {
    let path = path(&query)?;
    let owner = VolumeOwner { uid: body.uid, gid: body.gid, mode: body.mode };
    Ok(Json(shown(&beside(move || volume.change(&path, owner)).await?)))
}

async fn remove(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
) -> Result<StatusCode, Refusal> {
    let path = path(&query)?;
    beside(move || volume.remove(&path)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
) -> Result<Json<Vec<Value>>, Refusal> {
    let (path, depth) = (path(&query)?, query.parsed("depth")?.unwrap_or(1));
    let entries = beside(move || volume.list(&path, depth)).await?;
    Ok(Json(entries.iter().map(shown).collect()))
}

async fn make_dir(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
) -> Result<Response, Refusal> {
    let (path, owner) = (path(&query)?, owner(&query)?);
    let force = query.parsed("force")?.unwrap_or(false);
    let made = beside(move || volume.make_dir(&path, owner, force)).await?;
    Ok((StatusCode::CREATED, Json(shown(&made))).into_response())
}

/// How much of a file is read at once.
const PIECE: usize = 64 << 10;

async fn read(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
) -> Result<Response, Refusal> {
    let path = path(&query)?;
    let (file, size) = beside(move || volume.read(&path)).await?;
    // No more than was promised, should somebody add to it meanwhile.
    let file = file.take(size);
    let pieces = futures_util::stream::try_unfold(file, async |mut file| {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            std::io::Result::Ok((piece, file))
        });
        let (piece, file) = read.await.map_err(std::io::Error::other)??;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, file)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    Ok((headers, axum::body::Body::from_stream(pieces)).into_response())
}

async fn write(
    State(_): State<Actions>,
    Opened(volume): Opened,
    query: Query,
    body: axum::body::Body,
) -> Result<Response, Refusal> {
    let (path, owner) = (path(&query)?, owner(&query)?);
    let force = query.parsed("force")?.unwrap_or(false);
    let mut incoming = beside(move || volume.write(&path, owner, force)).await?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Problem::invalid("the body did not arrive in full"))?;
        incoming = beside(move || {
            incoming.add(&piece)?;
            Ok(incoming)
        })
        .await?;
    }
    let made = beside(move || incoming.finish()).await?;
    Ok((StatusCode::CREATED, Json(shown(&made))).into_response())
}
