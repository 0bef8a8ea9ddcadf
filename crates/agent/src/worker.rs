//! Whoever works on runs.
//!
//! ```text
//!   claim ─► read ─► decide ─► act ─► append ─┐
//!              ▲                              │   a task beside it renews the lease
//!              └──────────────────────────────┘
//! ```
//!
//! Nothing is remembered between two rounds but what the journal says, so whoever
//! takes over after a crash does the same.

mod approve;
mod ask;
mod attach;
mod call;
mod close;
mod deviation;
mod keeper;
mod network;
mod obey;
mod outbox;
mod program;
mod recorder;
mod recover;
mod replay;
mod stage;
mod tape;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belljar_client::Client;
use belljar_domain::Sequence;
use belljar_journal::event::{
    Body, Brief, Brought, Dataset, Event, Injected, InjectedMessage, Limit,
};
use belljar_journal::{
    Address, AppendError, BlobError, BlobRef, ClaimError, Journal, Lease, LeaseError, NewEvent,
    ReadError, RunView,
};
use belljar_provider::Provider;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;
use tokio::io::AsyncReadExt as _;

use crate::budget::Clause;
use crate::data::{DataError, Depot, Item};
use crate::decide::{Step, decide};
use crate::money::Prices;
use crate::prompt::{Facts, Texts};
use crate::recording::{Recording, RecordingError};
use crate::room::Rooms;
use crate::signal::{Observer, Signals};
use crate::story::Story;
use crate::trace::Spans;
use crate::words::WordListener;
use keeper::Keeper;
use network::GivenToken;
use outbox::Outbox;
pub use recorder::{ProgramOutcome, ProgramRecorder, RecordError};

/// What is read of a log at once.
const PART: usize = 200;

/// How a worker works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who it is, for the record.
    pub owner: String,
    /// How long a run is its own when it stops saying so.
    pub lease: Duration,
    /// What sandboxes are made of, when a run does not say.
    pub template: String,
    /// The most tokens of one answer.
    pub max_output: u64,
    /// How long one request to the model may take, all attempts together.
    pub model_time: Duration,
    /// How data comes into sandboxes: those of this host can be shown it. Where
    /// they cannot, it is copied, and the log says so.
    pub data: Brought,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            owner: "worker".to_owned(),
            lease: Duration::from_secs(30),
            template: "python-data".to_owned(),
            max_output: 8192,
            model_time: Duration::from_secs(1800),
            data: Brought::Copied,
        }
    }
}

/// Works on runs, one at a time; cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker {
    journal: Arc<dyn Journal>,
    provider: Arc<dyn Provider>,
    rooms: Rooms,
    prices: Prices,
    settings: Settings,
    observer: Option<Arc<dyn Observer>>,
    listener: Option<Arc<dyn WordListener>>,
}

/// Why a worker let go of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Finished,
    /// Somebody wants it to wait.
    Paused,
    /// The worker was told to stop. The run is not over.
    Stopped,
    /// A newer version wrote this event.
    Newer(Sequence),
}

