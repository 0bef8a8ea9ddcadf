//! What people want of a run that is under way.

use belljar_journal::event::{BudgetPatch, ControlRequested, Request};
use belljar_journal::{
    Address, Appended, Body, Event, Key, ReadError, RequestError, RunView, read_all,
};
use belljar_model::{OperationCapped, OperationCaps};

use crate::Runs;
use crate::bounds::OverBudget;
use crate::network::check_caps;
use crate::quota::QuotaError;

/// Wishes of one run that nobody has acted on. Whoever says more does not wait for
/// what comes of them.
const MOST_PENDING: usize = 64;

/// Why a wish was not written down.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    #[error("there is no such run")]
    NoRun,
    #[error("the run is over")]
    Finished,
    #[error("the run waits for an answer to its question")]
    Question,
    #[error("the run has asked no question")]
    NoQuestion,
    #[error("{MOST_PENDING} requests wait already")]
    TooMany,
    #[error(transparent)]
    Capped(#[from] OperationCapped),
    #[error(transparent)]
    Budget(#[from] OverBudget),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error("this idempotency key was used for another request to the run")]
    Mismatch,
    #[error("cannot read the run")]
    Read(#[source] ReadError),
    #[error("cannot write the request down")]
    Write(#[source] RequestError),
}

impl Runs {
    /// Writes a wish down; whoever works on the run does it next.
    ///
    /// Caps hold for all but a pause and a cancellation: those let a run do less.
    /// With a key, it is written once. Repeating it is no error, even if the run is over by then.
    pub async fn steer(
        &self,
        run: &Address,
        request: Request,
        by: &str,
        caps: &OperationCaps,
        key: Option<&str>,
    ) -> Result<(), SteerError> {
        if let Request::Budget { change: BudgetPatch(budget) } = &request {
            self.settings().bounds.check(budget)?;
        }
        let events = read_all(&**self.journal(), run).await.map_err(|error| match error {
            ReadError::NoRun => SteerError::NoRun,
            error => SteerError::Read(error),
        })?;
        let view = RunView::of(&events);
        if !matches!(request, Request::Pause | Request::Cancel) {
            check_caps(&view, caps)?;
        }
        let key = key.map(|key| Key::new(&format!("request:{key}")));
        if let Some(before) = key.as_ref().and_then(|key| keyed(&events, key)) {
            return same(before, &request);
        }
        check(&view, &request)?;
        if let Request::Budget { change: BudgetPatch(budget) } = &request {
            self.check_raise(run, &view, budget).await?;
        }
        if view.pending.len() >= MOST_PENDING {
            return Err(SteerError::TooMany);
        }
        let asked = ControlRequested { request: request.clone(), by: by.to_owned() };
        let written = self.journal().request(run, asked, key).await;
        let written = written.map_err(|error| match error {
            RequestError::NoRun => SteerError::NoRun,
            RequestError::Finished => SteerError::Finished,
            error => SteerError::Write(error),
        })?;
        if let Appended::Repeated(seq) = written {
            // The same key came at the same moment.
            let before = self.journal().read(run, seq, 1).await.map_err(SteerError::Read)?;
            return before.first().map_or(Ok(()), |before| same(before, &request));
        }
        self.0.bell.notify_one();
        Ok(())
    }
}

/// The event of a run's own that has this key. Keys of the run that it was forked from are no
/// keys of it.
fn keyed<'e>(events: &'e [Event], key: &Key) -> Option<&'e Event> {
    own(events).iter().find(|event| event.key.as_ref() == Some(key))
}

/// The events of a run without those of the run that it was forked from.
fn own(events: &[Event]) -> &[Event] {
    let fork = events.iter().rposition(|event| matches!(event.body, Body::ForkedFrom(_)));
    &events[fork.unwrap_or(0)..]
}

/// Refuses another request under the key of one that was written down.
fn same(before: &Event, request: &Request) -> Result<(), SteerError> {
    match &before.body {
        Body::ControlRequested(before) if before.request == *request => Ok(()),
        _ => Err(SteerError::Mismatch),
    }
}

/// Refuses what the run as it is cannot do.
fn check(view: &RunView, request: &Request) -> Result<(), SteerError> {
    if view.finished.is_some() {
        return Err(SteerError::Finished);
    }
    match request {
        Request::Answer { .. } if view.question.is_none() => Err(SteerError::NoQuestion),
        Request::Resume | Request::Step if view.question.is_some() => Err(SteerError::Question),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use belljar_journal::event::ForkedFrom;
    use belljar_model::{RunId, Sequence};
    use time::OffsetDateTime;

    use super::*;

    fn event(seq: u64, key: Option<&str>, body: impl Into<Body>) -> Event {
        let (seq, at) = (Sequence(seq), OffsetDateTime::UNIX_EPOCH);
        Event { seq, at, lease: None, key: key.map(Key::new), body: body.into() }
    }

    fn tell(text: &str) -> Request {
        Request::Tell { text: text.to_owned() }
    }

    fn asked(request: Request) -> ControlRequested {
        ControlRequested { request, by: "a".to_owned() }
    }

    fn forked() -> ForkedFrom {
        let (parent, after) = (RunId::from_bits([1; 16]), Sequence(1));
        let (model, prompt, budget, retry) = Default::default();
        ForkedFrom { parent, after, model, prompt, budget, retry }
    }

    #[test]
    fn a_key_stands_for_one_request_of_one_run() {
        let of_parent = event(1, Some("request:k"), asked(tell("one")));
        let fork = event(2, None, forked());
        let key = Key::new("request:k");
        assert!(keyed(&[of_parent.clone(), fork.clone()], &key).is_none());
        let events = [of_parent, fork, event(3, Some("request:k"), asked(tell("two")))];
        let before = keyed(&events, &key).unwrap();
        assert_eq!(before.seq, Sequence(3));
        assert!(same(before, &tell("two")).is_ok());
        assert!(matches!(same(before, &tell("three")), Err(SteerError::Mismatch)));
        assert!(matches!(same(before, &Request::Step), Err(SteerError::Mismatch)));
    }
}
