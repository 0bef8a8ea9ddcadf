//! What people want of a run that is under way.

use belljar_domain::{OperationCapped, OperationCaps};
use belljar_journal::event::{BudgetPatch, ControlRequested, Request};
use belljar_journal::{
    Address, Appended, Body, Event, Key, ReadError, RequestError, RunView, read_all,
};

use crate::Runs;
use crate::bounds::OverBudget;
use crate::network::check_caps;
use crate::quota::QuotaError;

/// Wishes of one run that nobody has acted on. Whoever says more does not wait for
/// what comes of them.
const MOST_PENDING: usize = 64;
/// Requests to one run in its whole life. Each stays in its log.
const MOST_REQUESTS: usize = 4096;

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
    #[error("the run waits for an approval of a tool call")]
    Approval,
    #[error("the tool call does not wait any more: it was decided, or its time is over")]
    NoApproval,
    #[error("{MOST_PENDING} requests wait already")]
    TooMany,
    #[error(
        "the run has had {MOST_REQUESTS} requests; only its tool calls can be decided, and it can be cancelled"
    )]
    UsedUp,
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
        if is_so_already(&view, &request) {
            return Ok(());
        }
        check_count(&view, own(&events), &request)?;
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

/// Returns true if a request would change nothing.
fn is_so_already(view: &RunView, request: &Request) -> bool {
    match request {
        Request::Breakpoints { breakpoints } => *breakpoints == view.breakpoints,
        Request::Cancel => {
            let is_asked = view.pending.iter().any(|it| it.asked.request == Request::Cancel);
            view.is_cancelled || is_asked
        }
        _ => false,
    }
}

/// Refuses more requests than a run can have. Their number does not keep a run from being cancelled,
/// nor a call from being decided: a run that waits for that does nothing else, and each call has one
/// decision.
fn check_count(view: &RunView, own: &[Event], request: &Request) -> Result<(), SteerError> {
    if matches!(request, Request::Cancel | Request::Decide { .. }) {
        return Ok(());
    }
    if view.pending.len() >= MOST_PENDING {
        return Err(SteerError::TooMany);
    }
    let requests = own.iter().filter(|event| matches!(event.body, Body::ControlRequested(_)));
    if requests.count() >= MOST_REQUESTS { Err(SteerError::UsedUp) } else { Ok(()) }
}

/// Refuses what the run as it is cannot do.
fn check(view: &RunView, request: &Request) -> Result<(), SteerError> {
    if view.finished.is_some() {
        return Err(SteerError::Finished);
    }
    match request {
        Request::Answer { .. } if view.question.is_none() => Err(SteerError::NoQuestion),
        Request::Resume | Request::Step if view.question.is_some() => Err(SteerError::Question),
        Request::Resume | Request::Step if view.undecided().is_some() => Err(SteerError::Approval),
        Request::Decide { decision } => match view.undecided() {
            Some(asked) if asked.call == decision.call => Ok(()),
            _ => Err(SteerError::NoApproval),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use belljar_domain::{RunId, Sequence};
    use belljar_journal::event::{Breakpoints, CallDecision, CallRef, ForkedFrom, Verdict};
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

    #[test]
    fn what_is_so_already_is_not_written_again() {
        let points = |turns| {
            let breakpoints = Breakpoints { turns, calls: false };
            Request::Breakpoints { breakpoints }
        };
        let mut events = vec![event(1, None, asked(points(true)))];
        let view = RunView::of(&events);
        assert!(is_so_already(&view, &points(true)));
        assert!(!is_so_already(&view, &points(false)));
        assert!(!is_so_already(&view, &Request::Cancel));
        events.push(event(2, None, asked(Request::Cancel)));
        assert!(is_so_already(&RunView::of(&events), &Request::Cancel));
        assert!(!is_so_already(&view, &tell("again")));
    }

    fn decide() -> Request {
        let call = CallRef { turn: 1, id: "c".to_owned() };
        let (verdict, message) = (Verdict::Expired, None);
        Request::Decide { decision: CallDecision { call, verdict, message } }
    }

    /// It takes none of them before its call is decided.
    #[test]
    fn messages_that_wait_do_not_keep_a_call_from_being_decided() {
        let most = MOST_PENDING as u64;
        let events: Vec<_> = (1..=most).map(|n| event(n, None, asked(tell("more")))).collect();
        let view = RunView::of(&events);
        assert_eq!(view.pending.len(), MOST_PENDING);
        let refused = check_count(&view, &events, &tell("more"));
        assert!(matches!(refused, Err(SteerError::TooMany)));
        assert!(check_count(&view, &events, &decide()).is_ok());
        assert!(check_count(&view, &events, &Request::Cancel).is_ok());
    }

    #[test]
    fn requests_of_one_run_are_bounded_and_it_can_be_cancelled_all_the_same() {
        let points = |turns| {
            let breakpoints = Breakpoints { turns, calls: false };
            Request::Breakpoints { breakpoints }
        };
        let most = MOST_REQUESTS as u64;
        let events: Vec<_> =
            (1..=most).map(|n| event(n, None, asked(points(n % 2 == 0)))).collect();
        let view = RunView::of(&events);
        assert!(view.pending.is_empty());
        let refused = check_count(&view, &events, &tell("more"));
        assert!(matches!(refused, Err(SteerError::UsedUp)));
        assert!(check_count(&view, &events[1..], &tell("more")).is_ok());
        assert!(check_count(&view, &events, &Request::Cancel).is_ok());
        assert!(check_count(&view, &events, &decide()).is_ok());
        let mut forked_events = events;
        forked_events.push(event(most + 1, None, forked()));
        assert!(check_count(&view, own(&forked_events), &tell("more")).is_ok());
    }
}