/// Why a worker could not go on. The run is not over: another one may.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    #[error("cannot have the run")]
    Claim(#[from] ClaimError),
    #[error("the run was taken over")]
    Fenced,
    #[error("cannot read the run")]
    Read(#[from] ReadError),
    #[error("cannot write the run down")]
    Append(#[source] AppendError),
    #[error("cannot keep what belongs to the run")]
    Blob(#[from] BlobError),
    #[error("what is said of the run's data cannot be had")]
    Data(#[from] DataError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("cannot prepare the sandbox for its cassette")]
    Tape(#[source] belljar_client::Error),
    #[error("the run began with a prompt that this version does not have")]
    Prompt,
    #[error("the run's log does not say how it began")]
    NoBeginning,
}

/// The last event that the observer was told of.
#[derive(Debug, Clone, Default)]
struct Told(Arc<AtomicU64>);

/// Facts and spans of a run, as its events so far tell them.
#[derive(Debug, Clone, Default)]
struct Reporter {
    signals: Signals,
    spans: Spans,
}

/// What one round came to.
enum Round {
    Again,
    Left(Left),
}

/// A run that is worked on.
struct Work<'w> {
    worker: &'w Worker,
    lease: Lease,
    /// The log, and after that what is not yet written.
    events: Vec<Event>,
    story: Story,
    /// The number of events that are written, and the story that these tell.
    written_events: usize,
    written_story: Story,
    outbox: Outbox,
    reporter: Reporter,
    told: Told,
    facts: Facts,
    template: String,
    data: Vec<Item>,
    brief: Brief,
    /// The answers of a run that is a replay.
    recording: Option<Arc<Recording>>,
    /// Whether this worker has seen its sandbox alive.
    is_seen: bool,
    token: GivenToken,
}

impl Worker {
    pub fn new(
        journal: Arc<dyn Journal>,
        client: Client,
        provider: Arc<dyn Provider>,
        depot: Arc<dyn Depot>,
        prices: Prices,
        settings: Settings,
    ) -> Self {
        let rooms = Rooms { client, depot, bring: settings.data };
        Self { journal, provider, rooms, prices, settings, observer: None, listener: None }
    }

    /// The same, seen by an observer.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// The same, whose models are heard while they speak.
    #[must_use]
    pub fn heard_by(self, listener: Arc<dyn WordListener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// Takes a run and works on it until it is over, or has to wait.
    pub async fn work(&self, run: &Address) -> Result<Left, WorkError> {
        self.work_until(run, std::future::pending()).await
    }

    /// The same until `stop`: then it is given back as it is, and whoever takes it next
    /// asks the sandbox what came of the call that was under way.
    pub async fn work_until(
        &self,
        run: &Address,
        stop: impl Future<Output = ()>,
    ) -> Result<Left, WorkError> {
        let lease = self.journal.claim(run, &self.settings.owner, self.settings.lease).await?;
        let keeper = Keeper::start(self.journal.clone(), lease.clone(), self.settings.lease);
        let told = Told::default();
        let worked = tokio::select! {
            worked = self.go_on(lease.clone(), told.clone()) => worked,
            () = keeper.fenced() => Err(WorkError::Fenced),
            () = stop => Ok(Left::Stopped),
        };
        if matches!(worked, Err(_) | Ok(Left::Stopped)) {
            self.tell_rest(&lease, &told).await;
        }
        drop(keeper);
        let is_released = matches!(worked, Ok(Left::Finished)) && self.journal.releases_at_end();
        if !is_released && !matches!(worked, Err(WorkError::Fenced)) {
            // Whoever comes next need not think that we died.
            match self.journal.release(&lease).await {
                Ok(()) | Err(LeaseError::Fenced { .. }) => {}
                Err(error) => tracing::warn!(run.id = %run.run, %error, "cannot give a run back"),
            }
        }
        worked
    }

    /// As a type that is not made of all that a run may wait for.
    fn go_on(&self, lease: Lease, told: Told) -> BoxFuture<'_, Result<Left, WorkError>> {
        Box::pin(async move {
            let mut work = Work::begin(self, lease, told).await?;
            loop {
                work.catch_up().await?;
                match work.round().await {
                    Ok(Round::Again) => {}
                    Ok(Round::Left(left)) => {
                        work.flush().await?;
                        return Ok(left);
                    }
                    // Something came in between: look again, and decide anew.
                    Err(WorkError::Append(AppendError::Unseen { .. })) => {}
                    Err(WorkError::Append(AppendError::Fenced { .. })) => {
                        return Err(WorkError::Fenced);
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

impl Worker {
    /// Tells the observer of an event that was written under this lease. Those of other
    /// leases, and of the run that this one was forked from, were told by who wrote them.
    fn tell(
        &self,
        lease: &Lease,
        told: &Told,
        reporter: &mut Reporter,
        before: &RunView,
        event: &Event,
    ) {
        let heard = reporter.signals.hear(before, event);
        let spans = reporter.spans.hear(&lease.address, self.provider.name(), before, event);
        let is_own = event.lease == Some(lease.generation) && event.seq >= lease.taken;
        let is_new = told.0.fetch_max(event.seq.0, Ordering::Relaxed) < event.seq.0;
        if let Some(observer) = self.observer.as_ref().filter(|_| is_own && is_new) {
            heard.iter().for_each(|signal| observer.observe(&lease.address, signal));
            spans.iter().for_each(|span| observer.trace(&lease.address, span));
        }
    }

    /// Tells the observer of events that were written and not read again, because the worker
    /// failed or was stopped in between.
    async fn tell_rest(&self, lease: &Lease, told: &Told) {
        if self.observer.is_none() {
            return;
        }
        let Ok(events) = belljar_journal::read_all(&*self.journal, &lease.address).await else {
            return;
        };
        let (mut view, mut reporter) = (RunView::default(), Reporter::default());
        for event in &events {
            self.tell(lease, told, &mut reporter, &view, event);
            view.apply(event);
        }
    }

    /// What is said of a run's data. Whoever made the run may have died before it was
    /// kept with the run; then it is still where the data is.
    async fn described(&self, run: &Address, blob: &BlobRef) -> Result<Vec<u8>, WorkError> {
        match self.journal.get_blob(run, blob).await {
            Ok(text) => return Ok(text),
            Err(BlobError::NoBlob(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let name = "description".to_owned();
        let item = Item { name, fingerprint: blob.sha256, bytes: blob.bytes };
        let file = self.rooms.depot.open(&item).await?;
        let mut text = Vec::new();
        tokio::fs::File::from_std(file)
            .read_to_end(&mut text)
            .await
            .map_err(|_| DataError::Changed(item.name))?;
        self.journal.put_blob(run, text.clone()).await?;
        Ok(text)
    }
}

impl<'w> Work<'w> {
    async fn begin(worker: &'w Worker, lease: Lease, told: Told) -> Result<Self, WorkError> {
        let events = belljar_journal::read_all(&*worker.journal, &lease.address).await?;
        let (mut story, mut reporter) = (Story::default(), Reporter::default());
        for event in &events {
            worker.tell(&lease, &told, &mut reporter, &story.view, event);
            story.apply(event);
        }
        let created = events.iter().find_map(|event| match &event.body {
            Body::RunCreated(created) => Some(created.clone()),
            _ => None,
        });
        let created = created.ok_or(WorkError::NoBeginning)?;
        let prompt = story.view.prompt.clone().unwrap_or_else(|| created.prompt.clone());
        let texts = Texts::of(&prompt).ok_or(WorkError::Prompt)?;
        // One description may be about several datasets.
        let mut blobs: Vec<BlobRef> = Vec::new();
        for blob in created.datasets.iter().filter_map(|dataset| dataset.description) {
            if !blobs.contains(&blob) {
                blobs.push(blob);
            }
        }
        let mut data = String::new();
        for blob in &blobs {
            let text = worker.described(&lease.address, blob).await?;
            data.push_str(&String::from_utf8_lossy(&text));
        }
        let item = |dataset: &Dataset| Item {
            name: dataset.name.clone(),
            fingerprint: dataset.fingerprint,
            bytes: dataset.bytes,
        };
        let items = created.datasets.iter().map(item).collect();
        let (template, brief) = match created.wish {
            Some(wish) => (wish.template, *wish.brief),
            None => (worker.settings.template.clone(), Brief::default()),
        };
        let facts = Facts::of(texts, &story.view, data);
        let recording = match &brief.replay {
            Some(replay) => Some(Arc::new(worker.recording(replay.recording).await?)),
            None => None,
        };
        let outbox = Outbox::new(story.view.head);
        Ok(Self {
            worker,
            lease,
            written_events: events.len(),
            written_story: story.clone(),
            events,
            story,
            outbox,
            reporter,
            told,
            facts,
            template,
            data: items,
            brief,
            recording,
            is_seen: false,
            token: GivenToken::default(),
        })
    }

    /// Does the one thing that is due.
    async fn round(&mut self) -> Result<Round, WorkError> {
        let story = self.story.clone();
        let turn = story.view.turns + 1;
        match decide(&story, OffsetDateTime::now_utc()) {
            Step::Leave(seq) => return Ok(Round::Left(Left::Newer(seq))),
            Step::Over => return Ok(Round::Left(Left::Finished)),
            Step::Rest => return Ok(Round::Left(Left::Paused)),
            Step::Obey(pending) => self.obey(pending).await?,
            Step::Lost(asked) => self.recover(asked).await?,
            Step::Limit(hit) => drop(self.append(NewEvent::new(hit)).await?),
            Step::Warn { left } => {
                let (kind, text) = self.facts.texts.turns_left(left);
                self.inject(InjectedMessage { kind, turn, text, answers: None }).await?;
            }
            Step::Last { why } => {
                let kind = Injected::Final;
                let text = self.facts.texts.last(&why);
                self.inject(InjectedMessage { kind, turn, text, answers: None }).await?;
            }
            Step::Repair => {
                let kind = Injected::Repair;
                let text = self.facts.texts.repair();
                let message = InjectedMessage { kind, turn, text, answers: None };
                let key = format!("repair:{turn}");
                self.append(NewEvent::new(message).keyed(&key)).await?;
            }
            Step::Anew => {
                let kind = Injected::Restored;
                let text = self.facts.texts.restored();
                let message = InjectedMessage { kind, turn, text, answers: None };
                self.append(NewEvent::new(message).keyed("restored:1")).await?;
            }
            Step::Ask { turn, attempt, last } => match self.recording.clone() {
                Some(recording) => self.replay(&recording, turn, attempt, last).await?,
                None => self.ask(turn, attempt, last).await?,
            },
            Step::Hold(point) => self.hold(point).await?,
            Step::Intend(call) => self.intend(call).await?,
            Step::Start(call) => self.start(call).await?,
            Step::Collect { call, exec, sandbox } if self.program().is_some() => {
                Box::pin(self.collect_program(call, exec, sandbox)).await?;
            }
            Step::Collect { call, exec, sandbox } => self.collect(call, exec, sandbox).await?,
            Step::Continue => self.continue_program().await?,
            Step::Send(message) => self.send(*message).await?,
            Step::Close(closing) => self.close(closing).await?,
        }
        Ok(Round::Again)
    }

    /// What is left of the run's time, if that is bounded.
    fn time_left(&self) -> Option<Duration> {
        self.left(Limit::Wall).map(Duration::from_millis)
    }

    /// What is left of a budget, if it is bounded.
    fn left(&self, limit: Limit) -> Option<u64> {
        self.clause(limit).map(|clause| clause.allowed.saturating_sub(clause.used))
    }

    fn clause(&self, limit: Limit) -> Option<Clause> {
        let now = OffsetDateTime::now_utc();
        let clauses = Clause::all(&self.story.view, self.story.began.unwrap_or(now), now);
        clauses.into_iter().find(|clause| clause.limit == limit)
    }

    async fn inject(&self, message: InjectedMessage) -> Result<(), WorkError> {
        self.append(NewEvent::new(message).waiting()).await.map(drop)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
