//! Watching directories of a sandbox.
//!
//! ```text
//!   the guest's events ──► Watch: what happened, in the terms of a caller
//!                            ├─► a stream, while somebody listens
//!                            └─► a watcher: kept until somebody asks
//! ```
//!
//! A file that is uploaded is built under another name and moved to its place.
//! That is ours to know: whoever watches sees that the file was written.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::User;
use belljar_node::{Changes, Entry, EntryKind, WatchEvent, WatchKind};
use tokio::sync::{mpsc, oneshot};

use crate::files::{METADATA, kind, problem};
use crate::problem::{Kind, Problem};
use crate::sandbox::Live;
use crate::secret::Secret;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Created,
    Written,
    Removed,
    /// It went away under this name.
    Renamed,
    Attributes,
}

/// One change below a watched directory.
#[derive(Debug, Clone)]
pub struct Change {
    /// Relative to the directory.
    pub name: String,
    pub kind: ChangeKind,
    /// What is there now, if that was asked for and the file has not gone.
    pub entry: Option<Entry>,
}

/// What to watch.
#[derive(Debug, Clone)]
pub struct WatchWish {
    pub user: User,
    pub path: String,
    pub recursive: bool,
    /// Tell about the file, too.
    pub entries: bool,
}

/// Changes as they happen.
#[derive(Debug)]
pub struct Watch {
    changes: Changes,
    machine: Arc<belljar_node::Sandbox>,
    fresh: Arc<Fresh>,
    wish: WatchWish,
    /// A link to the directory was followed to here.
    root: Vec<u8>,
    /// A file under a temporary name has just gone from there.
    arriving: bool,
    ready: VecDeque<Change>,
}

/// The watchers of one sandbox.
#[derive(Debug, Default)]
pub struct Watchers {
    known: Mutex<HashMap<String, Watcher>>,
    fresh: Arc<Fresh>,
}

/// Asks the task that keeps the changes; the task ends with the last of these.
#[derive(Debug, Clone)]
struct Watcher {
    requests: mpsc::Sender<oneshot::Sender<Vec<Change>>>,
}

/// Files that did not exist before they were last uploaded.
#[derive(Debug, Default)]
struct Fresh(Mutex<HashSet<Vec<u8>>>);

/// The most watchers of one sandbox.
const MOST_WATCHERS: usize = 128;
/// Changes that one watcher keeps; the oldest are forgotten first.
const MOST_CHANGES: usize = 8192;
/// Uploads that are remembered; watchers see them within milliseconds.
const MOST_FRESH: usize = 1024;

/// How names begin that uploads have before they are complete.
const TEMPORARY: &[u8] = b".belljar-";

impl Live {
    /// Watches a directory. What is not a directory is refused.
    pub async fn watch(&self, wish: WatchWish) -> Result<Watch, Problem> {
        let files = self.files(wish.user);
        let path = wish.path.as_str();
        let entry = files.stat(path).await.map_err(|problem| match problem.kind {
            Kind::NotFound => {
                Problem::new(Kind::NotFound, "file_not_found", format!("path {path} not found"))
            }
            _ => problem,
        })?;
        if kind(&entry) != EntryKind::Directory {
            return Err(Problem::invalid(format!("path {path} not a directory")));
        }
        let root = entry.points_to.map_or_else(|| path.as_bytes().to_vec(), |end| end.path);
        let machine = self.machine.clone();
        let changes = files.attempt(|user| machine.watch(user, &root, wish.recursive)).await;
        let changes = changes
            .map_err(|error| problem("watch the directory", "path not found", path, &error))?;
        let fresh = self.watchers.fresh.clone();
        let ready = VecDeque::new();
        Ok(Watch { changes, machine, fresh, wish, root, arriving: false, ready })
    }

    /// Watches a directory and keeps what happens until somebody asks.
    pub async fn create_watcher(&self, wish: WatchWish) -> Result<String, Problem> {
        let watch = self.watch(wish).await?;
        let id = Secret::random().map_err(|error| Problem::internal("generate an id", &error))?;
        let id = format!("w{}", &id.expose()[..20]);
        let mut known = self.watchers.lock();
        if known.len() >= MOST_WATCHERS {
            let message = format!("a sandbox can have at most {MOST_WATCHERS} watchers");
            return Err(Problem::new(Kind::TooMany, "too_many_watchers", message)
                .hint("remove watchers that are no longer needed"));
        }
        let (requests, inbox) = mpsc::channel(1);
        tokio::spawn(keep(watch, inbox));
        known.insert(id.clone(), Watcher { requests });
        Ok(id)
    }
}

/// Keeps changes until they are asked for, the sandbox ends, or the watcher is
/// removed.
async fn keep(mut watch: Watch, mut inbox: mpsc::Receiver<oneshot::Sender<Vec<Change>>>) {
    let mut kept = VecDeque::new();
    loop {
        let asked = tokio::select! {
            asked = inbox.recv() => match asked {
                Some(answer) => Some(answer),
                None => return,
            },
            event = watch.changes.next() => match event {
                Ok(event) => {
                    watch.take(event).await;
                    None
                }
                Err(_) => return,
            },
        };
        if asked.is_some() {
            watch.catch_up().await;
        }
        kept.append(&mut watch.ready);
        kept.drain(..kept.len().saturating_sub(MOST_CHANGES));
        if let Some(answer) = asked {
            let _ = answer.send(kept.drain(..).collect());
        }
    }
}

