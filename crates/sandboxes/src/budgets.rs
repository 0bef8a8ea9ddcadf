//! Budgets of operations that outlive the gateway, where a server is alone, and counters of them.
//!
//! The books are one file. A slice is written and synced before it is handed out, so one write
//! covers all requests that the slice pays for. Processes that share the file take turns.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use belljar_domain::budget::{
    AskSlice, BudgetAmount, BudgetAnswer, BudgetKey, BudgetRequest, ReturnSlices, Slice,
};
use belljar_node::{BudgetLessor, LeaseFuture};
use belljar_telemetry::metrics;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::private;

/// A slice that is older is not expected back: its gateway died.
const HELD_MILLIS: u64 = 600_000;

/// The books of budgets in a file.
#[derive(Debug, Clone)]
pub struct BudgetFile {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Books {
    last_id: i64,
    budgets: Vec<Budget>,
    /// A window began anew, and that is not written yet.
    #[serde(skip)]
    is_moved: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Budget {
    key: BudgetKey,
    /// Milliseconds since 1970. Windows are aligned on the clock of the host.
    window_start: u64,
    /// Handed out in this window and not given back.
    leased: BudgetAmount,
    slices: Vec<HeldSlice>,
}

/// A slice that was not given back.
#[derive(Debug, Serialize, Deserialize)]
struct HeldSlice {
    id: i64,
    gateway: String,
    amount: BudgetAmount,
    /// Milliseconds since 1970.
    leased_at: u64,
}

impl BudgetFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The books among the files of a gateway.
    pub fn of_gateway(data: &Path) -> Self {
        Self::new(data.join("budgets.json"))
    }

    fn change(&self, request: &BudgetRequest) -> io::Result<BudgetAnswer> {
        let _turn = self.lock()?;
        let mut books = self.read()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let answer = match request {
            BudgetRequest::Lease(asked) => books.lease(asked, now),
            BudgetRequest::Return(slices) => books.take_back(slices),
        };
        // A window that the clock was ahead for must not come back with the next request.
        if books.is_moved || !matches!(answer, BudgetAnswer::Exhausted { .. }) {
            private::write(&self.path, &books)?;
        }
        Ok(answer)
    }

    /// One process at a time, and one request of each.
    fn lock(&self) -> io::Result<File> {
        let path = self.path.with_extension("lock");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    /// Books that cannot be read are an error: as if they were empty, everything could be spent
    /// again.
    fn read(&self) -> io::Result<Books> {
        match std::fs::read(&self.path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Books::default()),
            Err(error) => Err(error),
        }
    }
}

impl BudgetLessor for BudgetFile {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_> {
        let this = self.clone();
        Box::pin(async move {
            let path = this.path.clone();
            let changed = tokio::task::spawn_blocking(move || this.change(&request)).await;
            let changed = changed.map_err(io::Error::other).and_then(|changed| changed);
            changed.unwrap_or_else(|error| BudgetAnswer::Away {
                why: format!("cannot use `{}`: {error}", path.display()),
            })
        })
    }

