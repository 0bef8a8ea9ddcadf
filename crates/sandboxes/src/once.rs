//! Calls that are executed once, however often they are asked for.
//!
//! ```text
//!   request with a key ─► known? ─┬─ no: execute, and write down what it says
//!                                 └─ yes: the same request? ─┬─ no: refuse
//!                                                            └─ yes: tell it again,
//!                                                               and what is still to come
//! ```
//!
//! A sandbox knows the keys of its last calls as long as it lives, also while it
//! is paused; what goes to disk with its sandbox comes back with it. Copies know
//! no key of their original's. Of what calls said, their beginnings and ends are
//! kept; when that is too much for one sandbox, the oldest that are over keep
//! only how they ended.
//!
//! Beside them stands the fence: the highest generation that anybody has asked
//! with. Whoever asks with a lower one has been replaced by somebody, and must
//! not do anything any more. It is looked at in the same breath in which a call
//! is entered, so that none can slip in between.

mod call;
mod cell;
mod log;
mod recorded;
mod written;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::contexts::Output;
use crate::create::check_key;
use crate::problem::{Kind, Problem};

pub use call::{OnceCommand, Said};
pub use log::Amount;
use log::Piece;
use recorded::Recorded;
pub use recorded::{Listening, Told};
pub(crate) use written::WrittenCalls;

/// The most keys that one sandbox knows.
const MOST_KEYS: usize = 1024;

/// The most of its calls with keys that run, or wait for their turn.
const MOST_RUNNING: usize = 16;

/// The most that is kept of what all of them said.
const MOST_SAID: u64 = 8 << 20;

/// A call as it is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    key: String,
    /// Of what is to be done.
    request: [u8; 32],
    generation: Option<u64>,
}

/// A call, heard from its beginning on.
#[derive(Debug)]
pub struct Heard<T: Piece> {
    pub listening: Listening<T>,
    /// Whether it was asked for before.
    pub is_repeated: bool,
}

/// The calls of one sandbox that bear keys.
#[derive(Debug, Default)]
pub(crate) struct Once {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    known: HashMap<String, Entry>,
    /// The keys, the oldest first.
    order: VecDeque<String>,
    generation: Option<u64>,
}

#[derive(Debug)]
struct Entry {
    request: [u8; 32],
    kept: Kept,
}

#[derive(Debug, Clone)]
enum Kept {
    Cell(Arc<Recorded<Output>>),
    Call(Arc<Recorded<Said>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    New,
    Before,
}

impl Asked {
    /// A request to do `what`, under a key. What is the same is the same request,
    /// in whatever form it came.
    pub fn new(
        key: &str,
        operation: &str,
        what: &impl Serialize,
        generation: Option<u64>,
    ) -> Result<Self, Problem> {
        check_key(key)?;
        let what = serde_json::to_vec(what);
        let what = what.map_err(|error| Problem::internal("read a request", &error))?;
        let request = Sha256::new().chain_update(operation).chain_update([0]).chain_update(what);
        Ok(Self { key: key.to_owned(), request: request.finalize().into(), generation })
    }
}

impl<T: Piece> Heard<T> {
    fn of(recorded: &Arc<Recorded<T>>, entered: Entered) -> Self {
        Self { listening: recorded.listen(), is_repeated: entered == Entered::Before }
    }

    fn again(recorded: &Arc<Recorded<T>>) -> Self {
        Self::of(recorded, Entered::Before)
    }
}

impl Kept {
    fn is_over(&self) -> bool {
        match self {
            Self::Cell(cell) => cell.is_over(),
            Self::Call(call) => call.is_over(),
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Self::Cell(cell) => cell.weight(),
            Self::Call(call) => call.weight(),
        }
    }

    fn shed(&self) {
        match self {
            Self::Cell(cell) => cell.shed(),
            Self::Call(call) => call.shed(),
        }
    }
}

impl Once {
    /// Refuses whoever was replaced. Answers whether this generation is new.
    pub(crate) fn fence(&self, generation: u64) -> Result<bool, Problem> {
        self.lock().fence(Some(generation))
    }

    pub(crate) fn generation(&self) -> Option<u64> {
        self.lock().generation
    }

    /// A call that came to its end, whether or not its sandbox runs.
    fn finished(&self, asked: &Asked) -> Result<Option<Kept>, Problem> {
        let mut table = self.lock();
        table.fence(asked.generation)?;
        Ok(table.find(asked)?.filter(Kept::is_over))
    }

    /// The call of this key; if there is none, the one that `begin` begins.
    fn attach_or(
        &self,
        asked: &Asked,
        begin: impl FnOnce() -> Result<Kept, Problem>,
    ) -> Result<(Kept, Entered), Problem> {
        let mut table = self.lock();
        table.fence(asked.generation)?;
        if let Some(known) = table.find(asked)? {
            return Ok((known, Entered::Before));
        }
        if table.running() >= MOST_RUNNING {
            let message =
                format!("{MOST_RUNNING} calls with an Idempotency-Key already run in the sandbox");
            let problem = Problem::new(Kind::TooMany, "too_many_keyed_calls", message);
            return Err(problem.hint("wait until one ends"));
        }
        let kept = begin()?;
        table.make_room();
        table.order.push_back(asked.key.clone());
        table.known.insert(asked.key.clone(), Entry { request: asked.request, kept: kept.clone() });
        Ok((kept, Entered::New))
    }

    /// A call that was not begun after all.
    fn forget(&self, asked: &Asked) {
        let mut table = self.lock();
        table.known.remove(&asked.key);
        table.order.retain(|key| *key != asked.key);
    }

    /// Keeps no more of what was said than may be.
    fn enforce(&self) {
        self.lock().enforce();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn fence(&mut self, generation: Option<u64>) -> Result<bool, Problem> {
        let Some(asked) = generation else { return Ok(false) };
        match self.generation {
            Some(highest) if asked < highest => {
                let message = format!(
                    "generation {asked} is stale: generation {highest} drives this sandbox"
                );
                Err(Problem::new(Kind::Conflict, "stale_generation", message))
            }
            Some(highest) if asked == highest => Ok(false),
            _ => {
                self.generation = Some(asked);
                Ok(true)
            }
        }
    }

    fn find(&self, asked: &Asked) -> Result<Option<Kept>, Problem> {
        match self.known.get(&asked.key) {
            Some(entry) if entry.request != asked.request => Err(mismatch()),
            known => Ok(known.map(|entry| entry.kept.clone())),
        }
    }

    fn running(&self) -> usize {
        self.known.values().filter(|entry| !entry.kept.is_over()).count()
    }

    /// Forgets the oldest that is over when there is no room for one more. Those
    /// that run are fewer than there is room for.
    fn make_room(&mut self) {
        if self.order.len() < MOST_KEYS {
            return;
        }
        let is_over = |key: &String| self.known.get(key).is_none_or(|entry| entry.kept.is_over());
        if let Some(place) = self.order.iter().position(is_over)
            && let Some(key) = self.order.remove(place)
        {
            self.known.remove(&key);
        }
    }

    fn enforce(&mut self) {
        let mut all: u64 = self.known.values().map(|entry| entry.kept.weight()).sum();
        for key in &self.order {
            if all <= MOST_SAID {
                return;
            }
            let Some(Entry { kept, .. }) = self.known.get(key) else { continue };
            if kept.is_over() {
                all -= kept.weight();
                kept.shed();
                all += kept.weight();
            }
        }
    }
}

fn mismatch() -> Problem {
    let message = "this idempotency key was used for another request";
    Problem::new(Kind::Conflict, "idempotency_request_mismatch", message)
}

#[cfg(test)]
mod tests;
