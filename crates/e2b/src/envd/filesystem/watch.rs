//! Watching directories: as a stream, or kept until asked for.

use std::pin::Pin;

use axum::body::Body;
use axum::response::Response;
use belljar_sandboxes::{Change, ChangeKind, Problem, WatchWish};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::entry::entry;
use crate::envd::Visit;
use crate::envd::connect::{self, Error, Messages, until};
use crate::json;

/// Changes that wait for the one who follows them.
const WAITING: usize = 256;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchRequest {
    path: String,
    recursive: bool,
    #[serde(rename = "includeEntry", alias = "include_entry")]
    include_entry: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatcherRequest {
    #[serde(rename = "watcherId", alias = "watcher_id")]
    watcher_id: String,
}

/// Network mounts need no asking: no sandbox has any.
fn wish(visit: &Visit, request: WatchRequest) -> Result<WatchWish, Error> {
    let user = visit.user()?;
    let path = visit.live.files(user).resolve(&request.path)?;
    let WatchRequest { recursive, include_entry: entries, .. } = request;
    Ok(WatchWish { user, path, recursive, entries })
}

pub(super) async fn create(visit: &Visit, body: Body) -> Result<Value, Error> {
    let wish = wish(visit, connect::unary(body).await?)?;
    let id = visit.live.create_watcher(wish).await?;
    Ok(json!({ "watcherId": id }))
}

pub(super) async fn take(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: WatcherRequest = connect::unary(body).await?;
    let changes = visit.live.watchers.take(&request.watcher_id).await?;
    Ok(json!({ "events": changes.iter().map(event).collect::<Vec<_>>() }))
}

pub(super) async fn remove(visit: &Visit, body: Body) -> Result<Value, Error> {
    let request: WatcherRequest = connect::unary(body).await?;
    visit.live.watchers.remove(&request.watcher_id)?;
    Ok(json!({}))
}

pub(super) async fn stream(visit: &Visit, body: Body) -> Response {
    match Events::open(visit, body).await {
        Ok(events) => connect::streamed(stream::unfold(events, |mut events| async {
            let event = events.next().await?;
            Some((event, events))
        })),
        Err(error) => connect::streamed_once(Err(error)),
    }
}

/// Changes on their way to one follower.
struct Events {
    changes: mpsc::Receiver<Result<Change, Problem>>,
    task: JoinHandle<()>,
    started: bool,
    deadline: Option<Instant>,
    silence: std::time::Duration,
    interrupted: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Events {
    async fn open(visit: &Visit, body: Body) -> Result<Self, Error> {
        let wish = wish(visit, Messages::new(body).only().await?)?;
        let deadline = visit.timeout()?.map(|timeout| Instant::now() + timeout);
        let mut watch = visit.live.watch(wish).await?;
        let (sender, changes) = mpsc::channel(WAITING);
        let task = tokio::spawn(async move {
            loop {
                let change = watch.next().await;
                let over = change.is_err();
                if sender.send(change).await.is_err() || over {
                    return;
                }
            }
        });
        Ok(Self {
            changes,
            task,
            started: false,
            deadline,
            silence: visit.keepalive(),
            interrupted: Box::pin(visit.sandbox.interrupted()),
        })
    }

    async fn next(&mut self) -> Option<Result<Value, Error>> {
        if !std::mem::replace(&mut self.started, true) {
            return Some(Ok(json!({ "start": {} })));
        }
        tokio::select! {
            biased;
            () = until(self.deadline) => Some(Err(Error::too_late())),
            change = self.changes.recv() => match change? {
                Ok(change) => Some(Ok(json!({ "filesystem": event(&change) }))),
                Err(problem) => Some(Err(problem.into())),
            },
            () = &mut self.interrupted => Some(Err(Error::gone())),
            () = tokio::time::sleep(self.silence) => Some(Ok(json!({ "keepalive": {} }))),
        }
    }
}

fn event(change: &Change) -> Value {
    let kind = match change.kind {
        ChangeKind::Created => "EVENT_TYPE_CREATE",
        ChangeKind::Written => "EVENT_TYPE_WRITE",
        ChangeKind::Removed => "EVENT_TYPE_REMOVE",
        ChangeKind::Renamed => "EVENT_TYPE_RENAME",
        ChangeKind::Attributes => "EVENT_TYPE_CHMOD",
    };
    let mut value = json!({ "name": change.name, "type": kind });
    if let Some(found) = &change.entry {
        json::set(&mut value, "entry", entry(found));
    }
    value
}
