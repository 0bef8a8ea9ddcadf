//! One sandbox, as its owner knows it.
//!
//! ```text
//!            pause               resume
//!   Running ───────► Paused ───────────► Running
//!      │               │  frozen: memory and processes stay where they are
//!      │               │  saved: files only, on disk; it starts anew
//!      │               │  suspended: memory and files, on disk; it goes on
//!      │ kill, deadline, death
//!      └──────► Ended ◄┘
//! ```
//!
//! What runs ([`Live`]) may be replaced: a sandbox that was put on disk gets a new
//! machine under the same id.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar_domain::{
    ChosenLimits, Data, EndReason, Limits, SandboxId, SecurityProfile, Spec, Tier,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::clock::{Moment, now};
use crate::contexts::Interpreters;
use crate::events::EventKind;
use crate::figures::History;
use crate::keys::Tenant;
use crate::lifecycle::{Ending, OnTimeout};
use crate::logs::{Level, Log};
use crate::network::{Network, Rows};
use crate::once::Once;
use crate::problem::{Kind, Problem};
use crate::processes::Processes;
use crate::ran::Ran;
use crate::secret::Secret;
use crate::template::Known;
use crate::traffic::Room;
use crate::watchers::Watchers;

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
    /// What servers inside see as their host, if not the name they were reached
    /// by; `${PORT}` stands for the port.
    #[serde(default)]
    pub mask_host: Option<String>,
    /// What it is kept in.
    #[serde(default = "first_tier")]
    pub tier: Tier,
    /// The rights of root in it.
    #[serde(default)]
    pub profile: SecurityProfile,
    /// The limits that its client chose in place of the template's.
    #[serde(default)]
    pub limits: ChosenLimits,
    /// What it is shown, however often it comes back.
    #[serde(default)]
    pub data: Data,
}

/// What everything was kept in before there was a choice.
pub(crate) fn first_tier() -> Tier {
    Tier::Jail
}

/// What runs.
#[derive(Debug)]
pub struct Live {
    pub machine: Arc<belljar_node::Sandbox>,
    pub since: Moment,
    pub processes: Processes,
    pub watchers: Watchers,
    pub(crate) interpreters: Interpreters,
    pub(crate) room: Room,
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
    /// Nothing runs; all of it, memory included, is in a directory on disk.
    Suspended(PathBuf),
}

#[derive(Debug)]
pub struct Sandbox {
    id: SandboxId,
    facts: Facts,
    template: Arc<Known>,
    state: watch::Sender<State>,
    ran: Mutex<Ran>,
    /// Who changes the state, one at a time.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Breaks off what they do when it is to end.
    pub(crate) ending: Ending,
    pub(crate) deadline: watch::Sender<Moment>,
    pub(crate) history: History,
    pub(crate) log: Log,
    /// What it may reach from now on; changes while it runs.
    network: Mutex<Arc<Network>>,
    /// What became of its traffic.
    pub(crate) rows: Arc<Rows>,
    /// Its calls that bear keys.
    pub(crate) once: Once,
}

impl Sandbox {
    pub(crate) fn new(
        id: SandboxId,
        facts: Facts,
        template: Arc<Known>,
        state: State,
        deadline: Moment,
        (network, rows): (Network, Arc<Rows>),
    ) -> Self {
        Self {
            id,
            facts,
            template,
            ran: Mutex::new(Ran::new(matches!(state, State::Running(_)))),
            state: watch::Sender::new(state),
            changing: tokio::sync::Mutex::default(),
            ending: Ending::default(),
            deadline: watch::Sender::new(deadline),
            history: History::default(),
            log: Log::default(),
            network: Mutex::new(Arc::new(network)),
            rows,
            once: Once::default(),
        }
    }

    /// It has run for this long already, under an earlier server.
    #[must_use]
    pub(crate) fn with_ran(mut self, ran: Duration) -> Self {
        self.ran = Mutex::new(Ran::after(ran));
        self
    }

    /// It was asked for these calls already, under an earlier server.
    #[must_use]
    pub(crate) fn with_once(mut self, once: Once) -> Self {
        self.once = once;
        self
    }

    /// For how long it has run, what it was paused left out.
    pub(crate) fn ran(&self) -> Duration {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).so_far()
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// What a machine of it is, in this tier.
    pub(crate) fn spec(&self, tier: Tier) -> Spec {
        let Facts { profile, limits, data, .. } = &self.facts;
        self.template.spec(tier, *profile, limits, data)
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.facts.limits.over(self.template.limits.clone())
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub fn template(&self) -> &Arc<Known> {
        &self.template
    }

    /// What it may reach.
    pub fn network(&self) -> Arc<Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_network(&self, network: Network) {
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(network);
    }

    /// Environment of every call and every context: what package managers must
    /// know, then what its owner said.
    pub(crate) fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.network().env.clone();
        env.extend(self.facts.env.clone());
        env
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn set_state(&self, state: State) {
        self.ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .set(matches!(state, State::Running(_)));
        self.state.send_replace(state);
    }

    /// Tells of every change of its state.
    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Adds what happened to its log.
    pub(crate) fn note(&self, kind: EventKind, detail: Option<&str>) {
        let fields = detail.map(|detail| ("detail".to_owned(), detail.to_owned()));
        self.log.add(Level::Info, kind.as_str(), fields.into_iter().collect());
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.state(), State::Paused(_))
    }

    /// When it ends, or is paused, unless somebody extends it.
    pub fn deadline(&self) -> Moment {
        *self.deadline.borrow()
    }

    /// Kills every process of it at once. What is left of it is removed by whoever ends it.
    pub(crate) fn kill_machine(&self) {
        if let State::Running(live) | State::Paused(Paused::Frozen(live)) = self.state() {
            live.machine.kill();
        }
    }

    /// What runs, if it runs now.
    pub fn live(&self) -> Result<Arc<Live>, Problem> {
        if self.ending.is_announced() {
            return Err(Problem::unknown_sandbox(self.id.as_str()));
        }
        match self.state() {
            State::Running(live) => Ok(live),
            State::Paused(_) => {
                let message = format!("sandbox \"{}\" is paused", self.id);
                Err(Problem::new(Kind::Conflict, "sandbox_paused", message).hint("resume it first"))
            }
            State::Ended(_) => Err(Problem::unknown_sandbox(self.id.as_str())),
        }
    }

    /// What to say of a failure that nobody can foresee: mostly, it went away in
    /// the middle of something.
    pub(crate) fn failed(
        &self,
        live: &Live,
        attempted: &str,
        error: &dyn std::error::Error,
    ) -> Problem {
        if live.machine.is_gone() || matches!(self.state(), State::Ended(_)) {
            return Problem::gone();
        }
        Problem::internal(attempted, error)
    }

    /// Resolves when it does not run any more: paused, or ended.
    pub fn interrupted(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut states = self.states();
        async move {
            loop {
                let running = matches!(*states.borrow_and_update(), State::Running(_));
                if !running || states.changed().await.is_err() {
                    return;
                }
            }
        }
    }

    /// Waits for its end.
    pub async fn ended(&self) {
        let mut states = self.states();
        // The sender lives as long as `self`.
        let _ = states.wait_for(|state| matches!(state, State::Ended(_))).await;
    }
}

impl Live {
    pub(crate) fn new(machine: belljar_node::Sandbox) -> Self {
        let interpreters = Interpreters::new(&machine);
        let room = Room::default();
        Self {
            machine: Arc::new(machine),
            since: now(),
            processes: Processes::default(),
            watchers: Watchers::default(),
            interpreters,
            room,
        }
    }
}
