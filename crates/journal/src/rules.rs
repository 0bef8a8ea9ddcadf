//! What may be written, by whom: the same for every journal.

use crate::blob::{MOST_BLOB_BYTES, Stored};
use crate::error::{AppendError, Failure};
use crate::event::{Body, ControlRequested, Request};
use crate::journal::{First, NewEvent, State};

/// How long the beginning of a question is.
const TITLE: usize = 120;

/// An event that may be written, as it will be stored.
pub fn check(event: &NewEvent) -> Result<Stored, AppendError> {
    let body = &event.body;
    let is_foreign = matches!(
        body,
        Body::RunCreated(_)
            | Body::ForkedFrom(_)
            | Body::LeaseTaken(_)
            | Body::ControlRequested(_)
            | Body::Unknown(_)
    );
    if is_foreign {
        return Err(AppendError::NotYours(body.kind().to_owned()));
    }
    if body.wants_to_be_last() && event.seen.is_none() {
        return Err(AppendError::Blind(body.kind().to_owned()));
    }
    store(body)?.ok_or(AppendError::TooLarge)
}

/// None: longer than is kept.
pub fn store(body: &Body) -> Result<Option<Stored>, Failure> {
    let stored = Stored::of(body).map_err(Failure::new)?;
    Ok((stored.bytes() <= MOST_BLOB_BYTES).then_some(stored))
}

/// Whether somebody should work on the run after this event; none: as before.
pub fn ready_after(body: &Body) -> Option<bool> {
    match body {
        Body::ControlRequested(ControlRequested {
            request:
                Request::Resume
                | Request::Cancel
                | Request::Step
                | Request::Answer { .. }
                | Request::Decide { .. },
            ..
        }) => Some(true),
        _ => {
            State::after(body.kind()).map(|state| matches!(state, State::Waiting | State::Running))
        }
    }
}

/// How a list shows the run.
pub fn title(first: &First) -> String {
    match first {
        First::Created(created) => {
            let words = created.question.split_whitespace();
            let line = words.collect::<Vec<_>>().join(" ");
            line.chars().filter(|c| !c.is_control()).take(TITLE).collect()
        }
        First::Forked(forked) => match &forked.retry {
            Some(retry) => format!("attempt {} after {}", retry.attempt, forked.parent),
            None => format!("fork of {} after {}", forked.parent, forked.after),
        },
    }
}
