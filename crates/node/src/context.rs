//! Stateful code contexts: an interpreter that keeps what cells leave in it.
//!
//! A cell is a call like any other: it has output, usage and an end reason. What
//! is different is that the process goes on after it. An interpreter that dies
//! takes its context with it; the context says why, and can be restarted.

mod actor;
mod birth;
mod cell;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::EndReason;
use belljar_engine::StartError;
use belljar_guest_proto::context::Parked;
use belljar_transplant::Image;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::command::Tag;
use crate::ledger::Ledger;
use crate::link::LinkError;
use crate::runtime::Language;
use crate::sandbox::CallError;

/// How long the cells that run may take until a sandbox can be copied or put away.
pub(crate) const REST_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) use actor::Order;
pub(crate) use birth::{Ours, Place, Slot, Unborn, forking};
pub use cell::{CellEnd, CellError, CellEvent, Ran, Running};

/// What a context should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    pub language: Language,
    /// Path of the interpreter inside the sandbox.
    pub interpreter: PathBuf,
    /// The home directory when `None`.
    pub cwd: Option<String>,
    /// Added to the standard environment.
    pub env: BTreeMap<String, String>,
}

/// What a cell is given besides its code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellOptions {
    /// Instead of the sandbox's own limit.
    pub wall: Option<Duration>,
    /// CPU time after which it is ended, if the sandbox does not allow less.
    pub cpu: Option<Duration>,
    /// Set for this cell only; afterwards what was there before is back.
    pub env: BTreeMap<String, String>,
    pub tag: Tag,
}

/// How a context's interpreter came to be. Every answer says it, because what
/// a cell may find in the interpreter depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A program that was executed.
    Executed,
    /// Forked from a warm interpreter that nobody's code had run in.
    Forked,
    /// A copy of another context's memory.
    Copied,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Forked => "forked",
            Self::Copied => "copied",
        }
    }
}

/// Why a context did not start, or does not run a cell.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("the interpreter did not start")]
    Call(#[source] CallError),
    #[error("the interpreter could not be forked")]
    Fork(#[source] StartError),
    #[error("the sandbox does not respond")]
    Link(#[source] LinkError),
    #[error("this interpreter cannot be a context: {0}")]
    Unfit(String),
    #[error("the interpreter ended before it was ready ({0})")]
    Stillborn(String),
    #[error("the context has ended ({0}); restart it, or create a new one")]
    Over(EndReason),
    #[error("no such context: {0}")]
    Unknown(u32),
    #[error("cannot copy the context: {0}")]
    Copy(String),
    #[error("cannot copy the context: it uses more than {most} bytes")]
    TooLarge { most: u64 },
}

/// A handle on one context; cheap to clone.
#[derive(Debug, Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u32,
    options: ContextOptions,
    ledger: Arc<Ledger>,
    life: Mutex<Life>,
    note: Mutex<Option<String>>,
}

/// The interpreter of now; a restart gives a context another.
#[derive(Debug)]
struct Life {
    orders: mpsc::UnboundedSender<Order>,
    facts: Facts,
    /// The last image that was taken of the interpreter or given to it.
    image: Option<Arc<Image>>,
}

/// What is known of an interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub origin: Origin,
    pub version: String,
    /// As the host sees it, when it was forked.
    pub pid: Option<u32>,
}

impl Context {
    pub(crate) fn new(
        id: u32,
        options: ContextOptions,
        (facts, orders): (Facts, Orders),
        ledger: &Arc<Ledger>,
    ) -> Self {
        let life = Mutex::new(Life { orders, facts, image: None });
        let (note, ledger) = (Mutex::default(), ledger.clone());
        Self { shared: Arc::new(Shared { id, options, ledger, life, note }) }
    }

    pub fn id(&self) -> u32 {
        self.shared.id
    }

    pub fn options(&self) -> &ContextOptions {
        &self.shared.options
    }

    pub fn facts(&self) -> Facts {
        self.life(|life| life.facts.clone())
    }

    /// What its owner wrote on it; a copy of the context has it too.
    pub fn note(&self) -> Option<String> {
        self.shared.note.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_note(&self, note: Option<String>) {
        *self.shared.note.lock().unwrap_or_else(PoisonError::into_inner) = note;
    }

    fn life<T>(&self, look: impl FnOnce(&mut Life) -> T) -> T {
        look(&mut self.shared.life.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a cell; cells of a context run one after the other. `wall` is
    /// instead of the sandbox's own limit.
    pub fn run(&self, code: impl Into<String>, wall: Option<Duration>) -> Running {
        self.run_with(code, CellOptions { wall, ..CellOptions::default() })
    }

    /// As [`Self::run`], with all that a cell can be given.
    pub fn run_with(&self, code: impl Into<String>, options: CellOptions) -> Running {
        let (events, receiver) = mpsc::channel(64);
        let number = self.shared.ledger.next();
        let order = Order::Run { number, code: code.into(), options, events };
        let origin = self.life(|life| {
            // An actor that is gone drops the events: the run ends as lost.
            let _ = life.orders.send(order);
            life.facts.origin
        });
        Running::new(number, receiver, origin)
    }

    /// Runs a cell to its end and keeps what it showed.
    pub async fn execute(&self, code: impl Into<String>, wall: Option<Duration>) -> Ran {
        self.run(code, wall).collect().await
    }

    /// As [`Self::execute`], with all that a cell can be given.
    pub async fn execute_with(&self, code: impl Into<String>, options: CellOptions) -> Ran {
        self.run_with(code, options).collect().await
    }

    /// Raises `KeyboardInterrupt`, or what the language has for it, in the cell
    /// that runs.
    pub fn interrupt(&self) {
        self.order(Order::Interrupt);
    }

    /// Ends the interpreter; the context is over.
    pub async fn end(&self) {
        let (done, over) = oneshot::channel();
        self.order(Order::End(done));
        // Gone already: as good as ended.
        let _ = over.await;
    }

    /// Has the interpreter hold still between two cells, until what is answered
    /// beside is dropped.
    pub(crate) async fn park(&self) -> Result<(Parked, oneshot::Sender<()>), ContextError> {
        let (answer, parked) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.order(Order::Park { answer, released });
        let parked = parked.await.map_err(|_| ContextError::Over(EndReason::Lost))?;
        Ok((parked, release))
    }

    /// Waits until no cell runs, and lets none start until what is answered
    /// beside is dropped. Answers the channel of its interpreter.
    pub(crate) async fn hold(&self) -> Result<(u32, oneshot::Sender<()>), ContextError> {
        let (answer, held) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.order(Order::Hold { answer, released });
        let channel = held.await.map_err(|_| ContextError::Over(EndReason::Lost))?;
        Ok((channel, release))
    }

    pub(crate) fn image(&self) -> Option<Arc<Image>> {
        self.life(|life| life.image.clone())
    }

    pub(crate) fn set_image(&self, image: Arc<Image>) {
        self.life(|life| life.image = Some(image));
    }

    pub(crate) fn order(&self, order: Order) {
        self.life(|life| {
            let _ = life.orders.send(order);
        });
    }

    pub(crate) fn replace(&self, orders: Orders, facts: Facts) {
        self.life(|life| *life = Life { orders, facts, image: None });
    }
}

pub(crate) type Orders = mpsc::UnboundedSender<Order>;
