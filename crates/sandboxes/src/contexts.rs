//! Code contexts, as every surface shows them.
//!
//! A sandbox has a context for Python and one for JavaScript from the start, under
//! the names of their languages; other languages get theirs when they are first
//! asked for. None has an interpreter before somebody runs code in it. Contexts
//! that are made on request get an id and an interpreter at once.
//!
//! ```text
//!   run ──► turn: one execution after the other
//!            └─► interpreter: started, or restarted if it died
//!                 └─► outputs ──► whoever listens; nobody: interrupt
//! ```
//!
//! Ids are written on the engine's contexts, so that copies of a sandbox have
//! the same.

mod execution;
mod slot;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_node::{CallError, Context, ContextError, ContextOptions, Language};

use crate::create::check_env;
use crate::problem::{Kind, Problem};
use crate::sandbox::{Live, Sandbox};
use crate::secret::Secret;

pub use execution::{Allowance, Ending, Execution, Flaw, Output};
use slot::{Slot, StartError};
pub use text::Pieces;

/// Where contexts are when nobody says.
const HOME: &str = "/home/user";

/// The most contexts of one sandbox. What they may use together is limited by
/// the sandbox; this bounds what the host keeps for them.
const MOST: usize = 128;

/// What is listed from the start.
const FIRST: [Language; 2] = [Language::Python, Language::JavaScript];

/// One context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextInfo {
    pub id: String,
    pub language: Language,
    pub cwd: String,
}

/// Where code should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The context of this id.
    Context(String),
    /// The language's own context.
    Language(Language),
}

/// The contexts of what runs, in the order in which they came to be.
#[derive(Debug)]
pub(crate) struct Interpreters {
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl Interpreters {
    /// With those that a copy was born with.
    pub(crate) fn new(machine: &belljar_node::Sandbox) -> Self {
        let adopted = machine.contexts().into_iter().map(Slot::adopted);
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        for slot in adopted {
            // Whoever wrote the same id twice gets the first.
            if slots.iter().all(|other| other.info.id != slot.info.id) {
                slots.push(Arc::new(slot));
            }
        }
        for (place, language) in FIRST.into_iter().enumerate() {
            let known = slots.iter().position(|slot| slot.info.id == language.as_str());
            let slot = match known {
                Some(known) => slots.remove(known),
                None => Arc::new(Slot::default_of(language)),
            };
            slots.insert(place.min(slots.len()), slot);
        }
        Self { slots: Mutex::new(slots) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Slot>, Problem> {
        let found = self.lock().iter().find(|slot| slot.info.id == id).cloned();
        found.ok_or_else(|| {
            let message = format!("Context {id} not found");
            Problem::new(Kind::NotFound, "context_not_found", message)
        })
    }

    /// The language's own context; made if there is none.
    fn default_of(&self, language: Language) -> Arc<Slot> {
        let mut slots = self.lock();
        let known = slots.iter().find(|slot| slot.info.id == language.as_str()).cloned();
        known.unwrap_or_else(|| {
            let new = Arc::new(Slot::default_of(language));
            slots.push(new.clone());
            new
        })
    }

    fn add(&self, slot: Slot) -> Result<Arc<Slot>, Problem> {
        let mut slots = self.lock();
        if slots.len() >= MOST {
            let message = format!("the sandbox already has {MOST} contexts");
            return Err(
                Problem::new(Kind::TooMany, "too_many_contexts", message).hint("delete one first")
            );
        }
        let slot = Arc::new(slot);
        slots.push(slot.clone());
        Ok(slot)
    }

    fn remove(&self, slot: &Arc<Slot>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, slot));
    }
}

/// The contexts of a sandbox that runs.
#[derive(Debug, Clone)]
pub struct Contexts {
    sandbox: Arc<Sandbox>,
    live: Arc<Live>,
}

impl Contexts {
    pub fn of(sandbox: &Arc<Sandbox>, live: Arc<Live>) -> Self {
        Self { sandbox: sandbox.clone(), live }
    }

    pub fn list(&self) -> Vec<ContextInfo> {
        self.live.interpreters.lock().iter().map(|slot| slot.info.clone()).collect()
    }

