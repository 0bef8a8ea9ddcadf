//! One sandbox, as its owner knows it.
//!
//! ```text
//!            pause               resume
//!   Running ───────► Paused ───────────► Running
//!      │               │  frozen: memory and processes stay
//!      │ kill, deadline, death │  stored: files only; it starts anew
//!      └──────► Ended ◄┘
//! ```
//!
//! What runs ([`Live`]) may be replaced: a sandbox that was paused without its
//! memory gets a new machine under the same id.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_model::{EndReason, SandboxId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::clock::{Moment, now};
use crate::figures::History;
use crate::keys::Tenant;
use crate::lifecycle::OnTimeout;
use crate::problem::{Kind, Problem};
use crate::secret::Secret;
use crate::template::Known;

/// What does not change while a sandbox exists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Facts {
    pub tenant: Tenant,
    /// The template's own name, and the name that was asked for.
    pub template: String,
    pub alias: String,
    pub metadata: BTreeMap<String, String>,
    /// Environment of every call and every context.
    pub env: BTreeMap<String, String>,
    pub started_at: Moment,
    pub on_timeout: OnTimeout,
    /// Whether traffic to it resumes it.
    pub auto_resume: bool,
    /// What whoever reaches into it must show.
    pub token: Secret,
    /// What traffic to ports other than the agent's must show, if anything.
    pub traffic_token: Option<Secret>,
}

/// What runs.
#[derive(Debug)]
pub struct Live {
    pub machine: Arc<belljar_node::Sandbox>,
    pub since: Moment,
}

#[derive(Debug, Clone)]
pub enum State {
    Running(Arc<Live>),
    Paused(Paused),
    Ended(EndReason),
}

/// In what form a sandbox is paused.
#[derive(Debug, Clone)]
pub enum Paused {
    /// Every process stands still where it was.
    Frozen(Arc<Live>),
    /// Nothing runs; the files are on disk.
    Saved(PathBuf),
}

#[derive(Debug)]
pub struct Sandbox {
    id: SandboxId,
    facts: Facts,
    template: Arc<Known>,
    state: Mutex<State>,
    /// Who changes the state, one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) deadline: watch::Sender<Moment>,
    ended: watch::Sender<bool>,
    pub(crate) history: History,
}

impl Sandbox {
    pub(crate) fn new(
        id: SandboxId,
        facts: Facts,
        template: Arc<Known>,
        state: State,
        deadline: Moment,
    ) -> Self {
        Self {
            id,
            facts,
            template,
            state: Mutex::new(state),
            changing: tokio::sync::Mutex::default(),
            deadline: watch::Sender::new(deadline),
            ended: watch::Sender::new(false),
            history: History::default(),
        }
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub fn template(&self) -> &Arc<Known> {
        &self.template
    }

    pub fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        let over = matches!(state, State::Ended(_));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        if over {
            self.ended.send_replace(true);
        }
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.state(), State::Paused(_))
    }

    /// When it ends, or is paused, unless somebody extends it.
    pub fn deadline(&self) -> Moment {
        *self.deadline.borrow()
    }

    /// What runs, if it runs now.
    pub fn live(&self) -> Result<Arc<Live>, Problem> {
        match self.state() {
            State::Running(live) => Ok(live),
            State::Paused(_) => {
                let message = format!("sandbox \"{}\" is paused", self.id);
                Err(Problem::new(Kind::Conflict, "sandbox_paused", message)
                    .hint("connect to it, or resume it, first"))
            }
            State::Ended(_) => Err(Problem::unknown_sandbox(self.id.as_str())),
        }
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as `self`.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Live {
    pub(crate) fn new(machine: belljar_node::Sandbox) -> Self {
        Self { machine: Arc::new(machine), since: now() }
    }
}
