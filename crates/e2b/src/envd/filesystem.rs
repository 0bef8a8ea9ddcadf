//! `filesystem.Filesystem`: looking at files, moving and watching them.

mod entry;
mod watch;

use axum::body::Body;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Visit;
use super::connect::{self, Error, number};
use entry::entry;

pub(super) async fn serve(visit: &Visit, method: &str, body: Body) -> Option<Response> {
    let done = match method {
        "Stat" => visit.in_time(stat(visit, body)).await,
        "MakeDir" => visit.in_time(make_dir(visit, body)).await,
        "Move" => visit.in_time(rename(visit, body)).await,
        "ListDir" => visit.in_time(list_dir(visit, body)).await,
        "Remove" => visit.in_time(remove(visit, body)).await,
        "CreateWatcher" => visit.in_time(watch::create(visit, body)).await,
        "GetWatcherEvents" => visit.in_time(watch::take(visit, body)).await,
        "RemoveWatcher" => visit.in_time(watch::remove(visit, body)).await,
        "WatchDir" => return Some(watch::stream(visit, body).await),
        _ => return None,
    };
    Some(connect::answer(done))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathRequest {
    path: String,
    #[serde(deserialize_with = "number")]
    depth: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MoveRequest {
    source: String,
    destination: String,
}

async fn stat(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: PathRequest = connect::unary(body).await?;
    let files = visit.live.files(visit.user()?);
    let found = files.stat(&files.resolve(&request.path)?).await?;
    Ok(json!({ "entry": entry(&found) }))
}

async fn make_dir(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: PathRequest = connect::unary(body).await?;
    let files = visit.live.files(visit.user()?);
    let made = files.make_dir(&files.resolve(&request.path)?).await?;
    Ok(json!({ "entry": entry(&made) }))
}

async fn rename(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: MoveRequest = connect::unary(body).await?;
    let files = visit.live.files(visit.user()?);
    let (from, to) = (files.resolve(&request.source)?, files.resolve(&request.destination)?);
    let moved = files.rename(&from, &to).await?;
    Ok(json!({ "entry": entry(&moved) }))
}

async fn list_dir(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: PathRequest = connect::unary(body).await?;
    let files = visit.live.files(visit.user()?);
    let listed = files.list(&files.resolve(&request.path)?, request.depth.max(1)).await?;
    Ok(json!({ "entries": listed.iter().map(entry).collect::<Vec<_>>() }))
}

async fn remove(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: PathRequest = connect::unary(body).await?;
    let files = visit.live.files(visit.user()?);
    files.remove(&files.resolve(&request.path)?).await?;
    Ok(json!({}))
}
