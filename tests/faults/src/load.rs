//! Clients at work while something breaks.
//!
//! Each does what a careful program does: it creates under a key and asks again
//! under the same one, at another replica, until it has an answer that is final;
//! it has an effect once and never repeats it; it ends what it made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::client::{Client, reaching};
use crate::evidence::Outcome;

#[derive(Debug)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    made: AtomicU64,
    refused: AtomicU64,
    effects: AtomicU64,
    unknown: AtomicU64,
    ended: AtomicU64,
}

/// What all of them did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Did {
    pub(crate) made: u64,
    pub(crate) refused: u64,
    pub(crate) effects: u64,
    pub(crate) unknown: u64,
    pub(crate) ended: u64,
}

impl std::fmt::Display for Did {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { made, refused, effects, unknown, ended } = self;
        write!(f, "{made} made, {refused} refused, {effects} effects, {unknown} unknown, ")?;
        write!(f, "{ended} ended")
    }
}

/// How long a client asks again before it gives up on a create.
const STUBBORN: Duration = Duration::from_secs(40);

impl Load {
    pub(crate) fn begin(clients: &[Client], oracle: SocketAddr, workers: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let workers = (0..workers).map(|number| {
            let mut clients = clients.to_vec();
            let first = number % clients.len().max(1);
            clients.rotate_left(first);
            let (stop, counts) = (stop.clone(), counts.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    session(&clients, oracle, &counts).await;
                }
            })
        });
        let workers = workers.collect();
        Self { stop, counts, workers }
    }

    pub(crate) fn made(&self) -> u64 {
        self.counts.made.load(Ordering::Relaxed)
    }

    /// Lets every session come to its end.
    pub(crate) async fn end(self) -> anyhow::Result<Did> {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.await?;
        }
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { made, refused, effects, unknown, ended } = &*self.counts;
        Ok(Did {
            made: read(made),
            refused: read(refused),
            effects: read(effects),
            unknown: read(unknown),
            ended: read(ended),
        })
    }
}

fn new_key() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    format!("load-{}", MADE.fetch_add(1, Ordering::Relaxed))
}

async fn session(clients: &[Client], oracle: SocketAddr, counts: &Counts) {
    let add = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
    let key = new_key();
    let Some(id) = create(clients, &key, oracle).await else {
        add(&counts.refused);
        return;
    };
    add(&counts.made);
    for turn in 0..2 {
        match clients[turn % clients.len()].effect(&id, oracle).await {
            Outcome::Done => add(&counts.effects),
            // It may have happened: nobody repeats it.
            _ => add(&counts.unknown),
        };
    }
    let began = Instant::now();
    for turn in 0.. {
        let outcome = clients[turn % clients.len()].delete(&id).await;
        if matches!(outcome, Outcome::Done | Outcome::Refused { status: 404, .. }) {
            add(&counts.ended);
            return;
        }
        if began.elapsed() > STUBBORN {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Asks until the answer is final; none: it is no, or nobody answers.
pub(crate) async fn create(clients: &[Client], key: &str, oracle: SocketAddr) -> Option<String> {
    let began = Instant::now();
    for turn in 0.. {
        let client = &clients[turn % clients.len()];
        let (outcome, _) = client.create_with(Some(key), &reaching(oracle)).await;
        match outcome {
            Outcome::Made(id) => return Some(id),
            Outcome::Refused { status: 409 | 500.., .. } | Outcome::Broken(_) => {}
            _ => return None,
        }
        if began.elapsed() > STUBBORN {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    None
}
