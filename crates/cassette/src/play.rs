//! Plays exchanges back.
//!
//! A request that was recorded several times is answered in the recorded order,
//! so that a retry sees first the failure and then the success. After the last
//! one comes the last one again, or a miss: see [`After`].

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_domain::network::CassetteId;

use crate::blob::{BlobError, Blobs};
use crate::index::{End, Entry, IndexError};
use crate::matching::Key;
use crate::miss::{self, Miss};
use crate::pieces::Pieces;
use crate::request::Question;
use crate::store::Tenant;
use crate::{Limits, Matching, Redactor, Request, RequestError, StoreError};

/// How a cassette is played.
#[derive(Debug, Clone, Default)]
pub struct Playback {
    pub matching: Matching,
    pub after: After,
}

/// What a request gets that comes more often than it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum After {
    /// The last answer again. How often a program asks for the same page may
    /// depend on timing; that it gets the same page does not.
    #[default]
    Repeat,
    Miss,
}

/// A cassette that is being played. What is recorded elsewhere after it was
/// opened is not on it.
#[derive(Debug)]
pub struct Player {
    blobs: Blobs,
    redactor: Mutex<Redactor>,
    limits: Limits,
    playback: Playback,
    state: Mutex<State>,
    _tenant: File,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<Arc<Entry>>,
    recorded: HashMap<Key, Queue>,
    /// Of each entry, whether it has been played.
    played: Vec<bool>,
}

/// The exchanges of one request.
#[derive(Debug, Default)]
struct Queue {
    numbers: Vec<usize>,
    next: usize,
}

/// A recorded answer.
#[derive(Debug)]
pub struct Played {
    pub status: u16,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Of the body: what frames it on the wire. A `content-length` among the
    /// headers may be that of an answer without a body, or of a broken one.
    pub bytes: u64,
    pub pieces: Pieces,
    /// `Broken`: after the last piece the connection is to be cut.
    pub end: End,
    /// Which exchange of the cassette it is, from 0.
    pub number: usize,
    /// Whether it has been played before.
    pub repeated: bool,
}

/// Why a request has no recorded answer. None of these may be a reason to ask
/// the world instead, except a miss where the policy says so.
#[derive(Debug, thiserror::Error)]
pub enum NotPlayed {
    #[error(transparent)]
    Missed(Box<Miss>),
    #[error("the request cannot be looked up")]
    Request(#[from] RequestError),
    #[error("the recorded answer cannot be read")]
    Damaged(#[from] BlobError),
}

#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a recorded request cannot be read")]
    Blob(#[from] BlobError),
}

impl Tenant {
    /// Opens a cassette to be played. The redactor must know the secrets that
    /// are in use now; they need not be those of the recording.
    pub fn play(
        &self,
        name: &CassetteId,
        redactor: Redactor,
        playback: Playback,
    ) -> Result<Player, PlayError> {
        let tenant = self.hold()?;
        let entries = match self.read(name) {
            // Nothing was asked while it was recorded.
            Err(StoreError::Index { source: IndexError::Absent, .. }) if self.has(name) => vec![],
            index => index?.entries,
        };
        let player = Player {
            blobs: self.blobs.clone(),
            redactor: Mutex::new(redactor),
            limits: self.limits,
            playback,
            state: Mutex::default(),
            _tenant: tenant,
        };
        for entry in entries {
            player.learn(entry)?;
        }
        Ok(player)
    }
}

impl Player {
    /// Adds what was recorded just now, so that what went out once because it
    /// was missing is not sent twice.
    pub fn learn(&self, entry: Entry) -> Result<(), BlobError> {
        let key = self.playback.matching.of_entry(&entry.request, &self.blobs)?;
        let mut state = self.state();
        let number = state.entries.len();
        state.recorded.entry(key).or_default().numbers.push(number);
        state.entries.push(Arc::new(entry));
        state.played.push(false);
        Ok(())
    }

    pub fn find(&self, request: &Request<'_>) -> Result<Played, NotPlayed> {
        let redactor = self.redactor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let question = Question::new(request, &redactor, self.limits.held_bytes)?;
        let key = self.playback.matching.of_question(&question);
        let taken = self.state().take(key, self.playback.after);
        let Some((number, entry, repeated)) = taken else {
            return Err(NotPlayed::Missed(Box::new(self.miss(&question))));
        };
        let answer = &entry.answer;
        let bytes =
            |value: &String| value.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect();
        Ok(Played {
            status: answer.status,
            headers: answer
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), bytes(value)))
                .collect(),
            bytes: answer.body.map_or(0, |blob| blob.bytes),
            pieces: Pieces::open(answer, &self.blobs)?,
            end: answer.end,
            number,
            repeated,
        })
    }

    /// Redacts otherwise from now on.
    pub fn redact_with(&self, redactor: Redactor) {
        *self.redactor.lock().unwrap_or_else(PoisonError::into_inner) = redactor;
    }

    /// How many exchanges have not been played: a run that asked for less than
    /// the recorded one is another run.
    pub fn unplayed(&self) -> usize {
        self.state().played.iter().filter(|played| !**played).count()
    }

    fn miss(&self, question: &Question) -> Miss {
        let (entries, played) = {
            let state = self.state();
            (state.entries.clone(), state.played.clone())
        };
        miss::explain(question, &entries, &played, &self.playback.matching, &self.blobs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, key: Key, after: After) -> Option<(usize, Arc<Entry>, bool)> {
        let queue = self.recorded.get_mut(&key)?;
        let is_over = queue.next == queue.numbers.len();
        let number = match queue.numbers.get(queue.next) {
            Some(number) => *number,
            None if after == After::Repeat => *queue.numbers.last()?,
            None => return None,
        };
        queue.next = (queue.next + 1).min(queue.numbers.len());
        *self.played.get_mut(number)? = true;
        Some((number, self.entries.get(number)?.clone(), is_over))
    }
}
