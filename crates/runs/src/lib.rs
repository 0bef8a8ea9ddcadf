//! What can be done with runs where several tenants have them: in a server, and in
//! every replica of a platform's control.
//!
//! ```text
//!   create ──► journal ◄── steer            the only thing that all of them share
//!     │           ▲
//!     ▼           │ claims, one lease a run
//!   data ◄───── crew ──► agent's worker ──► sandboxes, as the run's tenant has them
//!   by tenant                          └──► models, as the process offers them
//! ```
//!
//! Nothing is remembered here that has to outlive the process: a run is made, steered
//! and worked on through its journal alone, so whoever answers a request need not be
//! who works on the run.

mod approvals;
mod bounds;
mod brief;
mod create;
mod crew;
mod data;
mod describe;
mod figures;
mod models;
mod network;
mod prompt;
mod quota;
mod report;
mod retry;
mod signals;
mod steer;
mod traces;
mod turn;
mod words;
mod workflows;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use belljar_client::Client;
use belljar_domain::Tier;
use belljar_journal::{FigureStore, Journal, LedgerStore, RowStore};
use tokio::sync::{Notify, Semaphore};

use crate::signals::SignalRecorder;

pub use approvals::{RunApproval, approval_id};
pub use belljar_agent::{Larger, MANIFEST, NoRetry, PlanError, TurnError, Words};
pub use belljar_report::{Brand, RenderedReport};
pub use bounds::{OverBudget, RunBounds};
pub use brief::{BriefError, WantedBrief, check_agent};
pub use create::{CreateRunError, Made, Source, Wanted};
pub use data::{Data, DataLimits, Kept, KeptError, PutError};
pub use describe::DescribeError;
pub use figures::{FigureWindow, RunStats, StatsError};
pub use models::{Choice, FixedRules, Models, NoModel, NoProvider, Priced, UnsupportedBrief};
pub use network::{NetworkOffer, NetworkRefused};
pub use prompt::{PromptError, TurnPrompt};
pub use quota::{NoQuota, QuotaError, Quotas, RunQuota};
pub use report::ReportError;
pub use retry::RetryError;
pub use steer::SteerError;
pub use traces::TraceRecorder;
pub use words::{WordFollower, WordHub, WordRelay};
pub use workflows::WorkflowFiles;

/// Runs whose files are read at the same time, to be described or made to fit: each
/// takes a core.
const READ_AT_ONCE: usize = 2;
/// Turns that are put together at the same time: each may take many megabytes.
const VIEWS_AT_ONCE: usize = 4;

/// What the process that runs live in has to offer.
pub struct Parts {
    pub journal: Arc<dyn Journal>,
    /// The store of the figures of runs, beside the journal.
    pub figures: Arc<dyn FigureStore>,
    /// The store of the rows of calls and connections, beside the journal.
    pub rows: Arc<dyn RowStore>,
    /// The charges of the tenants.
    pub ledger: Arc<dyn LedgerStore>,
    pub data: Data,
    /// The API as the tenant of this name has it.
    pub clients: Box<dyn Fn(&str) -> Client + Send + Sync>,
    pub models: Box<dyn Models>,
    /// The program that becomes the sealed reader of data files; none: models are not
    /// told what is inside of them.
    pub describer: Option<PathBuf>,
    pub mounts: Mounts,
    pub quotas: Quotas,
    pub words: WordHub,
}

/// Returns true if the sandboxes of a tenant, made with this tier, are certain to mount its files.
/// Else a run's data is made to fit as a copy.
pub type Mounts = Box<dyn Fn(&str, Option<Tier>) -> bool + Send + Sync>;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Who works, for the record.
    pub owner: String,
    /// How long a run is a worker's own when it stops saying so.
    pub lease: Duration,
    /// Runs that are worked on here at once; none is, if 0. One costs the memory of a task and of
    /// its transcript.
    pub at_once: usize,
    /// After how long to look for work that nobody rang for.
    pub look: Duration,
    /// What sandboxes are made of when a run does not say.
    pub template: String,
    /// Answers of the model when a run does not say.
    pub turns: u32,
    /// The most time and money of one run.
    pub bounds: RunBounds,
    /// The brand of reports.
    pub brand: Arc<Brand>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            owner: "worker".to_owned(),
            lease: Duration::from_secs(30),
            at_once: 64,
            look: Duration::from_secs(1),
            template: "python-data".to_owned(),
            turns: 30,
            bounds: RunBounds::default(),
            brand: Arc::default(),
        }
    }
}

/// A handle on everything; cheap to clone.
#[derive(Clone)]
pub struct Runs(Arc<Inner>);

struct Inner {
    parts: Parts,
    settings: Settings,
    /// Rung when there may be something to work on.
    bell: Notify,
    reading: Arc<Semaphore>,
    viewing: Arc<Semaphore>,
    /// Sees what workers here write.
    signals: Arc<SignalRecorder>,
}

impl Runs {
    pub fn new(parts: Parts, settings: Settings) -> Self {
        let (bell, reading) = (Notify::new(), Arc::new(Semaphore::new(READ_AT_ONCE)));
        let signals = SignalRecorder::new(parts.figures.clone(), &settings.owner);
        let signals = Arc::new(signals);
        let viewing = Arc::new(Semaphore::new(VIEWS_AT_ONCE));
        Self(Arc::new(Inner { parts, settings, bell, reading, viewing, signals }))
    }

    /// Where runs are read. What changes them has functions of its own.
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.0.parts.journal
    }

    pub fn data(&self) -> &Data {
        &self.0.parts.data
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The charges of the tenants.
    pub fn ledger(&self) -> &dyn LedgerStore {
        &*self.0.parts.ledger
    }

    /// The words of models, while they arrive.
    pub fn words(&self) -> &WordHub {
        &self.0.parts.words
    }

    fn client(&self, tenant: &str) -> Client {
        (self.0.parts.clients)(tenant)
    }

    fn models(&self) -> &dyn Models {
        &*self.0.parts.models
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("journal", &self.journal).finish_non_exhaustive()
    }
}
