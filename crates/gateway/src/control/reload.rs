//! Takes over settings when their file changes, and addresses of this host when
//! those do.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_egress::own;

use crate::config::Config;
use crate::shared::Gateway;

/// How often the file is looked at. A look is one system call.
const EVERY: Duration = Duration::from_secs(1);

/// How many looks it takes until this host's addresses are looked at as well.
const ADDRESSES: u32 = 30;

/// What tells one state of a file from the next, replaced or written in place.
type Mark = (u64, u64, i64, i64, u64);

fn mark(path: &Path) -> Option<Mark> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
}

/// Watches for as long as the gateway runs. `data` is where things are kept that
/// have no place of their own.
pub(super) async fn watch(gateway: Gateway, path: PathBuf, data: Option<PathBuf>) {
    let mut seen = mark(&path);
    let mut addresses = own::addresses();
    for look in (1..=ADDRESSES).cycle() {
        tokio::time::sleep(EVERY).await;
        let now = mark(&path);
        let mut is_same = now == seen;
        if look == ADDRESSES {
            let now = own::addresses();
            is_same &= now == addresses;
            addresses = now;
        }
        if is_same {
            continue;
        }
        seen = now;
        match Config::read(&path) {
            Err(error) => {
                tracing::error!(
                    path = %path.display(),
                    error = &error as &dyn std::error::Error,
                    "cannot read settings; keeping the old ones"
                );
            }
            Ok(mut config) => {
                if let Some(data) = &data {
                    config.keep_below(data);
                }
                match gateway.reload(config) {
                    Ok(()) => tracing::info!(path = %path.display(), "settings reloaded"),
                    Err(error) => tracing::error!(
                        path = %path.display(),
                        error = &error as &dyn std::error::Error,
                        "cannot use settings; keeping the old ones"
                    ),
                }
            }
        }
    }
}
