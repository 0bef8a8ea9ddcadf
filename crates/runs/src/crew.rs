//! Those who work on runs in this process.
//!
//! ```text
//!   look ─► claimable ─► not at work, not resting, tenant below its share ─► work, beside others
//!     ▲                                                                       │
//!     └── a bell, the clock, a run is over, the last look was full ◄──────────┘
//! ```
//!
//! Several processes look at the same runs. A lease decides who has one, so a look that
//! is late or wrong costs nothing but time. A run is a task: while it waits for its model or its
//! sandbox, it costs the memory of that task and its transcript, and no thread.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_agent::{Left, WorkError, Worker};
use belljar_domain::{RunId, Sequence};
use belljar_journal::event::{Body, Brought};
use belljar_journal::{Address, ClaimError, ClaimQuery, ReadError};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::Runs;
use crate::data::KeptError;
use crate::models::{FixedRules, Models as _, NoProvider};

#[cfg(test)]
mod tests;

/// Runs of one look, and so those that begin together. After a replica died, the others begin
/// with thousands, but not at once.
const LOOKED_AT: usize = 64;
/// Pause between a look that found so many and the next one.
const NEXT_LOOK: Duration = Duration::from_millis(50);
/// Resting runs that a look leaves out.
const MAX_LEFT_OUT: usize = 1024;
/// One hand in so many is kept for tenants that have few.
const KEPT_SHARE: usize = 16;
/// How long a run is left alone that could not be worked on: at first, and at most.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// Why a run was let go of. It is not over.
#[derive(Debug, thiserror::Error)]
enum CrewError {
    #[error("cannot read how the run began")]
    Read(#[from] ReadError),
    #[error("the run's log does not say how it began")]
    NoBeginning,
    #[error(transparent)]
    Provider(#[from] NoProvider),
    #[error(transparent)]
    Kept(#[from] KeptError),
    #[error(transparent)]
    Work(#[from] WorkError),
}

type Done = Result<Left, CrewError>;

/// The runs that a look searches for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Runs without a worker: they come with a bell.
    ForUnclaimed,
    /// Also runs whose worker did not renew its lease: they come with the clock.
    ForAll,
}

/// The hands that one tenant may have, of so many.
fn share(at_once: usize) -> usize {
    (at_once - at_once.div_ceil(KEPT_SHARE)).max(1)
}

/// What is going on.
struct Crew<'r> {
    runs: &'r Runs,
    works: JoinSet<Done>,
    at: HashMap<Id, Address>,
    /// The same runs, and their number by tenant.
    runs_at_work: HashSet<Address>,
    of_tenants: HashMap<String, usize>,
    /// Until when a run is left alone, and how long that is.
    resting: HashMap<Address, (Instant, Duration)>,
    /// True if there may be more work than hands.
    is_behind: bool,
    /// The time of the next look, if the last one found as many runs as it may.
    next_look: Option<Instant>,
    stop: watch::Receiver<bool>,
}

impl Runs {
    /// Works on runs until `stop`; then gives those back that are under way.
    pub async fn work(&self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = self.crew(stop) => {}
            () = self.0.signals.keep_on() => {}
            () = self.expire_approvals() => {}
        }
        if let Err(error) = self.0.signals.keep().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot keep the figures of runs");
        }
    }