    fn forfeited(&self, _slices: usize) {}
}

impl Books {
    fn lease(&mut self, asked: &AskSlice, now: u64) -> BudgetAnswer {
        let every = asked.key.every_seconds.saturating_mul(1000);
        let start = now.checked_div(every).map_or(0, |windows| windows * every);
        // Others that are over need no place.
        self.budgets.retain(|budget| budget.key == asked.key || !budget.is_over(now));
        let id = self.last_id + 1;
        let mut is_moved = false;
        let budget = self.budget(&asked.key, start);
        if budget.window_start > start.saturating_add(every) {
            // The clock was ahead once. The window of now begins, with all that is leased.
            budget.window_start = start;
            is_moved = true;
            let BudgetKey { operation, tenant, every_seconds } = &asked.key;
            tracing::warn!(
                operation,
                tenant,
                every_seconds,
                "budget window was ahead of the clock"
            );
        } else if budget.window_start < start {
            budget.window_start = start;
            budget.leased = BudgetAmount::default();
            budget.slices.clear();
        }
        let Some(amount) = asked.limit.slice(budget.leased, asked.at_least) else {
            let is_held = budget.slices.iter().any(|slice| {
                let age = now.saturating_sub(slice.leased_at);
                slice.gateway != asked.gateway && age < HELD_MILLIS
            });
            self.is_moved = is_moved;
            return BudgetAnswer::Exhausted { is_held };
        };
        budget.leased = budget.leased.plus(amount);
        let gateway = asked.gateway.clone();
        budget.slices.push(HeldSlice { id, gateway, amount, leased_at: now });
        let ends = budget.window_start.saturating_add(every);
        self.last_id = id;
        let ends_in_ms = (every > 0).then(|| ends.saturating_sub(now));
        BudgetAnswer::Granted(Slice { id, amount, ends_in_ms })
    }

    fn take_back(&mut self, returned: &ReturnSlices) -> BudgetAnswer {
        let ReturnSlices { gateway, key, slices } = returned;
        let mut accepted = 0;
        if let Some(budget) = self.budgets.iter_mut().find(|budget| budget.key == *key) {
            for back in slices {
                let is_it = |held: &HeldSlice| held.id == back.id && held.gateway == *gateway;
                let Some(index) = budget.slices.iter().position(is_it) else { continue };
                let held = budget.slices.swap_remove(index);
                budget.leased = budget.leased.minus(back.unused.min(held.amount));
                accepted += 1;
            }
        }
        BudgetAnswer::Returned { accepted }
    }

    fn budget(&mut self, key: &BudgetKey, window_start: u64) -> &mut Budget {
        let index = self.budgets.iter().position(|budget| budget.key == *key);
        let index = index.unwrap_or_else(|| {
            self.budgets.push(Budget {
                key: key.clone(),
                window_start,
                leased: BudgetAmount::default(),
                slices: Vec::new(),
            });
            self.budgets.len() - 1
        });
        &mut self.budgets[index]
    }
}

impl Budget {
    fn is_over(&self, now: u64) -> bool {
        let every = self.key.every_seconds.saturating_mul(1000);
        every > 0 && now >= self.window_start.saturating_add(every)
    }
}

/// Counts what the books answer.
#[derive(Debug)]
struct Counted(Arc<dyn BudgetLessor>);

/// Has the answers of these books counted in the metrics of this process.
pub fn counted_budgets(lessor: Arc<dyn BudgetLessor>) -> Arc<dyn BudgetLessor> {
    Arc::new(Counted(lessor))
}

impl BudgetLessor for Counted {
    fn answer(&self, request: BudgetRequest) -> LeaseFuture<'_> {
        Box::pin(async move {
            let answer = self.0.answer(request).await;
            match &answer {
                BudgetAnswer::Granted(_) => metrics().budget_lease("granted"),
                BudgetAnswer::Exhausted { .. } => metrics().budget_lease("exhausted"),
                BudgetAnswer::Returned { .. } => metrics().budget_lease("returned"),
                BudgetAnswer::Away { why } => {
                    metrics().budget_lease("away");
                    tracing::warn!(why, "budgets cannot be reached");
                }
            }
            answer
        })
    }

