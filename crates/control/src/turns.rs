//! Creates take turns between tenants.
//!
//! So many are worked on at once as nodes can take; whoever comes then waits in
//! his tenant's line. A tenant that asks for a thousand waits behind itself, and while
//! others ask for something too, it has half of the turns at most: who asks now and
//! then finds one free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::fair::{Fair, Full};

/// Who waits, and for how many there is room; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    lines: Fair<Waiting>,
    /// Worked on now, and at most.
    working: usize,
    most: usize,
    /// Who works or has asked lately.
    tenants: HashMap<String, Active>,
}

#[derive(Debug)]
struct Active {
    working: usize,
    asked: Instant,
}

/// For so long after it asked last, a turn is kept free for a tenant.
const LATELY: Duration = Duration::from_secs(5);

impl Inner {
    /// How many turns one tenant may have.
    fn share(&mut self) -> usize {
        self.tenants.retain(|_, active| active.working > 0 || active.asked.elapsed() < LATELY);
        if self.tenants.len() > 1 { self.most.div_ceil(2) } else { self.most }
    }

    fn has(&self, tenant: &str) -> usize {
        self.tenants.get(tenant).map_or(0, |active| active.working)
    }

    fn asks(&mut self, tenant: &str) -> &mut Active {
        let active = self.tenants.entry(tenant.to_owned());
        let active = active.or_insert_with(|| Active { working: 0, asked: Instant::now() });
        active.asked = Instant::now();
        active
    }

    fn begin(&mut self, tenant: &str) {
        self.working += 1;
        self.asks(tenant).working += 1;
    }

    fn end(&mut self, tenant: &str) {
        self.working -= 1;
        if let Some(active) = self.tenants.get_mut(tenant) {
            active.working -= 1;
        }
    }
}

#[derive(Debug)]
struct Waiting {
    go: oneshot::Sender<Working>,
    since: Instant,
}

/// A create that is worked on. Dropped: the next one's turn.
#[derive(Debug)]
pub(crate) struct Working {
    turns: Option<Turns>,
    tenant: String,
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            let mut inner = turns.lock();
            inner.end(&self.tenant);
            turns.next(inner);
        }
    }
}

/// Why a create got no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    Full(Full),
    Late,
}

impl Turns {
    pub(crate) fn new((longest, most): (usize, usize)) -> Self {
        let lines = Fair::new(longest, most);
        Self(Arc::new(Mutex::new(Inner { lines, working: 0, most: 1, tenants: HashMap::new() })))
    }

    /// So many may be worked on from now on.
    pub(crate) fn set_most(&self, most: usize) {
        let mut inner = self.lock();
        inner.most = most.max(1);
        self.next(inner);
    }

    /// How many wait, and for how long the one that has waited longest.
    pub(crate) fn waiting(&self) -> (usize, Duration) {
        let inner = self.lock();
        let oldest = inner.lines.iter().map(|waiting| waiting.since.elapsed()).max();
        (inner.lines.len(), oldest.unwrap_or_default())
    }

    pub(crate) async fn wait(&self, tenant: &str, patience: Duration) -> Result<Working, NoTurn> {
        let (go, mut come) = oneshot::channel();
        let turn = {
            let mut inner = self.lock();
            inner.asks(tenant);
            let may = inner.has(tenant) < inner.share();
            if may && inner.lines.is_empty() && inner.working < inner.most {
                inner.begin(tenant);
                return Ok(Working { turns: Some(self.clone()), tenant: tenant.to_owned() });
            }
            let waiting = Waiting { go, since: Instant::now() };
            let turn = inner.lines.join(tenant, waiting).map_err(NoTurn::Full)?;
            self.next(inner);
            turn
        };
        if let Ok(Ok(working)) = tokio::time::timeout(patience, &mut come).await {
            return Ok(working);
        }
        let left = self.lock().lines.leave(tenant, turn);
        drop(left);
        // It may have come in the last moment: then it is used.
        come.try_recv().map_err(|_| NoTurn::Late)
    }

    /// Lets as many go on as there is room for.
    fn next(&self, mut inner: MutexGuard<'_, Inner>) {
        let mut unused = Vec::new();
        while inner.working < inner.most {
            let share = inner.share();
            let Inner { lines, tenants, .. } = &mut *inner;
            let has = |tenant: &str| tenants.get(tenant).map_or(0, |active| active.working);
            let Some((tenant, waiting)) = lines.take_if(|tenant| has(tenant) < share) else {
                break;
            };
            inner.begin(&tenant);
            let working = Working { turns: Some(self.clone()), tenant };
            if let Err(mut working) = waiting.go.send(working) {
                // He hung up. Given back here: his drop would ask for the lock.
                working.turns = None;
                inner.end(&working.tenant);
                unused.push(working);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock stands still until every task waits for it: nothing here depends on
    /// how fast the machine is.
    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn the_other_tenant_is_next_however_many_wait_before() {
        let turns = Turns::new((100, 1000));
        let first = turns.wait("flood", LONG).await.unwrap();
        let (order, mut came) = tokio::sync::mpsc::unbounded_channel();
        let ask = |tenant: &'static str| {
            let (turns, order) = (turns.clone(), order.clone());
            tokio::spawn(async move {
                let _working = turns.wait(tenant, LONG).await.unwrap();
                order.send(tenant).unwrap();
            })
        };
        for _ in 0..20 {
            ask("flood");
        }
        tokio::time::sleep(SOON).await;
        ask("quiet");
        tokio::time::sleep(SOON).await;
        drop(first);
        let mut seen = Vec::new();
        for _ in 0..21 {
            seen.push(came.recv().await.unwrap());
        }
        let at = seen.iter().position(|tenant| *tenant == "quiet").unwrap();
        assert!(at <= 1, "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn while_others_ask_nobody_has_more_than_half() {
        let turns = Turns::new((100, 1000));
        turns.set_most(4);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(turns.wait("flood", LONG).await.unwrap());
        }
        assert_eq!(turns.wait("flood", SOON).await.unwrap_err(), NoTurn::Late);
        // Two turns of the flood's end; the one who came meanwhile has the first, and
        // the second stays free for him.
        let quiet = tokio::spawn({
            let turns = turns.clone();
            async move { turns.wait("quiet", LONG).await }
        });
        tokio::time::sleep(SOON).await;
        held.truncate(2);
        let quiet = quiet.await.unwrap().unwrap();
        assert_eq!(turns.wait("flood", SOON).await.unwrap_err(), NoTurn::Late);
        assert!(turns.wait("quiet", SOON).await.is_ok());
        drop(quiet);
        held.pop();
        assert!(turns.wait("flood", SOON).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_leaves_and_nothing_is_lost() {
        let turns = Turns::new((1, 10));
        let first = turns.wait("a", LONG).await.unwrap();
        assert_eq!(turns.wait("a", SOON).await.unwrap_err(), NoTurn::Late);
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { turns.wait("a", LONG).await.map(drop) }
        });
        tokio::time::sleep(SOON).await;
        assert_eq!(turns.wait("a", LONG).await.unwrap_err(), NoTurn::Full(Full::Tenant));
        waiting.abort();
        let _ = waiting.await;
        drop(first);
        assert_eq!(turns.waiting().0, 0);
        assert!(turns.wait("b", SOON).await.is_ok());
    }
}