    async fn crew(&self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let mut crew = Crew {
            runs: self,
            works: JoinSet::new(),
            at: HashMap::new(),
            runs_at_work: HashSet::new(),
            of_tenants: HashMap::new(),
            resting: HashMap::new(),
            is_behind: false,
            next_look: None,
            stop: stopped,
        };
        let mut stop = std::pin::pin!(stop);
        let mut clock = tokio::time::interval(self.settings().look);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = Some(Look::ForAll);
        while self.settings().at_once > 0 {
            if let Some(look) = due {
                crew.look(look).await;
            }
            let (next_look, is_full) = (crew.next_look, crew.next_look.is_some());
            let next_look = async {
                match next_look {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            due = tokio::select! {
                () = &mut stop => break,
                Some(done) = crew.works.join_next_with_id() => {
                    // A run that is over leaves no work, only hands. After a full look, the next
                    // one comes soon anyway.
                    let is_wanted = !crew.let_go(done) || crew.is_behind;
                    (is_wanted && !is_full).then_some(Look::ForUnclaimed)
                }
                () = self.0.bell.notified() => (!is_full).then_some(Look::ForUnclaimed),
                _ = clock.tick() => Some(Look::ForAll),
                () = next_look => Some(Look::ForAll),
            };
        }
        let _ = stopping.send(true);
        while let Some(done) = crew.works.join_next_with_id().await {
            crew.let_go(done);
        }
    }

    async fn work_on(&self, run: &Address, mut stop: watch::Receiver<bool>) -> Done {
        let first = self.journal().read(run, Sequence(1), 1).await?;
        let created = first.into_iter().next().and_then(|event| match event.body {
            Body::RunCreated(created) => Some(created),
            _ => None,
        });
        let created = created.ok_or(CrewError::NoBeginning)?;
        let wish = created.wish.as_ref();
        let operation = wish.and_then(|wish| wish.operation.as_deref());
        let (provider, prices) = match wish.is_some_and(|wish| wish.brief.replay.is_some()) {
            // Its worker asks no model.
            true => FixedRules.provider(run, None).await?,
            false => self.models().provider(run, operation).await?,
        };
        let settings = belljar_agent::Settings {
            owner: self.settings().owner.clone(),
            lease: self.settings().lease,
            template: self.settings().template.clone(),
            data: Brought::Mounted,
            ..belljar_agent::Settings::default()
        };
        let worker = Worker::new(
            self.journal().clone(),
            self.client(&run.tenant),
            provider,
            Arc::new(self.data().of(&run.tenant)?),
            prices,
            settings,
        );
        let worker =
            worker.observed_by(self.0.signals.clone()).heard_by(Arc::new(self.words().clone()));
        let stopped = async {
            // Whoever could say so is gone: that is the end as well.
            let _ = stop.wait_for(|is| *is).await;
        };
        Ok(worker.work_until(run, stopped).await?)
    }
}

impl Crew<'_> {
    /// Begins to work on runs that wait, as long as there are hands.
    async fn look(&mut self, look: Look) {
        let at_once = self.runs.settings().at_once;
        (self.is_behind, self.next_look) = (true, None);
        if self.works.len() >= at_once {
            return;
        }
        let now = Instant::now();
        // A run that rests no more, and has not come again, may be over.
        self.resting.retain(|_, (until, rest)| *until + *rest > now);
        let resting = self.resting.iter().filter(|(_, (until, _))| *until > now);
        let except: Vec<RunId> =
            resting.map(|(address, _)| address.run.clone()).take(MAX_LEFT_OUT).collect();
        let expired = look == Look::ForAll;
        let query = ClaimQuery { most: LOOKED_AT, except: &except, expired };
        let wanted = match self.runs.journal().claimable_for(query).await {
            Ok(wanted) => wanted,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot look for runs");
                return;
            }
        };
        let found = wanted.len();
        let mut is_behind = found >= LOOKED_AT || !except.is_empty();
        let mut begun = 0;
        for run in wanted {
            if self.works.len() >= at_once {
                return;
            }
            let rests = self.resting.get(&run).is_some_and(|(until, _)| *until > now);
            if rests || self.runs_at_work.contains(&run) || self.has_share(&run.tenant) {
                is_behind = true;
                continue;
            }
            let (runs, stop) = (self.runs.clone(), self.stop.clone());
            let address = run.clone();
            let work = self.works.spawn(async move { runs.work_on(&address, stop).await });
            *self.of_tenants.entry(run.tenant.clone()).or_default() += 1;
            self.runs_at_work.insert(run.clone());
            self.at.insert(work.id(), run);
            begun += 1;
        }
        self.is_behind = is_behind;
        // A look that could begin nothing is not repeated at once.
        self.next_look = (found >= LOOKED_AT && begun > 0).then(|| Instant::now() + NEXT_LOOK);
    }

    /// Returns true if a tenant has all the hands that one may have: some are kept for others.
    fn has_share(&self, tenant: &str) -> bool {
        let most = share(self.runs.settings().at_once);
        self.of_tenants.get(tenant).is_some_and(|runs| *runs >= most)
    }

    /// Forgets who worked on a run. Returns true if the run is over.
    fn let_go(&mut self, done: Result<(Id, Done), JoinError>) -> bool {
        let id = done.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(run) = self.at.remove(&id) else { return false };
        self.runs_at_work.remove(&run);
        if let Entry::Occupied(mut runs) = self.of_tenants.entry(run.tenant.clone()) {
            *runs.get_mut() -= 1;
            if *runs.get() == 0 {
                runs.remove();
            }
        }
        let is_over = matches!(done, Ok((_, Ok(Left::Finished))));
        match done {
            Ok((_, Ok(Left::Finished | Left::Paused | Left::Stopped))) => {
                self.resting.remove(&run);
            }
            // Another one was quicker, or only a newer version can go on.
            Ok((_, Ok(Left::Newer(_)) | Err(CrewError::Work(WorkError::Fenced)))) => self.rest(run),
            Ok((_, Err(CrewError::Work(WorkError::Claim(error)))))
                if !matches!(error, ClaimError::Failed(_)) =>
            {
                self.rest(run);
            }
            Ok((_, Err(error))) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, run.id = %run.run, "a run is put off");
                self.rest(run);
            }
            Err(error) => {
                tracing::error!(%error, run.id = %run.run, "a worker panicked");
                self.rest(run);
            }
        }
        is_over
    }

    fn rest(&mut self, run: Address) {
        let rest = self.resting.get(&run).map_or(SHORT, |(_, rest)| LONG.min(*rest * 2));
        self.resting.insert(run, (Instant::now() + rest, rest));
    }
}
