//! Threads that serve connections, each with a runtime of its own.
//!
//! Whatever belongs to one request stays on one thread: no task is stolen and none
//! waits for a thread that the kernel has just put aside while another is idle,
//! which is what the slowest requests of a shared runtime have in common.

use std::cell::Cell;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};

/// More would wait for the network all the same.
const MOST: usize = 16;

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Which lane this is; 0 outside of all.
pub(crate) fn here() -> usize {
    HERE.get()
}

/// None of them: everything runs where it is begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes {
    all: Arc<[Lane]>,
}

#[derive(Debug)]
struct Lane {
    runtime: Handle,
    /// What was begun on it and has not ended.
    busy: Arc<AtomicUsize>,
}

impl Lanes {
    /// One for each core. They live as long as the process.
    pub(crate) fn start() -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST);
        let all: io::Result<Vec<_>> = (1..=count).map(Lane::start).collect();
        Ok(Self { all: all?.into() })
    }

    /// Runs `task` on the lane that has the least to do.
    pub(crate) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let least = self.all.iter().min_by_key(|lane| lane.busy.load(Ordering::Relaxed));
        let Some(lane) = least else {
            tokio::spawn(task);
            return;
        };
        let busy = Busy::new(&lane.busy);
        lane.runtime.spawn(async move {
            let _busy = busy;
            task.await;
        });
    }
}

impl Lane {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ready, started) = mpsc::sync_channel(1);
        std::thread::Builder::new().name(format!("lane-{number}")).spawn(move || {
            HERE.set(number);
            let _ = ready.send(());
            runtime.block_on(std::future::pending::<()>());
        })?;
        started.recv().map_err(io::Error::other)?;
        Ok(Self { runtime: handle, busy: Arc::default() })
    }
}

struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn tasks_are_spread_and_stay_where_they_are() {
        let lanes = Lanes { all: [1, 2].map(|nth| Lane::start(nth).unwrap()).into() };
        let (sender, mut seen) = mpsc::unbounded_channel();
        for _ in 0..10 {
            let sender = sender.clone();
            lanes.run(async move {
                let began = here();
                tokio::time::sleep(Duration::from_millis(5)).await;
                let spawned = tokio::spawn(async { here() }).await.unwrap();
                sender.send((began, spawned, here())).unwrap();
            });
        }
        drop(sender);
        let mut count = BTreeMap::new();
        while let Some((began, spawned, ended)) = seen.recv().await {
            assert!(began == spawned && began == ended, "{began} {spawned} {ended}");
            *count.entry(began).or_insert(0) += 1;
        }
        assert_eq!(count, BTreeMap::from([(1, 5), (2, 5)]));
        assert_eq!(here(), 0);
    }

    #[tokio::test]
    async fn without_lanes_tasks_run_here() {
        let (sender, seen) = tokio::sync::oneshot::channel();
        Lanes::default().run(async move { sender.send(here()).unwrap() });
        assert_eq!(seen.await.unwrap(), 0);
    }
}