impl Watchers {
    /// What happened since somebody last asked, up to now.
    pub async fn take(&self, id: &str) -> Result<Vec<Change>, Problem> {
        let watcher = self.lock().get(id).cloned().ok_or_else(|| unknown(id))?;
        let (answer, answered) = oneshot::channel();
        watcher.requests.send(answer).await.map_err(|_| Problem::gone())?;
        answered.await.map_err(|_| Problem::gone())
    }

    pub fn remove(&self, id: &str) -> Result<(), Problem> {
        self.lock().remove(id).map(drop).ok_or_else(|| unknown(id))
    }

    pub(crate) fn about_to_write(&self, path: &[u8], new: bool) {
        let mut fresh = self.fresh.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !new {
            fresh.remove(path);
            return;
        }
        if fresh.len() >= MOST_FRESH {
            fresh.clear();
        }
        fresh.insert(path.to_vec());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watcher>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(id: &str) -> Problem {
    let message = format!("watcher with id {id} not found");
    Problem::new(Kind::NotFound, "watcher_not_found", message)
}

impl Fresh {
    fn contains(&self, path: &[u8]) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}

impl Watch {
    /// The next change; an error when there will be none any more.
    pub async fn next(&mut self) -> Result<Change, Problem> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Ok(change);
            }
            let event = self.changes.next().await;
            let event = event.map_err(|error| {
                problem("watch the directory", "path not found", &self.wish.path, &error)
            })?;
            self.take(event).await;
        }
    }

    /// Takes in everything that has happened by now.
    ///
    /// The guest answers questions before it looks at what changed, so the
    /// answer to the second one comes after all that the first one found.
    async fn catch_up(&mut self) {
        for _ in 0..2 {
            let _ = self.machine.stat(self.wish.user, &self.root).await;
        }
        loop {
            let event = tokio::select! {
                biased;
                event = tokio::task::unconstrained(self.changes.next()) => event,
                () = std::future::ready(()) => return,
            };
            match event {
                Ok(event) => self.take(event).await,
                Err(_) => return,
            }
        }
    }

    async fn take(&mut self, event: WatchEvent) {
        let WatchEvent { kind, path } = event;
        let base = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if base.starts_with(TEMPORARY) {
            self.arriving |= kind == WatchKind::Renamed;
            return;
        }
        let Some(name) = below(&self.root, &path) else { return };
        let arrived = std::mem::take(&mut self.arriving) && kind == WatchKind::Renamed;
        let kinds: &[ChangeKind] = match kind {
            WatchKind::Created => &[ChangeKind::Created],
            WatchKind::Written => &[ChangeKind::Written],
            WatchKind::Removed => &[ChangeKind::Removed],
            WatchKind::Attributes => &[ChangeKind::Attributes],
            WatchKind::Renamed if arrived && self.fresh.contains(&path) => {
                &[ChangeKind::Created, ChangeKind::Attributes, ChangeKind::Written]
            }
            WatchKind::Renamed if arrived => &[ChangeKind::Written],
            // A name that is there now is where something was moved to.
            WatchKind::Renamed if self.machine.stat(self.wish.user, &path).await.is_ok() => {
                &[ChangeKind::Created]
            }
            WatchKind::Renamed => &[ChangeKind::Renamed],
            WatchKind::Overflow => return,
        };
        let gone = matches!(kinds, [ChangeKind::Removed | ChangeKind::Renamed]);
        let entry = if self.wish.entries && !gone { self.entry(&path).await } else { None };
        for &kind in kinds {
            self.ready.push_back(Change { name: name.clone(), kind, entry: entry.clone() });
        }
    }

    /// What is there, under the name that the caller knows the directory by.
    async fn entry(&self, path: &[u8]) -> Option<Entry> {
        let wanted = Some(METADATA.as_bytes());
        let mut entry = self.machine.stat_with(self.wish.user, path, wanted).await.ok()?;
        let name = below(&self.root, path)?;
        entry.path = format!("{}/{name}", self.wish.path.trim_end_matches('/')).into_bytes();
        Some(entry)
    }
}

/// The path from a directory to what is in it.
fn below(root: &[u8], path: &[u8]) -> Option<String> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let rest = path.strip_prefix(root)?;
    match rest {
        [] => Some(".".to_owned()),
        [b'/', name @ ..] => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_watched_directory() {
        assert_eq!(below(b"/a", b"/a/b/c").as_deref(), Some("b/c"));
        assert_eq!(below(b"/", b"/b").as_deref(), Some("b"));
        assert_eq!(below(b"/a", b"/a").as_deref(), Some("."));
        assert_eq!(below(b"/a", b"/ab"), None);
    }
}
