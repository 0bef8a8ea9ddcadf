//! The cache that all sessions share, opened when it is first needed.

use std::path::PathBuf;
use std::time::Duration;

use belljar_packages::cache::{Cache, Found, Key, Limits, Reader, Writer};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::shared::Shared;

/// How long a request waits for another one that fetches the same file.
const PATIENCE: Duration = Duration::from_secs(2);

/// Holds the cache, which only one process can have open.
#[derive(Debug, Default)]
pub(crate) struct Keeper(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: Option<(PathBuf, Cache)>,
    has_warned: bool,
}

/// What becomes of a file.
#[derive(Debug)]
pub(super) enum Kept {
    Here(Reader),
    /// Fetch it, and give it here.
    Wanted(Box<Writer>),
    /// Fetch it without the cache.
    Not,
}

/// Looks for a file, for as long as there is hope.
pub(super) async fn find(shared: &Shared, key: Key) -> Kept {
    let Some(cache) = shared.packages.cache(shared).await else { return Kept::Not };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let cache = cache.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || cache.find(key)).await else {
            return Kept::Not;
        };
        match found {
            Found::Hit(reader) => return Kept::Here(reader),
            Found::Missing(writer) => return Kept::Wanted(writer),
            Found::Busy(waiting) => {
                if tokio::time::timeout_at(deadline, waiting).await.is_err() {
                    return Kept::Not;
                }
            }
            Found::Unavailable(error) => {
                tracing::warn!(%error, "package cache unavailable");
                return Kept::Not;
            }
        }
    }
}

impl Keeper {
    /// The cache, where the settings have it. A place that another process uses
    /// is tried again each time: that one may be about to end.
    async fn cache(&self, shared: &Shared) -> Option<Cache> {
        let folder = shared.live().config.gateway.packages.clone()?;
        let mut state = self.0.lock().await;
        if let Some((path, cache)) = &state.open
            && *path == folder
        {
            return Some(cache.clone());
        }
        let place = folder.clone();
        let opened = tokio::task::spawn_blocking(move || Cache::open(&place, Limits::default()));
        match opened.await.ok()? {
            Ok(cache) => {
                state.open = Some((folder, cache.clone()));
                state.has_warned = false;
                Some(cache)
            }
            Err(error) => {
                if !state.has_warned {
                    tracing::warn!(%error, "fetching packages without the cache");
                }
                state.has_warned = true;
                None
            }
        }
    }
}