    fn forfeited(&self, slices: usize) {
        self.0.forfeited(slices);
        metrics().budget_slices_forfeited(slices as u64);
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::budget::{BudgetLimit, UnusedSlice};

    use super::*;

    const DAY: u64 = 86_400_000;

    fn dollars(nano_dollars: u64) -> BudgetAmount {
        BudgetAmount { nano_dollars, ..BudgetAmount::default() }
    }

    fn asked(gateway: &str, at_least: u64) -> AskSlice {
        AskSlice {
            gateway: gateway.to_owned(),
            key: BudgetKey { operation: "llm".to_owned(), tenant: None, every_seconds: 86_400 },
            limit: BudgetLimit { nano_dollars: Some(1000), ..BudgetLimit::default() },
            at_least: dollars(at_least),
        }
    }

    fn granted(answer: &BudgetAnswer) -> Slice {
        match answer {
            BudgetAnswer::Granted(slice) => *slice,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_slice_is_given_back_once_by_its_gateway_and_in_its_window() {
        let mut books = Books::default();
        let slice = granted(&books.lease(&asked("a", 900), DAY + 1));
        assert_eq!(slice.ends_in_ms, Some(DAY - 1));
        let exhausted = BudgetAnswer::Exhausted { is_held: true };
        assert_eq!(books.lease(&asked("b", 200), DAY + 2), exhausted);
        let back = |gateway: &str| ReturnSlices {
            gateway: gateway.to_owned(),
            key: asked("a", 0).key,
            // More than was handed out.
            slices: vec![UnusedSlice { id: slice.id, unused: dollars(5000) }],
        };
        let returned = |accepted| BudgetAnswer::Returned { accepted };
        assert_eq!(books.take_back(&back("b")), returned(0));
        assert_eq!(books.take_back(&back("a")), returned(1));
        assert_eq!(books.take_back(&back("a")), returned(0));
        assert_eq!(books.budgets[0].leased, dollars(0));
        granted(&books.lease(&asked("b", 1000), DAY + 3));
        // A gateway that crashed forfeits its slice until the window ends.
        assert_eq!(books.lease(&asked("c", 1), DAY + 4), exhausted);
        granted(&books.lease(&asked("c", 1000), 2 * DAY));
        // A clock that goes back opens no earlier window.
        assert_eq!(books.lease(&asked("d", 1), DAY + 5), exhausted);
    }

    /// Else the budget would be used up until the time that the clock once showed.
    #[test]
    fn a_clock_that_was_ahead_locks_no_budget_and_frees_nothing() {
        let mut books = Books::default();
        granted(&books.lease(&asked("a", 600), 1000 * DAY));
        let slice = granted(&books.lease(&asked("a", 300), 2 * DAY + 1));
        assert_eq!(slice.ends_in_ms, Some(DAY - 1));
        let exhausted = BudgetAnswer::Exhausted { is_held: true };
        assert_eq!(books.lease(&asked("b", 200), 2 * DAY + 2), exhausted);
        granted(&books.lease(&asked("b", 1000), 3 * DAY));
    }

    #[tokio::test]
    async fn a_used_up_window_that_was_ahead_ends_with_the_window_of_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = BudgetFile::of_gateway(folder.path());
        let hour = 3_600_000;
        let mut lease = asked("a", 900);
        lease.key.every_seconds = 3600;
        let mut books = Books::default();
        // A year from now, for this test's clock.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = u64::try_from(now.as_millis()).unwrap();
        granted(&books.lease(&lease, now + 365 * DAY));
        private::write(&file.path, &books).unwrap();
        let answer = file.answer(BudgetRequest::Lease(lease)).await;
        assert!(matches!(answer, BudgetAnswer::Exhausted { .. }), "{answer:?}");
        let start = file.read().unwrap().budgets[0].window_start;
        assert!(start <= now + hour, "the window stayed where it was");
    }

    #[tokio::test]
    async fn books_outlive_the_process_and_broken_ones_let_nothing_through() {
        let folder = tempfile::tempdir().unwrap();
        let file = BudgetFile::of_gateway(folder.path());
        let lease = |least| BudgetRequest::Lease(asked("a", least));
        granted(&file.answer(lease(900)).await);
        let again = BudgetFile::of_gateway(folder.path());
        let answer = again.answer(lease(200)).await;
        assert_eq!(answer, BudgetAnswer::Exhausted { is_held: false });
        std::fs::write(folder.path().join("budgets.json"), "{").unwrap();
        assert!(matches!(again.answer(lease(1)).await, BudgetAnswer::Away { .. }));
    }
}
