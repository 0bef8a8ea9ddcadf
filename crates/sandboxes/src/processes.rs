//! Processes of a sandbox that somebody started.
//!
//! ```text
//!   start ──► a call of the engine ──► drain ──► whoever follows it now
//!                                        │        (a slow one slows it down;
//!                                        │         nobody: output is dropped)
//!                                        └─► its end: told, and kept 30 s
//! ```
//!
//! A process does not depend on who started it: followers come and go. It ends
//! by itself, by a signal, at its own time limit, or with its sandbox.

mod drain;
mod ending;
mod process;
mod start;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::problem::{Kind, Problem};

pub use ending::ProcessEnd;
pub use process::{Following, Happened, Process, ProcessInput, Stream};
pub use start::{Leaving, StartProcess};

/// Which process is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    Pid(u32),
    Tag(String),
}

/// The processes of one sandbox.
#[derive(Debug, Default)]
pub struct Processes {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    running: BTreeMap<u32, Arc<Process>>,
    /// Those that are over, for who asks a moment too late.
    over: BTreeMap<u32, Arc<Process>>,
}

/// How long an end is kept.
const KEPT: Duration = Duration::from_secs(30);

impl Processes {
    /// Those that run, by pid.
    pub fn list(&self) -> Vec<Arc<Process>> {
        self.lock().running.values().cloned().collect()
    }

    /// One that runs.
    pub fn find(&self, which: &Selector) -> Result<Arc<Process>, Problem> {
        pick(&self.lock().running, which).ok_or_else(|| unknown(which))
    }

    /// One that runs, or that ended a moment ago.
    pub fn recall(&self, which: &Selector) -> Result<Arc<Process>, Problem> {
        let table = self.lock();
        let found = pick(&table.running, which).or_else(|| pick(&table.over, which));
        found.ok_or_else(|| unknown(which))
    }

    /// Follows one that runs, or that ended a moment ago.
    pub fn follow(&self, which: &Selector) -> Result<Following, Problem> {
        self.recall(which)?.follow()
    }

    fn add(&self, process: &Arc<Process>) {
        let mut table = self.lock();
        // What is kept under a name that is taken again would mislead.
        table.over.remove(&process.pid());
        if let Some(tag) = process.tag() {
            table.over.retain(|_, over| over.tag() != Some(tag));
        }
        table.running.insert(process.pid(), process.clone());
    }

    /// Moves a process to those that are over, and forgets it after a while.
    fn retire(table: &Arc<Mutex<Table>>, process: &Arc<Process>) {
        let mut now = lock(table);
        let pid = process.pid();
        let same = |known: Option<&Arc<Process>>| known.is_some_and(|it| Arc::ptr_eq(it, process));
        if !same(now.running.get(&pid)) {
            return;
        }
        now.running.remove(&pid);
        now.over.insert(pid, process.clone());
        drop(now);
        let (table, process) = (Arc::downgrade(table), Arc::downgrade(process));
        tokio::spawn(async move {
            tokio::time::sleep(KEPT).await;
            let (Some(table), Some(process)) = (table.upgrade(), process.upgrade()) else { return };
            let mut table = lock(&table);
            if table.over.get(&pid).is_some_and(|known| Arc::ptr_eq(known, &process)) {
                table.over.remove(&pid);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pick(from: &BTreeMap<u32, Arc<Process>>, which: &Selector) -> Option<Arc<Process>> {
    match which {
        Selector::Pid(pid) => from.get(pid).cloned(),
        Selector::Tag(tag) => from.values().find(|it| it.tag() == Some(tag)).cloned(),
    }
}

fn unknown(which: &Selector) -> Problem {
    let message = match which {
        Selector::Pid(pid) => format!("process with pid {pid} not found"),
        Selector::Tag(tag) => format!("process with tag {tag} not found"),
    };
    Problem::new(Kind::NotFound, "process_not_found", message)
}
