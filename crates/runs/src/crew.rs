//! Those who work on runs in this process.
//!
//! ```text
//!   look ─► claimable ─► who is not at it, rests, or has his share ─► work, beside others
//!     ▲                                                                │
//!     └── a bell, a moment passed, somebody is done ◄──────────────────┘
//! ```
//!
//! Several processes look at the same runs. A lease decides who has one, so a look that
//! is late or wrong costs nothing but time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_agent::{Left, WorkError, Worker};
use belljar_journal::event::{Body, Brought};
use belljar_journal::{Address, ClaimError, ReadError};
use belljar_model::Sequence;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::Runs;
use crate::data::KeptError;
use crate::models::{FixedRules, Models as _, NoProvider};

/// Runs that are looked at to find those that may be worked on.
const LOOKED_AT: usize = 1000;
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

/// What is going on.
struct Crew<'r> {
    runs: &'r Runs,
    works: JoinSet<Done>,
    at: HashMap<Id, Address>,
    /// Until when a run is left alone, and how long that is.
    resting: HashMap<Address, (Instant, Duration)>,
    /// True if there may be more work than hands.
    is_behind: bool,
    stop: watch::Receiver<bool>,
}

impl Runs {
    /// Works on runs until `stop`; then gives those back that are under way.
    pub async fn work(&self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = self.crew(stop) => {}
            () = self.0.signals.keep_on() => {}
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
            resting: HashMap::new(),
            is_behind: false,
            stop: stopped,
        };
        let mut stop = std::pin::pin!(stop);
        let mut clock = tokio::time::interval(self.settings().look);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_due = true;
        while self.settings().at_once > 0 {
            if is_due {
                crew.look().await;
            }
            is_due = tokio::select! {
                () = &mut stop => break,
                Some(done) = crew.works.join_next_with_id() => {
                    // A run that is over leaves no work, only hands.
                    !crew.let_go(done) || crew.is_behind
                }
                () = self.0.bell.notified() => true,
                _ = clock.tick() => true,
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
    /// Begins to work on what waits, as far as there are hands.
    async fn look(&mut self) {
        let at_once = self.runs.settings().at_once;
        self.is_behind = true;
        if self.works.len() >= at_once {
            return;
        }
        let wanted = match self.runs.journal().claimable(LOOKED_AT).await {
            Ok(wanted) => wanted,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot look for runs");
                return;
            }
        };
        let now = Instant::now();
        let mut is_behind = wanted.len() >= LOOKED_AT;
        // A run that is over by now is looked for by nobody.
        self.resting.retain(|_, (until, rest)| *until + *rest > now);
        for run in wanted {
            if self.works.len() >= at_once {
                return;
            }
            let rests = self.resting.get(&run).is_some_and(|(until, _)| *until > now);
            if rests || self.at.values().any(|other| *other == run) || self.has_share(&run.tenant) {
                is_behind = true;
                continue;
            }
            let (runs, stop) = (self.runs.clone(), self.stop.clone());
            let address = run.clone();
            let work = self.works.spawn(async move { runs.work_on(&address, stop).await });
            self.at.insert(work.id(), run);
        }
        self.is_behind = is_behind;
    }

    /// Whether a tenant has all the hands that one may have: the last one is kept for
    /// others.
    fn has_share(&self, tenant: &str) -> bool {
        let most = (self.runs.settings().at_once - 1).max(1);
        self.at.values().filter(|run| run.tenant == tenant).count() >= most
    }

    /// Forgets who worked on a run. Returns true if the run is over.
    fn let_go(&mut self, done: Result<(Id, Done), JoinError>) -> bool {
        let id = done.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(run) = self.at.remove(&id) else { return false };
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
