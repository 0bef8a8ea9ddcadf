//! Sandboxes that are made before anyone asks: namespaces, cgroups, layers, a
//! guest, and an interpreter that waits. What a request brings (limits,
//! environment, files) is applied when one is claimed.
//!
//! How many wait follows demand: as many as were claimed lately in the time that
//! it takes to make them, within bounds. Whoever claims more than his equal part
//! leaves some for the others, and has his own made when he asks. The filler makes
//! one at a time, no faster than its rate, and none while the machine's cores have
//! work to do.

mod demand;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use belljar_domain::Spec;
use tokio::sync::Notify;

use crate::node::{Maker, NodeError};
use crate::sandbox::Sandbox;
use crate::warm::Family;
use demand::Demand;

pub use demand::Claimant;

/// How large a pool may be, and how fast it is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Kept even when nobody asks.
    pub least: usize,
    pub most: usize,
    /// Sandboxes made in a second at most.
    pub rate: u32,
}

impl Default for PoolSize {
    fn default() -> Self {
        Self { least: 2, most: 32, rate: 50 }
    }
}

/// What a pool has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolFigures {
    pub waiting: usize,
    pub wanted: usize,
    /// Requests that found a sandbox waiting, and those that did not.
    pub hits: u64,
    pub misses: u64,
    pub made: u64,
}

/// Sandboxes of one template that wait for a claim.
#[derive(Debug)]
pub(crate) struct Pool {
    size: PoolSize,
    spec: Spec,
    /// Without cgroups, resource limits of the interpreter bound its memory.
    can_raise_memory: bool,
    waiting: Mutex<VecDeque<Sandbox>>,
    demand: Mutex<Demand>,
    hits: AtomicU64,
    misses: AtomicU64,
    made: AtomicU64,
    wake: Notify,
}

impl Pool {
    /// Makes an empty pool and the task that fills it, which ends with it.
    pub(crate) fn start(
        size: PoolSize,
        spec: Spec,
        family: &Arc<Family>,
        maker: Maker,
        busy: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            size,
            spec,
            can_raise_memory: maker.engine().has_groups(),
            waiting: Mutex::default(),
            demand: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            made: AtomicU64::new(0),
            wake: Notify::new(),
        });
        let filler = Filler {
            pool: Arc::downgrade(&pool),
            family: family.clone(),
            maker,
            busy,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        };
        tokio::spawn(filler.run());
        pool
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Sandbox>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A waiting sandbox, if one can be made what `spec` asks for.
    pub(crate) fn claim(&self, spec: &Spec, whose: Claimant) -> Option<Sandbox> {
        let left = {
            let mut demand = self.demand();
            demand.note(Instant::now(), whose);
            // Never all of it: a pool that nobody may take from is none.
            demand.left_for_others(whose).min(self.size.most / 2)
        };
        self.wake.notify_one();
        let claimed = if self.fits(spec) {
            let mut waiting = self.lock();
            if waiting.len() > left { waiting.pop_front() } else { None }
        } else {
            None
        };
        let count = if claimed.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        claimed
    }

    /// Whether what waits can become what is asked for. The interpreter has its
    /// own limits already, and those only ever go down, as do the rights of root.
    fn fits(&self, spec: &Spec) -> bool {
        let (asked, given) = (&spec.limits, &self.spec.limits);
        spec.disk == self.spec.disk
            // What it is shown is mounted while it is made.
            && spec.data == self.spec.data
            && spec.profile <= self.spec.profile
            && asked.disk_bytes <= given.disk_bytes
            && asked.open_files <= given.open_files
            && asked.pids <= given.pids
            && (self.can_raise_memory || asked.memory_bytes <= given.memory_bytes)
    }

    fn demand(&self) -> std::sync::MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many as are claimed in a second.
    fn wanted(&self) -> usize {
        let demand = self.demand().in_a_second(Instant::now());
        demand.clamp(self.size.least, self.size.most)
    }

    pub(crate) fn figures(&self) -> PoolFigures {
        PoolFigures {
            waiting: self.lock().len(),
            wanted: self.wanted(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            made: self.made.load(Ordering::Relaxed),
        }
    }

    /// Lets go of everything that waits, which ends it.
    pub(crate) fn clear(&self) {
        let waiting = std::mem::take(&mut *self.lock());
        drop(waiting);
    }
}

struct Filler {
    pool: Weak<Pool>,
    family: Arc<Family>,
    maker: Maker,
    busy: Arc<AtomicUsize>,
    cores: usize,
}

/// How long a pool waits for a core before it takes one.
const STARVED: Duration = Duration::from_secs(1);

/// How long a pool is left alone after a claim.
const AFTER_CLAIM: Duration = Duration::from_millis(15);
/// How often demand is looked at when nobody asks.
const IDLE: Duration = Duration::from_millis(250);

impl Filler {
    async fn run(self) {
        let mut generation = self.family.generation();
        let mut lacking: Option<Instant> = None;
        loop {
            let Some(pool) = self.pool.upgrade() else { return };
            if self.family.generation() != generation {
                // Its siblings are of another zygote now.
                generation = self.family.generation();
                pool.clear();
            }
            self.family.stills.tidy();
            let pause = Duration::from_secs(1) / pool.size.rate.max(1);
            let lacks = pool.lock().len() < pool.wanted();
            // Calls that run for hours must not keep it empty for hours.
            lacking = lacks.then(|| lacking.unwrap_or_else(Instant::now));
            let idle = self.busy.load(Ordering::Relaxed) < self.cores
                || lacking.is_some_and(|since| since.elapsed() >= STARVED);
            let next = if lacks && idle {
                lacking = None;
                match self.make(&pool.spec).await {
                    Ok(sandbox) => {
                        pool.made.fetch_add(1, Ordering::Relaxed);
                        pool.lock().push_back(sandbox);
                        pause
                    }
                    // Whatever it is will show itself to the next request.
                    Err(_) => Duration::from_secs(1),
                }
            } else if lacks {
                pause
            } else {
                self.shrink(&pool);
                IDLE
            };
            if lacks {
                tokio::time::sleep(next).await;
            } else if tokio::time::timeout(next, pool.wake.notified()).await.is_ok() {
                // Whoever claimed one goes first.
                tokio::time::sleep(AFTER_CLAIM).await;
            }
        }
    }

    async fn make(&self, spec: &Spec) -> Result<Sandbox, NodeError> {
        let sandbox = self.maker.make(spec, &self.family).await?;
        sandbox.prepare(true).await.map_err(NodeError::Context)?;
        Ok(sandbox)
    }

    /// Lets one go when far fewer are wanted than wait.
    fn shrink(&self, pool: &Pool) {
        let wanted = pool.wanted();
        let mut waiting = pool.lock();
        let extra = if waiting.len() > wanted { waiting.pop_back() } else { None };
        drop(waiting);
        drop(extra);
    }
}