    /// Makes a context; when this answers, its interpreter waits for code.
    pub async fn create(
        &self,
        language: Language,
        cwd: Option<&str>,
    ) -> Result<ContextInfo, Problem> {
        // Whether the template has it is known before anything is made.
        self.options(language, None)?;
        let id = Secret::random().map_err(|error| Problem::internal("generate an id", &error))?;
        let info = ContextInfo {
            id: id.expose()[..32].to_owned(),
            language,
            cwd: cwd.unwrap_or(HOME).to_owned(),
        };
        let slot = self.live.interpreters.add(Slot::new(info.clone()))?;
        // Whoever asked may go; a context without an interpreter must not stay.
        let (this, made) = (self.clone(), slot.clone());
        let started = tokio::spawn(async move {
            let started = made.interpreter(&this).await;
            if started.is_err() {
                this.live.interpreters.remove(&made);
            }
            started
        });
        let started =
            started.await.map_err(|error| Problem::internal("create a context", &error))?;
        started.map_err(|error| self.not_made(&error, cwd))?;
        Ok(info)
    }

    /// Gives a context a new interpreter. What runs in it ends with an error that
    /// says so.
    pub async fn restart(&self, id: &str) -> Result<(), Problem> {
        let slot = self.live.interpreters.find(id)?;
        let this = self.clone();
        let restarted = tokio::spawn(async move { slot.restart(&this).await });
        let restarted = restarted.await;
        let restarted = restarted.map_err(|error| Problem::internal("restart", &error))?;
        restarted.map_err(|error| self.not_made(&StartError::Engine(error), None))
    }

    /// Interrupts what runs in a context, if anything does; its state stays.
    pub fn interrupt(&self, id: &str) -> Result<(), Problem> {
        self.live.interpreters.find(id)?.interrupt();
        Ok(())
    }

    pub async fn delete(&self, id: &str) -> Result<(), Problem> {
        let slot = self.live.interpreters.find(id)?;
        self.live.interpreters.remove(&slot);
        let this = self.clone();
        let deleted = tokio::spawn(async move { slot.delete(&this).await });
        deleted.await.map_err(|error| Problem::internal("delete a context", &error))
    }

    /// Runs code; outputs come as they occur. Code that nobody listens to any
    /// more is interrupted.
    pub fn run(
        &self,
        place: &Place,
        code: String,
        env: BTreeMap<String, String>,
    ) -> Result<Execution, Problem> {
        self.run_within(place, code, env, Allowance::default())
    }

    /// As [`Self::run`], for code that may take only so much.
    pub fn run_within(
        &self,
        place: &Place,
        code: String,
        env: BTreeMap<String, String>,
        allowance: Allowance,
    ) -> Result<Execution, Problem> {
        check_env(&env)?;
        let slot = match place {
            Place::Context(id) => self.live.interpreters.find(id)?,
            Place::Language(language) => {
                self.options(*language, None)?;
                self.live.interpreters.default_of(*language)
            }
        };
        Ok(Execution::start(self.clone(), slot, code, env, allowance))
    }

    fn options(&self, language: Language, cwd: Option<String>) -> Result<ContextOptions, Problem> {
        let mut options = self.sandbox.template().context(language)?;
        options.env.extend(self.sandbox.env());
        options.cwd = cwd;
        Ok(options)
    }

    /// What a context lacks of the sandbox's environment, because it is a copy
    /// from one that had another.
    fn lacks(&self, context: &Context) -> BTreeMap<String, String> {
        let has = &context.options().env;
        let own = self.sandbox.env().into_iter();
        own.filter(|(key, value)| has.get(key) != Some(value)).collect()
    }

    /// What became of an interpreter that was to start.
    fn not_made(&self, error: &StartError, cwd: Option<&str>) -> Problem {
        match error {
            StartError::Engine(ContextError::Link(_) | ContextError::Call(CallError::Link(_))) => {
                Problem::gone()
            }
            StartError::Deleted => {
                Problem::new(Kind::NotFound, "context_not_found", "the context was deleted")
            }
            StartError::Engine(ContextError::Unfit(why)) if cwd.is_some() => bad_cwd(why),
            StartError::Engine(ContextError::Call(CallError::Refused { doing, source }))
                if cwd.is_some() =>
            {
                bad_cwd(&format!("cannot {doing}: {source}"))
            }
            error => self.sandbox.failed(&self.live, "start an interpreter", error),
        }
    }
}

fn bad_cwd(why: &str) -> Problem {
    let message = format!("Failed to set working directory: {why}");
    Problem::new(Kind::Invalid, "bad_working_directory", message)
}
