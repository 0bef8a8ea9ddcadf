//! Room for snapshots, promised before they are taken.
//!
//! A capture takes memory of the host that no sandbox is charged for. Before its first byte is
//! copied it is promised as much as the sandbox can hold; captures that do not fit beside others
//! wait until those are done. Where what is kept already leaves less, a capture gets what is left
//! and is refused when it needs more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Snapshots, Taken, too_many};
use crate::keys::Tenant;
use crate::problem::{Kind, Problem};

/// A capture that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// The most that it can take.
    pub(crate) bytes: u64,
    /// Whether that is memory of the host, at least until it is on disk.
    pub(crate) in_memory: bool,
    /// Whose snapshots it counts among, and the most bytes that those may have.
    pub(crate) quota: Option<(Tenant, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Tenant,
    Node,
}

/// What was promised to captures that are under way.
#[derive(Debug)]
pub(crate) struct Promises {
    /// Bytes of memory that snapshots of all tenants may take.
    most_memory: u64,
    open: Mutex<Vec<Arc<Wanted>>>,
    freed: Notify,
}

/// Room for one capture, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    promises: &'a Promises,
    promised: Arc<Wanted>,
    /// What left it less than it wanted.
    cut: Option<Bound>,
}

/// Bytes that are kept already: of a tenant, and in memory.
#[derive(Debug, Clone, Copy)]
struct Kept {
    tenant: u64,
    memory: u64,
}

impl Promises {
    pub(super) fn new(most_memory: u64) -> Self {
        Self { most_memory, open: Mutex::default(), freed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Wanted>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Promises room now; `None` if what is promised to others must be free first.
    fn promise(&self, wanted: &Wanted, kept: Kept) -> Result<Option<Room<'_>>, Problem> {
        let mut open = self.lock();
        let sum = |counts: &dyn Fn(&Wanted) -> bool| {
            open.iter().filter(|other| counts(other)).map(|other| other.bytes).sum::<u64>()
        };
        let tenant = wanted.quota.as_ref().map(|(tenant, most)| {
            let is_its = |other: &Wanted| other.quota.as_ref().is_some_and(|(it, _)| it == tenant);
            (Bound::Tenant, most.saturating_sub(kept.tenant), sum(&is_its))
        });
        let node = wanted.in_memory.then(|| {
            let left = self.most_memory.saturating_sub(kept.memory);
            (Bound::Node, left, sum(&|other| other.in_memory))
        });
        let (mut bytes, mut cut) = (wanted.bytes, None);
        for (bound, left, promised) in tenant.into_iter().chain(node) {
            if left == 0 {
                return Err(self.refusal(bound, wanted));
            }
            if bytes.saturating_add(promised) > left && promised > 0 {
                return Ok(None);
            }
            if bytes > left {
                (bytes, cut) = (left, Some(bound));
            }
        }
        let promised = Arc::new(Wanted { bytes, ..wanted.clone() });
        open.push(promised.clone());
        Ok(Some(Room { promises: self, promised, cut }))
    }

    fn refusal(&self, bound: Bound, wanted: &Wanted) -> Problem {
        match (bound, &wanted.quota) {
            (Bound::Tenant, Some((_, most))) => too_many(&format!("{most} bytes of checkpoints")),
            _ => {
                let message = format!(
                    "checkpoints use all {} bytes of host memory that they may use",
                    self.most_memory
                );
                Problem::new(Kind::Busy, "snapshot_memory_full", message)
                    .hint("keep files only, delete checkpoints, or retry later")
            }
        }
    }
}

impl Room<'_> {
    /// The most that the capture may take.
    pub(crate) fn bytes(&self) -> u64 {
        self.promised.bytes
    }

    /// Why a capture that needs more than this is refused, if it could have had more.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        self.cut.map(|bound| self.promises.refusal(bound, &self.promised))
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.promises.lock().retain(|other| !Arc::ptr_eq(other, &self.promised));
        self.promises.freed.notify_waiters();
    }
}

impl Snapshots {
    /// Promises room for a capture, when there is some.
    pub(crate) async fn room(&self, wanted: &Wanted) -> Result<Room<'_>, Problem> {
        loop {
            let mut freed = std::pin::pin!(self.promises.freed.notified());
            // What is freed from now on is heard of.
            freed.as_mut().enable();
            if let Some(room) = self.promises.promise(wanted, self.kept(wanted))? {
                return Ok(room);
            }
            freed.await;
        }
    }

    fn kept(&self, wanted: &Wanted) -> Kept {
        let tenant = wanted.quota.as_ref().map_or(0, |(tenant, _)| self.bytes(tenant));
        let known = self.lock();
        let held = known.values().filter(|other| matches!(other.taken, Taken::Held(_)));
        Kept { tenant, memory: held.map(|snapshot| snapshot.taken.bytes()).sum() }
    }
}

/// Half of the host's memory: the rest is for sandboxes that run.
pub(super) fn default_memory() -> u64 {
    crate::host::memory_bytes().map_or(u64::MAX, |bytes| bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Kept = Kept { tenant: 0, memory: 0 };

    fn wanted(tenant: &str, bytes: u64) -> Wanted {
        Wanted { bytes, in_memory: true, quota: Some((Tenant::new(tenant), 1000)) }
    }

    #[test]
    fn captures_at_once_are_never_promised_more_than_the_quota() {
        let promises = Promises::new(u64::MAX);
        let first = promises.promise(&wanted("a", 600), NOTHING).unwrap().unwrap();
        assert!(promises.promise(&wanted("a", 600), NOTHING).unwrap().is_none());
        // Another tenant has a quota of its own.
        let other = promises.promise(&wanted("b", 600), NOTHING).unwrap();
        assert!(other.is_some());
        drop(first);
        assert!(promises.promise(&wanted("a", 600), NOTHING).unwrap().is_some());
    }

    #[test]
    fn captures_of_all_tenants_are_never_promised_more_than_the_node_has() {
        let promises = Promises::new(1000);
        let first = promises.promise(&wanted("a", 600), NOTHING).unwrap().unwrap();
        assert!(promises.promise(&wanted("b", 600), NOTHING).unwrap().is_none());
        // What goes to disk takes no memory.
        let on_disk = Wanted { in_memory: false, ..wanted("b", 600) };
        assert!(promises.promise(&on_disk, NOTHING).unwrap().is_some());
        drop(first);
        let kept = Kept { tenant: 0, memory: 1000 };
        let refused = promises.promise(&wanted("b", 600), kept).unwrap_err();
        assert_eq!(refused.code, "snapshot_memory_full");
    }

    #[test]
    fn what_is_kept_leaves_the_rest_and_then_nothing() {
        let promises = Promises::new(u64::MAX);
        let kept = Kept { tenant: 900, memory: 900 };
        let room = promises.promise(&wanted("a", 600), kept).unwrap().unwrap();
        assert_eq!(room.bytes(), 100);
        assert_eq!(room.refusal().unwrap().code, "too_many_snapshots");
        drop(room);
        let kept = Kept { tenant: 1000, memory: 1000 };
        let refused = promises.promise(&wanted("a", 600), kept).unwrap_err();
        assert_eq!(refused.code, "too_many_snapshots");
    }

    #[tokio::test]
    async fn a_capture_waits_until_another_is_done() {
        let state = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::open(state.path(), Some(1000)).unwrap();
        let first = snapshots.room(&wanted("a", 600)).await.unwrap();
        let wanted = wanted("b", 600);
        let second = snapshots.room(&wanted);
        let free = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(second, free);
        assert_eq!(second.unwrap().bytes(), 600);
        assert!(snapshots.promises.lock().is_empty());
    }
}
